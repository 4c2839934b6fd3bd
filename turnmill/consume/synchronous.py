"""Turns and notices for programs without an event loop: a loop runs in a separate thread.

    for turn in SyncTurns(group="billing"):
        ...

A body may block: the thread answers the broker meanwhile.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from typing import Any, Generic, Literal, Self, Unpack, overload

from turnmill.consume.consuming import Consumed, Item
from turnmill.consume.notice import Notice
from turnmill.consume.turns import Notices, Options, Turn, TurnOptions, Turns
from turnmill.loop_thread import LoopThread


class SyncConsumed(Generic[Item]):
    """A `Consumed` without an event loop; `close` may be called from any thread and from a signal handler."""

    def __init__(self, made: Consumed[Any]) -> None:
        self._made: Consumed[Item] = made
        self._within = False
        self._iteration: Iterator[Item] | None = None
        self._loop: LoopThread | None = None

    def __enter__(self) -> Self:
        self._within = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if self._loop is not None:
            try:
                self._loop.wait_for(self._made.__aexit__(kind, error, None))
            finally:
                self._stop()

    def close(self) -> None:
        """End the loop after the current record."""
        self._made.close()

    def __iter__(self) -> Iterator[Item]:
        items = aiter(self._made)
        self._loop = LoopThread("turnmill-consumer")
        iteration = self._items(items, self._loop)
        if self._within:  # keep it alive: else `break` closes it before the end of `with` marks the record as done
            self._iteration = iteration
        return iteration

    def _items(self, items: AsyncGenerator[Item], loop: LoopThread) -> Iterator[Item]:
        try:
            while True:
                try:
                    item = loop.wait_for(anext(items))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            if self._loop is not None:
                try:
                    loop.wait_for(items.aclose())
                finally:
                    self._stop()

    def _stop(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.stop()


class SyncTurns(SyncConsumed[Item]):
    """A `Turns` without an event loop, with the same arguments."""

    @overload
    def __init__(
        self: SyncTurns[Turn], group: str | None, *, raw: Literal[False] = ..., **options: Unpack[TurnOptions]
    ) -> None: ...
    @overload
    def __init__(
        self: SyncTurns[dict[str, Any]], group: str | None, *, raw: Literal[True], **options: Unpack[TurnOptions]
    ) -> None: ...
    def __init__(self, group: str | None, *, raw: bool = False, **options: Unpack[TurnOptions]) -> None:
        super().__init__(Turns(group, raw=raw, **options))  # type: ignore[call-overload]  # fits one of the overloads


class SyncNotices(SyncConsumed[Notice]):
    """A `Notices` without an event loop, with the same arguments."""

    def __init__(self, group: str | None, **options: Unpack[Options]) -> None:
        super().__init__(Notices(group, **options))
