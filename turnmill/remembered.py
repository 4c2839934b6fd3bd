"""What a process remembers for longer than a request: values by scope and key, bounded in bytes. Pure."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from gc import get_referents
from itertools import takewhile
from sys import getsizeof
from threading import RLock
from types import FunctionType, ModuleType
from typing import Any, Final, Generic, TypeVar

from turnmill.pools import OLDEST, OLDEST_OF_MOST, Pool
from turnmill.shares import Shares

ENTRY_BYTES: Final = 300  # of an entry, beside its key and its value
SCOPE_BYTES: Final = 700  # of a scope, beside its entries
SHARED: Final = (type, FunctionType, ModuleType)  # what values refer to and do not contain
NOTHING: Final[OrderedDict[Any, Any]] = OrderedDict()

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def size_of(value: object) -> int:
    """Return the bytes of a value with all that it contains."""
    if isinstance(value, str | bytes | int):
        return getsizeof(value)
    size, seen, left = 0, set[int](), [value]
    while left:
        each = left.pop()
        if id(each) not in seen and not isinstance(each, SHARED):
            seen.add(id(each))
            size += getsizeof(each)
            left += get_referents(each)
    return size


class Remembered(Generic[Key, Value]):
    """A memory of at most `size` bytes, by scope and key, in the order of last use. No value is None.

    Each scope, usually a tenant, has its share, by the rule of `pool`: where it is full, the oldest value of the scope
    that has most is forgotten; or none is, and who puts a value asks first whether it `fits`. `weigh` returns the bytes
    of a value. Any thread may use it.
    """

    def __init__(self, pool: Pool, weigh: Callable[[Value], int] = size_of, size: int | None = None) -> None:
        self.pool = pool
        self.size = pool.size if size is None else size
        self.shares = Shares()  # in bytes
        self._weigh = weigh
        self._of: dict[str | None, OrderedDict[Key, tuple[Value, int]]] = {}
        self._count = 0
        self._lock = RLock()  # reentrant: a collection of garbage may put a value, too

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Value]:
        return (value for _, _, value in self.items())

    def items(self) -> Iterator[tuple[str | None, Key, Value]]:
        """Iterate over scopes, keys and values, the oldest of each scope first."""
        return ((scope, key, value) for scope, mine in self._of.items() for key, (value, _) in mine.items())

    def of(self, scope: str | None) -> Iterator[tuple[Key, Value]]:
        """Iterate over the keys and values of a scope, the oldest first."""
        return ((key, value) for key, (value, _) in self._of.get(scope, NOTHING).items())

    def count(self, scope: str | None) -> int:
        """Return the number of values of a scope."""
        return len(self._of.get(scope, NOTHING))

    @property
    def scopes(self) -> list[str | None]:
        """The scopes that have values."""
        return list(self._of)

    def fits(self, scope: str | None, key: Key, value: Value, size: int | None = None) -> bool:
        """Return True if a scope may have another value within its share of `size` bytes, by default of all."""
        return self.shares.allows(scope, self._bytes(key, value), self.size if size is None else size)

    def has_bytes(self, key: Key, value: Value) -> bool:
        """Return True if there are bytes for another value, of whichever scope."""
        return self.shares.total + SCOPE_BYTES + self._bytes(key, value) <= self.size

    def get(self, scope: str | None, key: Key) -> Value | None:
        """Return a value; None if it is not known."""
        entry = self._of.get(scope, NOTHING).get(key)
        return None if entry is None else entry[0]

    def touch(self, scope: str | None, key: Key) -> None:
        """Mark a known value as last used."""
        self._of[scope].move_to_end(key)

    def pop(self, scope: str | None, key: Key) -> Value | None:
        """Forget a value and return it; None if it is not known."""
        with self._lock:
            mine = self._of.get(scope, NOTHING)
            return None if key not in mine else self._dropped(scope, mine.pop(key))

    def first(self) -> Value | None:
        """Forget the oldest value of a scope, of each in turn, and return it; None if nothing is left."""
        with self._lock:
            if not self._of:
                return None
            scope = next(iter(self._of))
            mine = self._of[scope] = self._of.pop(scope)
            return self._dropped(scope, mine.popitem(last=False)[1])

    def put(self, scope: str | None, key: Key, value: Value) -> list[Value]:
        """Remember a value, in the place of an earlier one with its key. Return what is forgotten for it."""
        with self._lock:
            if (mine := self._of.get(scope)) is None:
                mine = self._of[scope] = OrderedDict()
                self.shares.add(scope, SCOPE_BYTES)
            before, size = mine.get(key), self._bytes(key, value)
            mine[key] = value, size
            self._count += before is None
            self.shares.add(scope, size if before is None else size - before[1])
            if self.shares.total <= self.size or self.pool.share not in (OLDEST, OLDEST_OF_MOST):
                return []
            return self.shrink(self.size)

    def shrink(self, size: int) -> list[Value]:
        """Forget the oldest of the scope that has most until `size` bytes are left at most. Return the forgotten."""
        forgotten = []
        with self._lock:
            while self.shares.total > size:
                fullest = self.shares.most()
                forgotten.append(self._dropped(fullest, self._of[fullest].popitem(last=False)[1]))
        return forgotten

    def shed(self, is_over: Callable[[Value], bool]) -> list[Value]:
        """Forget the oldest of each scope while they are over. Return the forgotten."""
        with self._lock:
            over = {scope: [*takewhile(lambda at: is_over(at[1]), self.of(scope))] for scope in self._of}
            those = [(scope, key) for scope, some in over.items() for key, _ in some]
            return [value for scope, key in those if (value := self.pop(scope, key)) is not None]

    def _bytes(self, key: Key, value: Value) -> int:
        return ENTRY_BYTES + size_of(key) + self._weigh(value)

    def _dropped(self, scope: str | None, entry: tuple[Value, int]) -> Value:
        self._count -= 1
        self.shares.add(scope, -entry[1])
        if not self._of[scope]:
            del self._of[scope]
            self.shares.add(scope, -SCOPE_BYTES)
        return entry[0]
