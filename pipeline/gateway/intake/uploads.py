"""Uploads: the bytes of each as published events, their numbers, and each tenant's share of the spool in an outage."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Annotated, Any, Final, Literal

from pipeline.assembly.dialect import Dialect, StreamEnd
from pipeline.dialects.recognition import Recognition, is_foreign, looks_like
from pipeline.gateway.problems import Problem, later
from pipeline.gateway.state import Gateway, Service, provided
from pipeline.observability import metrics as m
from pipeline.policies.pools import SPOOL
from turnmill.errors import InvalidRecord, Reason
from turnmill.limits import RECORD_BYTES, REFUSALS_SHOWN
from turnmill.publish.publisher import Publisher
from turnmill.publish.run import PublishedRun
from turnmill.shares import Room
from turnmill.wire.framing import Framed, decoder_for

YIELD_BYTES: Final = 8_192  # bytes between two yields to the event loop


class Outage:
    """Counts the bytes of bodies accepted since the broker went away, for a spool of `size` bytes.

    As records, with names and numbers, they take more space, so at most half of the spool is shared out.
    """

    def __init__(self, size: int) -> None:
        self._spool = size
        self._room = self._empty()

    def take(self, publisher: Publisher, tenant: str | None, count: int) -> None:
        """Count bytes of a body. Raises Problem if the broker is away and the tenant's share of the spool is full.

        Callers without a tenant are the operator's, and not limited.
        """
        if publisher.delivery.trouble is None:
            if self._room.shares.total:
                self._room = self._empty()
        elif tenant is not None and not self._room.take(tenant, count):
            full = "the broker is away, and the spool holds as much of this tenant's as it may"
            raise later("unavailable", full)

    def _empty(self) -> Room:
        return Room(min(SPOOL.size, self._spool // 2))


class Uploads(Service):
    """Counts the uploads of a gateway, and what comes of them."""

    def __init__(self, gateway: Gateway) -> None:
        self.outage = Outage(gateway.settings.spool_bytes)
        self._metrics = gateway.metrics

    def coming_in(self) -> AbstractContextManager[None]:
        """Return a block during which an upload is counted as in progress."""
        return self._metrics.in_progress(m.UPLOADS)

    def count_events(self, accepted: Mapping[str, int], refused: Mapping[str, int]) -> None:
        """Count events that came over HTTP: those accepted by dialect, those refused by reason."""
        for dialect, count in accepted.items():
            self._metrics.add(m.UPLOADED_EVENTS, count, dialect=dialect)
        for reason, count in refused.items():
            self._metrics.add(m.REFUSED_EVENTS, count, reason=reason)


TheUploads = Annotated[Uploads, provided(Uploads)]


Aside = Callable[[Callable[[bytes], list[Framed]], bytes], Awaitable[list[Framed]]]  # calls in a thread
End = StreamEnd | Literal["disconnected"]


class Upload:
    """Publishes the events of a body. `begin` makes the run at the first event, from the facts in the body.

    If no dialect is given, it is recognised by the first events. `at`: the time of all events in epoch ms, of a body
    that was whole before it was sent; None: that at which each comes.
    """

    def __init__(
        self,
        dialect: Dialect | None,
        begin: Callable[[dict[str, Any]], PublishedRun],
        aside: Aside,
        *,
        info_first: bool = False,
        at: int | None = None,
    ) -> None:
        self._at = at
        self._body = _Body(dialect, skipped=int(info_first))
        self._begin = begin
        self._aside = aside
        self._info_first = info_first
        self._info: dict[str, Any] = {}
        self._run: PublishedRun | None = None
        self._ended: StreamEnd | None = None
        self._first = None if dialect is None else b""  # of the body, while its wire was named and no event is known
        self.accepted = 0
        self.refused = 0
        self.too_large = 0
        self.refusals: list[tuple[int, InvalidRecord]] = []  # (line, why)
        self.reasons: dict[str, int] = {}

    @property
    def dialect(self) -> Dialect | None:
        """The wire of the body; None: it is not recognised yet."""
        return self._body.dialect

    @property
    def events(self) -> dict[str, int]:
        """The number of accepted events, by their wire."""
        return {} if self.dialect is None else {self.dialect.name: self.accepted}

    @property
    def warning(self) -> str | None:
        """The warning that the named wire knows no event of a body that was accepted; None if it knows some."""
        if not self._first or self.dialect is None or not self.accepted:
            return None
        other = looks_like(self._first, self.dialect)
        hint = "" if other is None else f": it looks like {other}; send it again as another run, with dialect={other}"
        return f"no event of the body is known to {self.dialect.name}{hint}"

    @property
    def end(self) -> End:
        """The end of the run according to its stream; `disconnected` if that has no end."""
        return self._ended or "disconnected"

    async def feed(self, chunk: bytes) -> None:
        """Publish the events that a chunk completes; wait while the publisher's buffer is full. Raises UnknownWire."""
        for at in range(0, len(chunk), YIELD_BYTES):
            part = chunk[at : at + YIELD_BYTES]
            if self._first is not None and len(self._first) < YIELD_BYTES:
                self._first += part
            if self._body.holds > YIELD_BYTES and b"\n" in part:  # every wire tries to read what has come so far
                await self._take_all(await self._aside(self._body.feed, part))
            else:
                await self._take_all(self._body.feed(part))
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Publish what the decoder still holds at the end of the body. Raises UnknownWire."""
        await self._take_all(self._body.close())

    async def finish(self, end: str, *, end_given: bool) -> PublishedRun | None:
        """Close and return the run, if there is one; without events, make one only if the caller gave its end."""
        if self._run is None and end_given and not self.refused and self.dialect is not None:
            self._run = self._begin(self._info)
        if self._run is not None:
            if end == "open":
                self._run.leave()
            else:
                await self._run.end(end)
        return self._run

    async def _take_all(self, events: list[Framed]) -> None:
        if self.dialect is None:
            return
        if self._first is not None and events:
            is_wrong = is_foreign(self.dialect, [framed.event or {} for framed in events])
            if is_wrong and self._run is None and (other := looks_like(self._first, self.dialect)) is not None:
                raise Problem("unreadable-stream", f"no event is known to {self.dialect.name}: it looks like {other}")
            self._first = self._first if is_wrong else None
        for framed in events:
            await self._take(self.dialect, framed)

    async def _take(self, dialect: Dialect, framed: Framed) -> None:
        try:
            if framed.error is not None:
                raise framed.error
            await self._publish(dialect, framed.line, framed.event or {})
        except InvalidRecord as error:
            self.refused += 1
            self.too_large += error.reason is Reason.TOO_LARGE
            self.reasons[error.reason] = self.reasons.get(error.reason, 0) + 1
            if len(self.refusals) < REFUSALS_SHOWN:
                self.refusals.append((framed.line, error))

    async def _publish(self, dialect: Dialect, line: int, event: dict[str, Any]) -> None:
        if self._info_first:
            self._info_first = False
            data = event.get("data")
            self._info = data if dialect.wire.framing == "named-sse" and isinstance(data, dict) else event
            return
        kind = event.get(dialect.wire.kind)
        if not dialect.wire.takes(kind):
            needs = f"an event of {dialect.name} needs a string {dialect.wire.kind!r}"
            raise InvalidRecord(Reason.INVALID_EVENT, f"line {line}: {needs}, got {kind!r:.80}")
        if self._run is None:
            self._run = self._begin(self._info)
        await self._run.send(event, at=self._at)
        self.accepted += 1
        self._ended = dialect.ended(event, self._ended)


class _Body:
    """Decodes a body. If no dialect is given, keeps the bytes until the first events reveal it."""

    def __init__(self, dialect: Dialect | None, *, skipped: int) -> None:
        self.dialect = dialect
        self._decoder = None if dialect is None else decoder_for(dialect.wire, RECORD_BYTES)
        self._recognition = Recognition(skipped=skipped) if dialect is None else None
        self._held: list[bytes] = []
        self.holds = 0  # bytes that wait for the wire to be recognised

    def feed(self, chunk: bytes) -> list[Framed]:
        if self._decoder is not None:
            return self._decoder.feed(chunk)
        self._held.append(chunk)
        self.holds += len(chunk)
        return self._decode_held(self._recognition.feed(chunk)) if self._recognition is not None else []

    def close(self) -> list[Framed]:
        events = [] if self._recognition is None else self._decode_held(self._recognition.close())
        return events if self._decoder is None else events + self._decoder.close()

    def _decode_held(self, dialect: Dialect | None) -> list[Framed]:
        if dialect is None:
            return []
        self.dialect, self._recognition = dialect, None
        self._decoder = decoder_for(dialect.wire, RECORD_BYTES)
        self.holds = 0
        return self._decoder.feed(b"".join(self._held))
