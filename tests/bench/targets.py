"""The targets: ratios within one run, and bounds that depend little on the machine."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.bench import asked
from tests.bench.contenders import CONTENDERS, LIMIT, TURNS
from tests.bench.growth import Growth
from tests.bench.history import BY_MODEL
from tests.bench.loads import LOADS
from tests.bench.publishing import MODES, PLAIN
from tests.bench.result import percentile
from tests.bench.results import Result, Suite
from tests.bench.searching import COMMON_WORD, RARE_WORD

# (load, contender) -> {other contender: the least ratio to its rate}.
RATES: Final[dict[tuple[str, str], dict[str, float]]] = {
    ("text-1", TURNS): {LIMIT: 0.67, "faust": 40, "quix": 4, "streams": 2.5},
    ("text-8", TURNS): {LIMIT: 0.55, "faust": 10, "quix": 3, "streams": 3},
    ("tools", TURNS): {LIMIT: 0.30},
    ("text-1", "sqlite"): {TURNS: 0.7},
    ("text-1", "postgres"): {TURNS: 0.7},
    ("text-8", "sqlite"): {TURNS: 0.4},
    ("text-8", "postgres"): {TURNS: 0.4},
    ("text-1", "two"): {TURNS: 1.8},
    ("text-8", "two"): {TURNS: 1.8},
}
FLEET_US: Final = {TURNS: 5.0, "sqlite": 10.0, "postgres": 10.0}  # CPU of the worker an event of the mixed fleet
# CPU of a turn of 150 events into a store, beyond the way to the turns topic.
STORE_US: Final = {"sqlite-bare": 120, "sqlite": 220, "postgres-bare": 90}
GROWN: Final = 1.2  # CPU of a turn in the largest store measured, by that in the smallest
TURN_BYTES: Final = 1500  # of a turn of 45 words, without the index of words
P99_MS: Final = 80  # from `end` to the rows
LIVE_MS: Final = 50  # from a producer to one of many readers, beside queries
FROM_THE_MEAN: Final = 0.10  # the largest deviation of memory at any lag from the mean
OPEN_TURN_KB: Final = 20  # of a turn with 5 KB of text
REPORT_MS: Final = 50  # from sums
RARE_MS: Final = 50  # of a search, half of the time
COMMON_MS: Final = 500  # of a search, 99 times of 100
WRITING_MORE: Final = 0.30  # CPU, with what is searched
ASKED_MORE: Final = 0.10  # CPU of a turn that says what was asked
SCRIPT_LATER: Final = 0.3  # seconds that a captured script with one call takes longer
OF_A_CORE: Final = 0.015  # for publishing a stream of 50 tokens/s


@dataclass(frozen=True, slots=True)
class Aim:
    """One target. `least`: it is a lower bound, else an upper one. `form`: how the figures are written."""

    what: str
    measured: float
    bound: float
    least: bool = False
    form: str = "{:.2f}"

    @property
    def verdict(self) -> str:
        """`met`, or `missed by` a share of the target."""
        short = (self.bound - self.measured if self.least else self.measured - self.bound) / self.bound
        return "met" if short <= 0 else f"missed by {short:.0%}"

    def row(self) -> tuple[str, str, str, str]:
        """As cells of a table."""
        sign = "≥" if self.least else "≤"
        return self.what, self.form.format(self.measured), f"{sign} {self.form.format(self.bound)}", self.verdict


def aims(suite: Suite) -> Iterator[Aim]:
    """The targets for which the suite has a figure."""
    results = {result.load.name: result for result in suite.results}
    for (load, who), others in RATES.items():
        for other, bound in others.items():
            ratio = results[load].ratio(who, other) if load in results else None
            if ratio is not None:
                what = f"{LOADS[load].title}: {CONTENDERS[who].title}, of: {CONTENDERS[other].title}"
                yield Aim(what, ratio, bound, least=True)
    for result in suite.results:
        yield from _costs(result)
    for one in suite.latencies:
        yield Aim(f"p99 from `end` to the rows, {one.store}", percentile(one.ms, 99), P99_MS, form="{:,.0f} ms")
    at_lags = [one.memory for one in suite.latencies if one.store == "sqlite"] + [one.most for one in suite.backlogs]
    if len(at_lags) > 1 and all(at_lags):
        mean = sum(at_lags) / len(at_lags)
        farthest = max(abs(size - mean) for size in at_lags) / mean
        yield Aim("memory at different lags, the farthest from their mean", farthest, FROM_THE_MEAN, form="{:.0%}")
    if len(suite.open_turns) > 1:
        few, many = suite.open_turns[0], suite.open_turns[-1]
        each = (many.read - few.read) / (many.turns - few.turns) / 1000
        yield Aim("memory of an open turn with 5 KB of text", each, OPEN_TURN_KB, form="{:.1f} KB")
    if suite.gateway is not None:
        live = suite.gateway.live
        what = f"p99 of a live event from its producer to one of {live.readers} readers, beside queries"
        yield Aim(what, percentile(live.ms, 99), LIVE_MS, form="{:,.0f} ms")
    for one_of in suite.histories:
        what = f"p99 of a report by model, 30 of 31 days with {one_of.turns:,} turns, {one_of.store}"
        yield Aim(what, percentile(one_of.queries[BY_MODEL], 99), REPORT_MS, form="{:,.0f} ms")
    for searched in suite.searches:
        where = f"{searched.turns:,} turns, {searched.store}"
        rare, common = searched.queries[RARE_WORD], searched.queries[COMMON_WORD]
        yield Aim(f"p50 of {RARE_WORD}, {where}", percentile(rare, 50), RARE_MS, form="{:,.0f} ms")
        yield Aim(f"p99 of {COMMON_WORD}, {where}", percentile(common, 99), COMMON_MS, form="{:,.0f} ms")
        more = searched.more(searched.cost)
        yield Aim(f"CPU of writing what is searched, too, {searched.store}", more, WRITING_MORE, form="{:+.0%}")
    yield from _grown(suite)
    for captured in suite.captured[:1]:
        what = "a script with one call, captured by `turnmill run`: longer by"
        yield Aim(what, captured.script_later("run"), SCRIPT_LATER, form="{:,.2f} s")
    for known in suite.asked:
        if known.size == asked.AIM:
            what = f"CPU of storing turns with a known request of {known.size:,} bytes, SQLite"
            yield Aim(what, known.more, ASKED_MORE, form="{:+.0%}")
    for served in suite.publishing:
        for mode in MODES:
            if mode != PLAIN:
                what = f"{MODES[mode]} with {served.streams} stream(s) of 50 tokens/s, of a core each"
                yield Aim(what, served.of_a_core(mode), OF_A_CORE, form="{:.2%}")


def _grown(suite: Suite) -> Iterator[Aim]:
    """The targets of stores as they grow: of the client and its database's server together."""
    by_store: dict[tuple[str, str], list[Growth]] = {}
    for one in suite.growth:
        by_store.setdefault((one.store, one.indexes), []).append(one)
    for (store, indexes), sizes in by_store.items():
        small, large = min(sizes, key=lambda one: one.turns), max(sizes, key=lambda one: one.turns)
        name = f"{store}, {indexes}"
        if small is not large:
            costs = [one.client + (one.server or 0) for one in (small, large)]
            yield Aim(
                f"CPU a turn at {large.turns:,} turns, by that at {small.turns:,}, {name}", costs[1] / costs[0], GROWN
            )
        yield Aim(f"bytes a turn at {large.turns:,} turns, {name}", large.size, TURN_BYTES, form="{:,.0f}")


def _costs(result: Result) -> Iterator[Aim]:
    """The targets of one load in CPU, where the system tells it."""
    load = result.load
    if load.name == "fleet":
        for who, bound in FLEET_US.items():
            if (cost := result.cost(who)) is not None:
                yield Aim(f"CPU an event, mixed fleet: {CONTENDERS[who].title}", cost, bound, form="{:.1f} µs")
    elif load.text:
        for who, bound in STORE_US.items():
            if (beyond := beyond_turns(result, who)) is not None:
                what = f"CPU a turn beyond the way to the turns topic, {load.title}: {CONTENDERS[who].title}"
                yield Aim(what, beyond, bound, form="{:.0f} µs")


def beyond_turns(result: Result, who: str) -> float | None:
    """CPU µs that a run takes more than to the turns topic; None where either is not known."""
    way, cost = result.cost(TURNS), result.cost(who)
    return None if way is None or cost is None else (cost - way) * result.load.events / result.load.runs
