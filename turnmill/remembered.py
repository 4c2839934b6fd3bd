"""What a process remembers: values by scope and key, bounded in number or in bytes. Pure."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from turnmill.shares import Shares

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Remembered(Generic[Key, Value]):
    """A bounded memory by scope and key, in the order of last use. Each scope has its share. No value is None.

    `weigh`: returns the size of a value, which must not change; without it, each value counts as 1.
    """

    def __init__(self, weigh: Callable[[Value], int] = lambda value: 1) -> None:
        self._weigh = weigh
        self._of: dict[str, OrderedDict[Key, Value]] = {}
        self.shares = Shares()

    def __len__(self) -> int:
        return self.shares.total

    def __iter__(self) -> Iterator[Value]:
        return (value for mine in self._of.values() for value in mine.values())

    def get(self, scope: str, key: Key) -> Value | None:
        """Return a value; None if it is not known."""
        mine = self._of.get(scope)
        return None if mine is None else mine.get(key)

    def touch(self, scope: str, key: Key) -> None:
        """Mark a known value as last used."""
        self._of[scope].move_to_end(key)

    def pop(self, scope: str, key: Key) -> Value | None:
        """Forget a value and return it; None if it is not known."""
        mine = self._of.get(scope, OrderedDict())
        if key not in mine:
            return None
        value = mine.pop(key)
        self._dropped(scope, value)
        return value

    def put(self, scope: str, key: Key, value: Value, most: int) -> list[Value]:
        """Remember a new value within a size of `most`. Return what is forgotten for it."""
        self._of.setdefault(scope, OrderedDict())[key] = value
        self.shares.add(scope, self._weigh(value))
        return self.shrink(most)

    def shrink(self, most: int) -> list[Value]:
        """Forget the oldest of the scope that has most until the size is at most `most`. Return the forgotten."""
        forgotten = []
        while self.shares.total > most:
            fullest = self.shares.most() or ""
            _, oldest = self._of[fullest].popitem(last=False)
            self._dropped(fullest, oldest)
            forgotten.append(oldest)
        return forgotten

    def _dropped(self, scope: str, value: Value) -> None:
        self.shares.add(scope, -self._weigh(value))
        if not self._of[scope]:
            del self._of[scope]
