"""The climber finds what is planted, and nothing where nothing is."""

import json
import time
from random import Random
from typing import Any

import pytest

from tests.climbing.changes import MOST, changed, nested, renamed, size
from tests.climbing.climber import climb
from tests.climbing.cost import BOUNDS, Target, measured, search, written
from tests.climbing.topics import assemble, recorded, total, values

TRIES = 300
SEEDS = [
    [{"id": "a", "items": [{"name": "x", "value": 1}], "text": "some text"}],
    [{"id": "b", "body": 'data: {"type":"start"}\n\ndata: {"type":"finish"}\n\n'}],
]


def climbed(cost: Any, enough: float, seeds: list[Any] = SEEDS) -> float:
    def bounded(value: Any) -> float | None:
        try:
            return cost(value) if size(value) <= MOST else None
        except RecursionError:
            return None

    return climb(seeds, bounded, Random(1), lambda tries: tries < TRIES, enough).cost


def levels(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(levels, inner), default=0)


def ids(value: Any) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(ids, value))
    return {str(value.get("id"))}.union(*map(ids, value.values())) if isinstance(value, dict) else set()


PLANTED: dict[str, tuple[Any, float]] = {
    "pairs of items": (lambda value: len(value) ** 2 if isinstance(value, list) else 0, 40_000),
    "levels": (levels, 300),
    "ids that differ": (lambda value: len(ids(value)), 400),
    "a long text": (lambda value: max((len(text) for text in json.dumps(value).split('"')), default=0), 20_000),
    "lines": (lambda value: json.dumps(value).count("data: "), 500),
    "a large number": (lambda value: json.dumps(value).count("0"), 2000),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_what_amplifies_is_found(planted: str) -> None:
    cost, enough = PLANTED[planted]
    assert climbed(cost, enough) >= enough


def test_what_costs_no_more_than_it_brings_is_not_found() -> None:
    assert climbed(lambda _: 1.0, 2.0) == 1.0


def test_too_large_inputs_are_never_the_peak() -> None:
    peak = climb(SEEDS, lambda value: size(value) if size(value) < 900 else None, Random(2), lambda n: n < 500)
    assert size(peak.value) < 900
    assert peak.tries == 500


def test_a_climb_can_be_repeated() -> None:
    once = [changed(SEEDS[0], Random(seed), SEEDS) for seed in range(50)]
    assert once == [changed(SEEDS[0], Random(seed), SEEDS) for seed in range(50)]
    assert len({json.dumps(one) for one in once}) > 30


def test_copies_have_ids_of_their_own() -> None:
    assert renamed({"id": "a", "text": "a", "parts": [{"index": 1}]}, 7) == {
        "id": "a7",
        "text": "a",
        "parts": [{"index": 8}],
    }
    assert nested(1, 2, "") == [[1]]
    assert nested(1, 2, "a") == {"a": {"a": 1}}


def test_a_target_that_makes_a_row_of_each_comma_is_a_finding(tmp_path: Any) -> None:
    seeds = recorded("vercel-ai")[:1]
    found = search(Target("commas", seeds, values, lambda given: sum(map(len, given)), total), "made a KB", 1, 1)
    assert found.is_finding
    assert found.measured > BOUNDS["made a KB"]
    again = json.loads(written(found, tmp_path).read_text())
    assert again["value"] == found.peak.value
    still = search(Target("harmless", seeds, values, lambda _: 1, total), "made a KB", 0.05, 1)
    assert not still.is_finding


def busy(_: Any) -> int:
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    return 0


def test_memory_and_time_are_measured() -> None:
    hungry = Target("hungry", [["x"]], values, lambda _: len(bytearray(80 * 2**20)), total)
    assert measured(hungry, ["x"], "megabytes") == pytest.approx(80, abs=1)
    assert (measured(Target("busy", [["x"]], values, busy, total), ["x"], "seconds") or 0) >= 0.1
    assert measured(hungry, ["x" * (MOST + 1)], "megabytes") is None


def test_recorded_runs_are_taken() -> None:
    for dialect in ("vercel-ai", "openai-chat", "pi-agent"):
        assert assemble(values(recorded(dialect)[0])) >= 1
