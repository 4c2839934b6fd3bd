"""The containers that living objects of ours have, by whose attribute they are, and how many entries are in them.

Whatever is in a memory (`turnmill.remembered`) is left out: its bytes are bounded. What other libraries hold is theirs.
"""

import gc
import sys
from asyncio import AbstractEventLoop
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from inspect import isasyncgen, iscoroutine, isgenerator
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from turnmill.remembered import Remembered

OURS: Final = ("pipeline", "turnmill", "topics")
CONTAINERS: Final = (dict, list, set, deque)
LEFT: Final = (type, ModuleType, CodeType, AbstractEventLoop, str, bytes, int, float, frozenset)
SHARED: Final = "(a module)"

Named = tuple[str, Any]  # whose attribute a value is, and the value


def sizes(roots: Iterable[Any], *, indexes: bool = False) -> Counter[str]:
    """Return the number of entries of all containers, by `module.Class.attribute`, of these objects and our modules.

    `indexes`: also of those by which an object finds what is in a memory of its own, with no more entries than that.
    """
    counts = Counter[str]()
    seen = {id(each) for memory in memories(roots) for value in memory for each in _parts(value)}
    waiting: deque[Named] = deque(("(a root)", root) for root in roots)
    waiting.extend(_of_modules())
    while waiting:
        owner, value = waiting.popleft()
        if id(value) in seen or isinstance(value, (*LEFT, Remembered)):
            continue
        seen.add(id(value))
        if type(value).__name__ == "_lru_cache_wrapper" and isinstance(value.__wrapped__, FunctionType):
            counts[f"{getattr(value, '__module__', owner)}.{getattr(value, '__qualname__', owner)}()"] += (
                value.cache_info().currsize
            )
        if isinstance(value, CONTAINERS) and is_ours(owner):
            counts[owner] += len(value)
        waiting.extend(_within(owner, value, indexes=indexes))
    return counts


def memories(roots: Iterable[Any]) -> list[Remembered[Any, Any]]:
    """Return the memories that these objects have, wherever they are."""
    found, seen, waiting = list[Remembered[Any, Any]](), set[int](), [*roots]
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, LEFT):
            continue
        seen.add(id(value))
        if isinstance(value, Remembered):
            found.append(value)
        else:
            waiting += (each for _, each in _within("", value, indexes=True))
    return found


def _parts(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, tuple):
        yield from value


def is_ours(owner: str) -> bool:
    return owner.startswith(tuple(f"{package}." for package in OURS))


def _of_modules() -> Iterator[Named]:
    for name, module in list(sys.modules.items()):
        if name.startswith(tuple(f"{package}." for package in OURS)) and module:
            for attribute, value in list(vars(module).items()):
                if not attribute.startswith("__") and getattr(value, "__module__", name) == name:
                    yield f"{name}.{attribute}", value
                    if isinstance(value, type):
                        yield from ((f"{name}.{attribute}.{each}", held) for each, held in list(vars(value).items()))


def _within(owner: str, value: Any, *, indexes: bool) -> Iterator[Named]:
    """Yield what a value refers to; the entries of a container are its owner's."""
    if isinstance(value, dict):
        yield from ((owner, each) for pair in list(value.items()) for each in pair)
    elif isinstance(value, list | tuple | deque | set):
        yield from ((owner, each) for each in list(value))
    elif iscoroutine(value) or isgenerator(value) or isasyncgen(value):
        frame: FrameType | None = next(
            getattr(value, name) for name in ("cr_frame", "gi_frame", "ag_frame") if hasattr(value, name)
        )
        if frame is not None:
            module = frame.f_globals.get("__name__", "")
            yield from ((f"{module}.{value.__qualname__}.{name}", each) for name, each in frame.f_locals.items())
        yield from ((owner, each) for each in gc.get_referents(value) if not isinstance(each, FrameType))
    elif isinstance(value, MethodType):
        yield owner, value.__self__
    elif isinstance(value, partial):
        yield from ((owner, each) for each in (value.func, *value.args, *value.keywords.values()))
    elif isinstance(value, FunctionType):
        yield from ((f"{value.__module__}.{value.__qualname__}", each) for each in gc.get_referents(value.__closure__))
    elif isinstance(value, FrameType):
        return
    else:
        yield from _attributes(value, indexes=indexes)


def _attributes(value: Any, *, indexes: bool) -> Iterator[Named]:
    kind = type(value)
    name = f"{kind.__module__}.{kind.__qualname__}"
    held = dict(vars(value)) if hasattr(kind, "__dict__") and isinstance(getattr(value, "__dict__", None), dict) else {}
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else tuple(slots):
            with suppress(AttributeError):  # it has no value
                held[slot] = object.__getattribute__(value, slot)
    remembered = sum(len(each) for each in held.values() if isinstance(each, Remembered))
    for attribute, each in held.items():
        if not indexes and isinstance(each, dict) and 0 < len(each) <= remembered:
            continue  # it finds what is in the memory beside it
        yield f"{name}.{attribute}", each
    if not held:  # an object in C: what it refers to is not ours
        yield from (("", each) for each in gc.get_referents(value))
