"""Consuming a topic in an `async for` loop, at least once: an unfinished record is delivered again.

A record counts as done when the loop asks for the next record, or when the `async with` around it is left without an
exception. So the record of a body that raises, or is cancelled, is delivered again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Self, TypeVar

from turnmill.environment import load_settings
from turnmill.errors import CallerError, InvalidRecord

if TYPE_CHECKING:  # modules that load aiokafka or pydantic are imported when something is consumed
    from turnmill.kafka.group_reader import GroupReader, Received, Start
    from turnmill.settings import ClientSettings

Item = TypeVar("Item")
Unreadable = Literal["skip", "raise"]

LONGEST_GROUP: Final = 249  # characters, the limit for topic names: brokers store the group's name with each offset

log = logging.getLogger(__name__)


class Consumed(Generic[Item]):
    """An iterator over the records of a topic, to be used once.

    `read` turns aiokafka's record into the item for the body, or None to skip it; it may raise InvalidRecord.
    """

    def __init__(
        self,
        topic: str,
        group: str | None,
        read: Callable[[Any], Item | None],
        *,
        start: Start = "earliest",
        unreadable: Unreadable = "skip",
        body_within: float = 300.0,
        settings: ClientSettings | None = None,
    ) -> None:
        """Check the options. Raises CallerError for a worker's group, a time without zone, settings that can't work."""
        settings = load_settings() if settings is None else settings
        prefix = settings.topic_prefix
        if group is not None and (not group or group.startswith(f"{prefix}-")):
            raise CallerError(f"groups named {prefix}-… are the worker's own: name yours otherwise, not {group!r}")
        if group is not None and len(group) > LONGEST_GROUP:
            raise CallerError(f"a group's name has at most {LONGEST_GROUP} characters, not {len(group):,}")
        if getattr(start, "tzinfo", True) is None:
            raise CallerError("`start` needs a time zone: datetime(…, tzinfo=UTC)")
        if isinstance(start, str) and start not in ("earliest", "latest"):
            raise CallerError(f"`start` is 'earliest', 'latest', a datetime, or offsets by partition, not {start!r}")
        self._settings = settings
        self._topic = f"{prefix}.{topic}"
        self._group = group
        self._read = read
        self._start: Start = start
        self._unreadable = unreadable
        self._body_within = body_within
        self._reader: GroupReader | None = None
        self._given: Received | None = None
        self._closing = False
        self._begun = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is None:
            self._done()
        self._closing = True
        await self._leave()

    def close(self) -> None:
        """End the loop after the current record. Call it in the event loop's thread, e.g. in a signal handler there."""
        self._closing = True

    def __aiter__(self) -> AsyncGenerator[Item]:
        if self._begun:
            raise CallerError("it is iterated over once: make another one")
        self._begun = True
        return self._items()

    async def _items(self) -> AsyncGenerator[Item]:
        from turnmill.kafka.group_reader import GroupReader  # noqa: PLC0415  # as above

        reader = GroupReader(self._settings, self._topic, self._group, self._start, self._body_within)
        self._reader = reader
        waiting: deque[Received] = deque()
        try:
            await reader.open()
            while not self._closing:
                await reader.commit_if_due()
                if not waiting:
                    waiting.extend(await reader.poll())
                    continue
                heard = waiting.popleft()
                if not reader.current(heard):  # reassigned meanwhile, as are all records received with it
                    waiting.clear()
                    continue
                item = self._item(heard)
                if item is None:
                    reader.done(heard)
                    continue
                self._given = heard
                reader.begun()
                yield item
                self._done()
        finally:
            await self._leave()

    def _item(self, heard: Received) -> Item | None:
        try:
            return self._read(heard.record)
        except InvalidRecord as error:
            if self._unreadable == "raise":
                raise
            position = f"{heard.partition.topic}/{heard.partition.partition}@{heard.record.offset}"
            log.warning("a record that can't be read is left out: %s: %s", position, error.detail)
            return None

    def _done(self) -> None:
        """Note that the body has returned."""
        if self._reader is not None and self._given is not None:
            self._reader.done(self._given)
            self._given = None
            self._reader.rested()

    async def _leave(self) -> None:
        """Close the reader, in a separate task: a cancellation of the loop must not interrupt the last commit."""
        reader, self._reader = self._reader, None
        if reader is not None:
            await asyncio.shield(asyncio.ensure_future(reader.close()))
