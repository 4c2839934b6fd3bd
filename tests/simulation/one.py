"""One schedule, as a process of many plays it."""

import gc
import itertools

from tests.simulation import mutants
from tests.simulation.schedule import Played, play

COLLECT = 20  # schedules of a process between two collections of garbage
_count = itertools.count()


def prepare() -> None:
    """Leave what is imported out of the collections."""
    gc.disable()  # a schedule is full of cycles: they are collected between schedules
    gc.collect()
    gc.freeze()


def one(seed: int, only: str | None, mutant: str | None) -> Played:
    if next(_count) % COLLECT == 0:
        gc.collect()
    return play(seed, only, mutants.BY_NAME[mutant].take_out if mutant is not None else None)
