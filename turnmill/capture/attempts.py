"""Failed calls that may be sent again, by what another attempt of each has in common with it. Pure."""

from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

from turnmill.pools import FAILED
from turnmill.remembered import Remembered

Call = TypeVar("Call")


class Attempts(Generic[Call]):
    """Keys of failed calls, of which each may have several."""

    def __init__(self) -> None:
        self._of: Remembered[object, deque[tuple[Call, Sequence[object]]]] = Remembered(FAILED)

    def __len__(self) -> int:
        return len(self._of)

    def add(self, scope: str, call: Call, keys: Sequence[object]) -> None:
        """Note a failed call."""
        for key in keys:
            failed = self._of.pop(scope, key) or deque()
            failed.append((call, keys))
            self._of.put(scope, key, failed)

    def take(self, scope: str, keys: Sequence[object]) -> Call | None:
        """Return the oldest call with any of these keys, the first that is known, and forget the call."""
        failed = next((failed for key in keys if (failed := self._of.get(scope, key))), None)
        if failed is None:
            return None
        call, known = failed[0]
        self._forget(scope, call, known)
        return call

    def drop(self, scope: str, call: Call, key: object) -> None:
        """Forget a call that has this key, among others."""
        for known, keys in tuple(self._of.get(scope, key) or ()):
            if known == call:
                self._forget(scope, known, keys)

    def _forget(self, scope: str, call: Call, keys: Sequence[object]) -> None:
        for key in keys:
            left = deque(entry for entry in self._of.pop(scope, key) or () if entry[0] is not call)
            if left:
                self._of.put(scope, key, left)
