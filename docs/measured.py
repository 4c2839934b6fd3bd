"""The tables of docs/performance.md and docs/reliability.md that say what commands have written into results/."""

from collections.abc import Iterator, Sequence
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Final

RESULTS: Final = Path(__file__).parents[1] / "results"
JOB: Final = "Turnmill to the turns topic"
LOADS: Final = ("text deltas, 1 event a record", "text deltas, 8 events a record")
PEERS: Final = ("of Kafka Streams", "of Quix Streams", "of stock Faust")
MEASURED: Final = "<!-- measured -->"
TURNS: Final = "turns missing, twice, or of another hash"
SLOWEST: Final = 4  # scenarios of chaos
OF_SOAK: Final = ("peak", "rate", "kill", "runs published", "stored", "turns", "lag, records", "after")
LIVES_ON: Final = "memory of the same worker after it"
WAYS: Final = ("the provider alone", "through the proxy, unpublished", "through the proxy, published")


def rows(page: str, title: str) -> Iterator[dict[str, str]]:
    """Yield the rows, by column, of the first table at or below a line of a page that begins with `title`."""
    text = (RESULTS / f"{page}.md").read_text(encoding="utf-8")
    below = dropwhile(lambda line: not line.startswith("|"), text[text.index(f"\n{title}") + 1 :].splitlines())
    table = ([cell.strip() for cell in line[1:-1].split("|")] for line in takewhile(lambda line: line, below))
    header, _ = next(table), next(table)
    return (dict(zip(header, row, strict=True)) for row in table)


def cells(title: str, leading: Sequence[str], *columns: str, page: str = "benchmark") -> list[str]:
    """Return the cells of the first row that begins like this, in these columns."""
    for row in rows(page, title):
        if [*row.values()][: len(leading)] == [*leading]:
            return [row[column] for column in columns]
    raise LookupError(f"results/{page}.md has no row {leading} below {title!r}")


def lines() -> Iterator[tuple[str, str]]:
    """Yield what was measured, and how much it was."""
    loads = [cells(f"**{load}**", [JOB], "events/s", "of the raw read", *PEERS) for load in LOADS]
    yield (
        "events a second into turns, broker, worker and all on two cores: one event a record; eight",
        "; ".join(load[0] for load in loads),
    )
    yield (
        "of Kafka Streams, Quix Streams and stock Faust, which do a part of the job, in the same run",
        "; ".join(", ".join(load[2:]) for load in loads),
    )
    yield "of a reader that parses each record and does nothing", "; ".join(load[1] for load in loads)
    bare = [f"{store}, {what}" for store in ("SQLite", "Postgres") for what in ("turns alone", "and both")]
    stored = cells("**CPU µs of a turn", [LOADS[1]], *bare)
    yield (
        "CPU of storing a turn, without and with search and sums",
        "SQLite {} and {} µs, Postgres {} and {} µs".format(*stored),
    )
    yield (
        "from a run's `end` to its rows in SQLite, at 5,000 events/s: p50, p99",
        ", ".join(cells("**From a run's `end`", ["sqlite"], "p50", "p99")),
    )
    yield (
        "from a live event to one of 500 readers, beside queries: p50, p99",
        ", ".join(cells("**The gateway with", ["an event, from its producer to its reader"], "p50", "p99")),
    )
    memory = [row["most resident memory"] for row in rows("benchmark", "**Memory of a worker")]
    yield (
        "memory of a worker; at a lag of five million events; for an open turn with 5 KB of text",
        "; ".join([memory[0], memory[-1], *cells("**Memory of open turns", ["a turn more"], "just read")]),
    )
    tee = [cells("**CPU of a chat server", [count, "`run.tee`"], "of a core, a stream")[0] for count in ("1", "20")]
    yield "an agent that publishes a stream of 50 tokens/s; each of 20 streams, of a core", "; ".join(tee)
    proxied = [cells("**The proxy", [way], "first byte, p50")[0] for way in WAYS]
    yield (
        "the first byte comes later under `turnmill run`",
        cells("**A program that speaks", ["1", "`turnmill run`"], "than alone")[0].partition(",")[0],
    )
    yield "the first byte from a provider; by the proxy, without and with publishing", "; ".join(proxied)
    yield (
        "[usage](#reports-of-usage) of 30 days by model, five million turns, SQLite and Postgres: p50, p99",
        "; ".join(
            cells("| report: p50", ["30 days by model"], "SQLite, 5 million", "Postgres, 5 million", page="reports")
        ),
    )
    stores = [f"{store}, 5 million turns: p50, p99" for store in ("SQLite", "Postgres")]
    yield (
        "[a search](#searches) for a word in one turn of 100,000, five million turns, SQLite and Postgres: p50, p99",
        "; ".join(cells("| a search for", ["a word in one turn of 100,000"], *stores, page="reports")),
    )


def copied(page: str) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Return the header and the rows of a page's first table."""
    measured = list(rows(page, MEASURED))
    return [*measured[0]], [[*row.values()] for row in measured]


def soaked() -> Iterator[Sequence[str]]:
    """Yield the rows of the soak that say whether it was passed."""
    for what, figure in copied("soak")[1]:
        if what.startswith(OF_SOAK) or what == LIVES_ON:
            yield ("memory of the worker that lives on" if what == LIVES_ON else what), figure


def slowest() -> Iterator[tuple[str, str]]:
    """Yield the scenarios of chaos that took longest to recover, and the longest of all others."""
    seconds = {row["scenario"]: row["worst time to recover"] for row in rows("chaos", MEASURED)}
    took = sorted(seconds.items(), key=lambda each: -float(each[1].removesuffix(" s")))
    yield from took[:SLOWEST]
    yield "any other", f"at most {took[SLOWEST][1]}"


def tried() -> Iterator[tuple[str, str, str]]:
    """Yield by what the guarantees are tried, what that is, and what came of it last."""
    whole = (RESULTS / "chaos.md").read_text(encoding="utf-8").partition(MEASURED)[2].strip().partition(".")[0]
    soak = dict(copied("soak")[1])
    stops = [row["took, at worst"].partition(" (")[0] for row in rows("restarts", MEASURED)]
    alone, beside = [row["99 of 100"] for row in rows("neighbours", MEASURED)][:2]
    proof = {
        row["command"]: f"{row['result']}, on {row['commit']}" if row["commit"] else row["result"]
        for row in rows("proof", "`make test-all`")
    }
    yield (
        "[`make simulate`](#simulation)",
        "schedules of kills, lost requests, disorder, hostile tenants, each from a seed",
        proof["simulate"],
    )
    yield (
        "`make simulate ARGS=mutants`",
        "the same, with one rule of the pipeline removed",
        f"each of {len(copied('simulation')[1])} mutants is detected",
    )
    yield "[`make chaos`](#chaos)", "brokers, workers, stores, disks and networks that break while agents talk", whole
    yield (
        "[`make soak`](#soak)",
        "an hour at half of the peak, with a `kill -9` every two minutes",
        f"{soak['runs published'].replace(' (', ' runs (')}; missing, twice, or of another hash: {soak[TURNS]}",
    )
    yield (
        "[`make restarts`](#stops-and-starts)",
        "stops, starts, and a roll of three workers under load",
        "stop {}, start {}, a turn's delay {}, at worst".format(*stops),
    )
    yield (
        "[neighbours](#neighbours)",
        "a tenant whose runs weigh more than a worker may hold",
        f"99 of 100 turns of another tenant are stored within {beside}, {alone} without it",
    )
    yield (
        "`make attack`",
        "what a hostile tenant can send ([Security](security.md)), to processes with the memory that the chart gives",
        proof["attack"],
    )
    yield "`make test`", "everything above in small, with a real Kafka and a real Postgres", proof["test"]
