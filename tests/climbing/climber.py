"""The climb: of inputs that cost much, others are made, and the costliest are kept. Pure but for what `cost` does."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tests.climbing.changes import changed

KEPT: Final = 6  # so that one that costs much now isn't the end of those that would cost more later


@dataclass(frozen=True, slots=True)
class Peak:
    """The costliest input that was found; `tries`: inputs that were measured."""

    value: Any
    cost: float
    tries: int


def climb(
    seeds: Iterable[Any],
    cost: Callable[[Any], float | None],
    rng: Random,
    going: Callable[[int], bool],
    enough: float = float("inf"),
) -> Peak:
    """Return the costliest input. `cost` is None for inputs that don't count; `going`: whether to try more, by tries.

    An input that costs `enough` ends the climb.
    """
    donors = list(seeds)
    found = sorted([(cost(value) or 0.0, -n, value) for n, value in enumerate(donors)], reverse=True)[:KEPT]
    tries = len(donors)
    while found[0][0] < enough and going(tries):
        value = changed(rng.choice(found)[2], rng, donors)
        tries += 1
        costs = cost(value)
        if costs is not None and costs > found[-1][0]:
            found = sorted([*found, (costs, -tries, value)], key=lambda one: one[:2], reverse=True)[:KEPT]
    return Peak(found[0][2], found[0][0], tries)
