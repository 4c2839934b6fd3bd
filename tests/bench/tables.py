"""The tables of a suite, with rounded figures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tests.bench import capture, growth
from tests.bench.capture import Captured
from tests.bench.contenders import CONTENDERS, RATIOS
from tests.bench.gateway import PACE, GatewayLoad
from tests.bench.history import History
from tests.bench.memory import OpenTurns
from tests.bench.proxy import DIRECT, Proxied
from tests.bench.proxy import MODES as PROXY_MODES
from tests.bench.publishing import MODES, PLAIN, Publishing
from tests.bench.result import percentile
from tests.bench.results import Result, Suite
from tests.bench.retention import BATCH
from tests.bench.scale import Scale
from tests.bench.searching import Searches
from tests.bench.targets import aims, beyond_turns

NONE: Final = "–"
FAILED: Final = "failed"
SHARES: Final = (50, 95, 99, 100)
# Contenders that store turns -> what of it is kept: a column of the table of what that costs.
STORE_COLUMNS: Final = {
    f"{store}{kept}": f"{title}, {what}"
    for store, title in (("sqlite", "SQLite"), ("postgres", "Postgres"))
    for kept, what in (("-bare", "turns alone"), ("-search", "and search"), ("-sums", "and sums"), ("", "and both"))
}


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def sheets(suite: Suite) -> Iterator[Sheet]:
    """A table for each part that was measured."""
    yield from map(_throughput, suite.results)
    if any(STORE_COLUMNS.keys() & result.measured.keys() for result in suite.results if result.load.text):
        yield _store_costs([result for result in suite.results if result.load.text])
    if suite.latencies:
        yield Sheet(
            "From a run's `end` to its rows, 5,000 events/s",
            ("store", "runs", "p50", "p95", "p99", "most"),
            [(one.store, str(len(one.ms)), *_spread(one.ms)) for one in suite.latencies],
        )
    if suite.backlogs:
        live = [("0 (5,000 events/s come in)", _mb(one.memory)) for one in suite.latencies if one.store == "sqlite"]
        rows = [*live, *((f"{one.events:,}", _mb(one.most)) for one in suite.backlogs)]
        yield Sheet("Memory of a worker with SQLite", ("events of lag", "most resident memory"), rows)
    if suite.open_turns:
        yield _open_turns(suite.open_turns)
    if suite.publishing:
        yield _publishing(suite.publishing)
    if suite.captured:
        yield _captured(suite.captured)
    if suite.gateway is not None:
        yield from _gateway(suite.gateway)
    if suite.proxy is not None:
        yield _proxy(suite.proxy)
    if suite.histories:
        yield from _histories(suite.histories)
    if suite.lake:
        yield Sheet(
            "The archive, where the tables hold a month of turns",
            ("", "turns", "CPU µs a turn", "CPU", "memory beside what it had"),
            [
                (one.what, f"{one.turns:,}", f"{one.cost:,.0f}", f"{one.cpu:,.1f} s", _mb(one.memory))
                for one in suite.lake
            ],
        )
    if suite.asked:
        rows = [
            (f"{one.size:,}" if one.size else "none", f"{one.cost:,.0f}", f"{one.more:+.0%}") for one in suite.asked
        ]
        yield Sheet(
            "Storing turns with a request that is known, SQLite", ("bytes of it", "CPU µs a turn", "more"), rows
        )
    if suite.growth:
        yield Sheet(
            f"Storing a turn of {growth.WORDS} words as the store grows",
            (
                *("store", "with", "turns stored", "CPU µs a turn", "with the server"),
                *("bytes a turn", "of them JSON", "to count all"),
            ),
            [_grown_store(one) for one in suite.growth],
        )
    if suite.expiries:
        yield Sheet(
            f"Writing {BATCH} turns in a transaction, while stored ones expire",
            ("", "store", "turns", "p50", "p95", "p99", "most", "expired turns/s"),
            [(one.what, one.store, f"{one.turns:,}", *_spread(one.ms), f"{one.rate:,.0f}") for one in suite.expiries],
        )
    if suite.searches:
        yield from _searches(suite.searches)
    yield from _scale(suite.scale)
    if suite.assembly:
        yield Sheet(
            "Assembly in process",
            ("dialect", "load", "assembly, events/s", "of orjson.loads alone"),
            [
                (row.dialect, row.load, f"{row.assembly_rate:,.0f}", f"{row.assembly_rate / row.json_rate:.2f}")
                for row in suite.assembly
            ],
        )
    wanted = [aim.row() for aim in aims(suite)]
    if wanted:
        yield Sheet("Against the targets", ("", "measured", "target", ""), wanted)


def _grown_store(one: growth.Growth) -> tuple[str, ...]:
    whole = "-" if one.server is None else f"{one.client + one.server:,.0f}"
    cost = one.store, one.indexes, f"{one.turns:,}", f"{one.client:,.0f}", whole
    return *cost, f"{one.size:,.0f}", f"{one.json:,}", f"{one.count:.2f} s"


def _throughput(result: Result) -> Sheet:
    others = {name: title for name, title in RATIOS.items() if name in result.measured}
    rows: list[tuple[str, ...]] = []
    for name in result.measured:
        cost = result.cost(name)
        ratios = [(other, result.ratio(name, other)) for other in others]
        rows.append(
            (
                CONTENDERS[name].title,
                f"{result.rate(name):,.0f}",
                NONE if cost is None else f"{cost:.2f}",
                *(NONE if ratio is None else _ratio(ratio, other) for other, ratio in ratios),
            )
        )
    rows += [(CONTENDERS[name].title, FAILED, *[NONE] * (1 + len(others))) for name in result.failed]
    return Sheet(result.load.title, ("", "events/s", "CPU µs an event", *others.values()), rows)


def _store_costs(results: Sequence[Result]) -> Sheet:
    measured = {who: title for who, title in STORE_COLUMNS.items() if any(who in one.measured for one in results)}
    rows = [(one.load.title, *(_us(beyond_turns(one, who)) for who in measured)) for one in results]
    return Sheet("CPU µs of a turn, beyond the way to the turns topic", ("", *measured.values()), rows)


def _us(us: float | None) -> str:
    return NONE if us is None else f"{us:,.0f}"


def _ratio(ratio: float, other: str) -> str:
    return f"{ratio:.2f}" if other == "raw" else f"{ratio:.1f} ×"


def _open_turns(measured: Sequence[OpenTurns]) -> Sheet:
    """The last row is the memory of one turn: the difference of two counts, without the worker's own memory."""
    rows: list[tuple[str, ...]] = [(f"{one.turns:,}", _mb(one.read), _mb(one.spilled)) for one in measured]
    if len(measured) > 1:
        few, many = measured[0], measured[-1]
        more = many.turns - few.turns
        each = (f"{(b - a) / more / 1000:.1f} KB" for a, b in ((few.read, many.read), (few.spilled, many.spilled)))
        rows.append(("a turn more", *each))
    return Sheet("Memory of open turns, 5 KB of text in each", ("open turns", "just read", "spilled, too"), rows)


def _publishing(measured: Sequence[Publishing]) -> Sheet:
    rows = [
        (
            str(one.streams),
            title,
            f"{one.cost(mode):,.0f}",
            NONE if mode == PLAIN else f"{one.ratio(mode):.2f} ×",
            NONE if mode == PLAIN else f"{one.of_a_core(mode):.2%}",
        )
        for one in measured
        for mode, title in MODES.items()
    ]
    columns = ("streams", "what publishes", "CPU µs an event", "of the same unpublished", "of a core, a stream")
    return Sheet("CPU of a chat server, streams of 50 tokens/s", columns, rows)


def _captured(measured: Sequence[Captured]) -> Sheet:
    rows = [
        (
            str(one.streams),
            title,
            f"{one.cost(mode):,.0f}",
            NONE if mode == PLAIN else f"{one.ratio(mode):.2f} ×",
            f"{one.median(mode):.2f} ms",
            NONE if mode == PLAIN else f"{one.later(mode):+.2f} ms, {one.first_ratio(mode):.2f} ×",
            NONE if mode == PLAIN else f"{one.script_later(mode):+.2f} s",
        )
        for one in measured
        for mode, title in capture.MODES.items()
    ]
    columns = ("streams", "what captures", "CPU µs an event", "of the same alone", "first byte, median", "than alone")
    columns = *columns, "a script with one call"
    return Sheet("A program that speaks to a model, streams of 50 tokens/s", columns, rows)


def _gateway(measured: GatewayLoad) -> Iterator[Sheet]:
    ingest, live = measured.ingest, measured.live
    yield Sheet(
        "The gateway: whole runs uploaded, 32 at once",
        ("runs/s", "events/s", "CPU µs an event", "resident memory", "before"),
        [
            (
                f"{ingest.runs / ingest.seconds:,.0f}",
                f"{ingest.events / ingest.seconds:,.0f}",
                f"{ingest.cpu / ingest.events * 1e6:.0f}",
                _mb(ingest.memory),
                _mb(measured.idle),
            )
        ],
    )
    rows = [
        ("an event, from its producer to its reader", str(len(live.ms)), *_spread(live.ms)),
        *((name, str(len(ms)), *_spread(ms)) for name, ms in measured.queries.items()),
    ]
    connections = "" if live.connections is None else f", {live.connections} connections to the broker"
    title = f"The gateway with {live.readers} live streams of {PACE} events/s each, and queries meanwhile"
    used = f"{live.cpu:.0%} of a core, {_mb(live.memory)} resident{connections}"
    yield Sheet(f"{title}: {used}", ("", "count", "p50", "p95", "p99", "most"), rows)


def _proxy(measured: Proxied) -> Sheet:
    rows = [
        (
            title,
            *(f"{percentile(measured.ms[mode], share):,.1f} ms" for share in SHARES[:3]),
            NONE if mode == DIRECT else f"{measured.cost(mode):,.0f}",
            NONE if mode == DIRECT else f"{measured.ratio(mode):.1f} ×",
        )
        for mode, title in PROXY_MODES.items()
    ]
    columns = ("", "first byte, p50", "p95", "p99", "CPU µs of the gateway a token", "CPU, of the program alone")
    return Sheet("The proxy: calls one after the other, then 20 streams of 50 tokens/s", columns, rows)


def _histories(measured: Sequence[History]) -> Iterator[Sheet]:
    rows = [
        (what, one.store, f"{one.turns:,}", *(f"{percentile(ms, share):,.1f} ms" for share in SHARES))
        for what in dict.fromkeys(what for one in measured for what in one.queries)
        for one in measured
        if (ms := one.queries.get(what))
    ]
    yield Sheet(
        "Reports of usage: 31 days, 100 combinations of tenant, agent, model and provider",
        ("report", "store", "turns", "p50", "p95", "p99", "most"),
        rows,
    )
    built = [
        (one.store, f"{one.turns:,}", f"{one.summed:,.0f} s", f"{one.turns / one.summed:,.0f}") for one in measured
    ]
    yield Sheet("Building sums of what is stored already", ("store", "turns", "time", "turns/s"), built)


def _searches(measured: Sequence[Searches]) -> Iterator[Sheet]:
    costs = [
        (
            one.store,
            *(f"{min(one.cost[name]):.0f}" for name in ("off", "on")),
            f"{one.more(one.cost):+.0%}",
            *(f"{one.room[name]:,.0f}" for name in ("off", "on")),
            f"{one.more(one.room):+.0%}",
        )
        for one in measured
    ]
    columns = ("store", "CPU µs a turn", "with words", "", "bytes a turn", "with words", "")
    yield Sheet("Writing turns of 45 words, 500 in a transaction, without what is searched and with it", columns, costs)
    rows = [
        (what, one.store, f"{one.turns:,}", *(f"{percentile(ms, share):,.1f} ms" for share in SHARES))
        for what in dict.fromkeys(what for one in measured for what in one.queries)
        for one in measured
        if (ms := one.queries.get(what))
    ]
    yield Sheet("Searches in what was said", ("for", "store", "turns", "p50", "p95", "p99", "most"), rows)


def _scale(measured: Scale) -> Iterator[Sheet]:
    if measured.processes:
        rows = [
            (
                str(one.count),
                f"{one.measured.rate:,.0f}",
                NONE if one.measured.cost is None else f"{one.measured.cost:.2f}",
            )
            for one in measured.processes
        ]
        shown = ("processes", "events/s", "CPU µs an event")
        yield Sheet("One worker to the turns topic, text deltas, 8 events a record", shown, rows)
    if measured.grown:
        grown = [
            (
                f"{one.partitions:,}",
                f"{one.closed:,}",
                f"{one.entries:,}",
                f"{one.ready:.1f} s",
                f"{one.cpu:.1f} s",
                _mb(one.memory),
                f"{one.joined:.2f} s",
                f"{one.left:.2f} s",
                f"{one.idle:.1%}",
            )
            for one in measured.grown
        ]
        columns = (
            *("partitions", "closed runs", "records of state", "start → ready", "CPU of it", "resident memory"),
            *("still as another joins", "as it leaves", "of a core, idle"),
        )
        yield Sheet("A worker with the role assemble, and what it remembers", columns, grown)


def _spread(ascending: Sequence[float]) -> Iterator[str]:
    return (f"{percentile(ascending, share):,.0f} ms" for share in SHARES)


def _mb(size: float) -> str:
    return f"{size / 1e6:,.0f} MB" if size else NONE
