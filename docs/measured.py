"""The first table of docs/performance.md, of what `turnmill bench` has written into results/."""

from collections.abc import Iterator, Sequence
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Final

RESULTS: Final = Path(__file__).parents[1] / "results"
JOB: Final = "Turnmill to the turns topic"
LOADS: Final = ("text deltas, 1 event a record", "text deltas, 8 events a record")
PEERS: Final = ("of Kafka Streams", "of Quix Streams", "of stock Faust")
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
