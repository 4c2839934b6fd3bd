"""What a process remembers: values by scope and key, a bounded number of them. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from turnmill.shares import Shares

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Remembered(Generic[Key, Value]):
    """A bounded memory by scope and key, in the order of last use. Each scope has its share. No value is None."""

    def __init__(self) -> None:
        self._of: dict[str, OrderedDict[Key, Value]] = {}
        self._shares = Shares()

    def __len__(self) -> int:
        return self._shares.total

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
        self._dropped(scope)
        return value

    def put(self, scope: str, key: Key, value: Value, most: int) -> None:
        """Remember a new value. If there are more than `most`, forget the oldest of the scope that has most."""
        self._of.setdefault(scope, OrderedDict())[key] = value
        self._shares.add(scope, 1)
        while self._shares.total > most:
            fullest = self._shares.most() or ""
            self._of[fullest].popitem(last=False)
            self._dropped(fullest)

    def _dropped(self, scope: str) -> None:
        self._shares.add(scope, -1)
        if not self._of[scope]:
            del self._of[scope]
