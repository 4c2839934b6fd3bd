"""Counts the memory of an object and of all that it refers to, by the sizes that CPython reports for its version."""

from gc import get_referents
from sys import getsizeof
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final

from pipeline.assembly.dialect import Dialect

SHARED: Final = frozenset({type, FunctionType, BuiltinFunctionType, ModuleType, Dialect, type(None), bool})
ROUNDED: Final = 8  # bytes by which an object takes more than it says, as memory is given out in multiples of 16
# Not Final, since a test sets it: compiled code would not read it again.
MOST_OBJECTS = 20_000  # looking at so many takes about 3 ms, in which a worker does nothing else


def taken(root: object) -> int | None:
    """Return the bytes of an object and of all that it refers to, except code and tables; None: it is too much."""
    seen, level, total = {id(root)}, [root], 0
    while level:
        if len(seen) > MOST_OBJECTS:
            return None
        total += sum(map(getsizeof, level)) + ROUNDED * len(level)
        below: list[Any] = []
        for each in get_referents(*level):
            if id(each) not in seen and each.__class__ not in SHARED:
                seen.add(id(each))
                below.append(each)
        level = below
    return total
