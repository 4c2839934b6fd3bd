"""The events of one upload on their way to the publisher: which are taken, which are refused, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

from pipeline.assembly.dialect import Dialect, StreamEnd
from pipeline.errors import InvalidRecord, Reason
from threadmill.envelope import MAX_BYTES
from threadmill.framing import Framed, decoder_for
from threadmill.published_run import PublishedRun

SHOWN: Final = 20  # refusals that are told
End = StreamEnd | Literal["disconnected"]


class Upload:
    """Bytes in, events out. `begin` makes the run when its first event is there, with what the body says of it."""

    def __init__(
        self, dialect: Dialect, begin: Callable[[dict[str, Any]], PublishedRun], *, info_first: bool = False
    ) -> None:
        self._dialect = dialect
        self._decoder = decoder_for(dialect.wire, MAX_BYTES)
        self._begin = begin
        self._info_first = info_first
        self._info: dict[str, Any] = {}
        self._run: PublishedRun | None = None
        self._ended: StreamEnd | None = None
        self.accepted = 0
        self.refused = 0
        self.too_large = 0
        self.refusals: list[tuple[int, InvalidRecord]] = []  # (line, why)
        self.reasons: dict[str, int] = {}

    @property
    def end(self) -> End:
        """How the run ended, as far as its stream says."""
        return self._ended or "disconnected"

    async def feed(self, chunk: bytes) -> None:
        """Publish the events that a chunk completes; waits where the publisher has no room."""
        for framed in self._decoder.feed(chunk):
            await self._take(framed)

    async def close(self) -> None:
        """The body is over."""
        for framed in self._decoder.close():
            await self._take(framed)

    async def finish(self, end: str, *, said: bool) -> PublishedRun | None:
        """Close the run, if there is one, or if the caller has said how it ended. -> the run."""
        if self._run is None and said and not self.refused:
            self._run = self._begin(self._info)
        if self._run is not None:
            if end == "open":
                self._run.leave()
            else:
                await self._run.end(end)
        return self._run

    async def _take(self, framed: Framed) -> None:
        try:
            if framed.error is not None:
                raise framed.error
            await self._publish(framed.line, framed.event or {})
        except InvalidRecord as error:
            self.refused += 1
            self.too_large += error.reason is Reason.TOO_LARGE
            self.reasons[error.reason] = self.reasons.get(error.reason, 0) + 1
            if len(self.refusals) < SHOWN:
                self.refusals.append((framed.line, error))

    async def _publish(self, line: int, event: dict[str, Any]) -> None:
        if self._info_first:
            self._info_first = False
            data = event.get("data")
            self._info = data if self._dialect.wire.framing == "named-sse" and isinstance(data, dict) else event
            return
        kind = event.get(self._dialect.wire.kind)
        if not self._dialect.wire.takes(kind):
            needs = f"an event of {self._dialect.name} needs a string {self._dialect.wire.kind!r}"
            raise InvalidRecord(Reason.INVALID_EVENT, f"line {line}: {needs}, got {kind!r:.80}")
        if self._run is None:
            self._run = self._begin(self._info)
        await self._run.send(event)
        self.accepted += 1
        self._ended = self._dialect.ended(event, self._ended)
