"""Convert a request to a model and its answer into the events of its wire. Pure: no I/O, no clock.

    asked()                 `turnmill.request`, with the body
    answered(), data(), …   the answer's events: those of a stream as they come, a whole answer as one
    finished(), failed()    the remaining events; `turnmill.error` if the server, or the connection, failed

An event `turnmill.left_out` stands for data that can't be read, or is too large to be published. An exchange holds at
most an event of a stream, or 8 MB of a whole answer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from turnmill.capture.answers import Answer
from turnmill.capture.encodings import Decode, Unreadable, decoding
from turnmill.capture.fitting import fitted, json_of, request_body
from turnmill.capture.providers import MESSAGES
from turnmill.capture.secrets import credentials, masked_settings, without_addresses, without_secrets
from turnmill.capture.told_costs import told_cost, with_cost
from turnmill.limits import CAPTURED_ANSWER_BYTES, CAPTURED_EVENTS, CAPTURED_STREAM_BYTES
from turnmill.wire.envelope import encode
from turnmill.wire.framing import Decoder, decoder_for
from turnmill.wire.registry import WIRES

Fields = dict[str, Any]
SMALL_BYTES: Final = 100_000  # an event of this size as received always fits into a record
ERROR_BYTES: Final = 65_536  # most bytes of a server's refusal that are kept
ERROR_CHARACTERS: Final = 1_000
MAX_NOTES: Final = 20  # most `left_out` events of an exchange
RETRIED_STATUSES: Final = frozenset({408, 409, 425, 429})  # statuses after which clients retry, besides all from 500
RETRY_WINDOW: Final = 30.0  # seconds within which a client retries, plus the time that the server asks it to wait
MAX_RETRY_AFTER: Final = 120.0
# Refusals after which SDKs send the whole conversation instead of what is new in it.
LOST: Final = frozenset(
    {"thread_not_found", "thread_already_continued", "thread_continue_in_flight", "thread_unsupported_request"}
    | {"previous_response_not_found"}
)
KEPT: Final = ("system", "tools")  # of a request that begins a thread of Anthropic's; those that follow lack them
MAX_KEPT: Final = 131_072  # bytes of them


@dataclass(frozen=True, slots=True)
class Verdict:
    """The end of an exchange: the `end` of its run, and the seconds within which a retry may come; 0: none will."""

    end: str
    again_within: float = 0.0


class Exchange:
    """A request (`body` may be any JSON) and its answer. `dialect`: a wire of `turnmill.capture.providers`."""

    def __init__(self, dialect: str, body: Any, headers: Mapping[str, str] | None = None) -> None:
        self._streams = isinstance(body, dict) and body.get("stream") is True
        settings, in_body = masked_settings(dialect, body)
        self._body = request_body(dialect, settings)
        self._in_thread = isinstance(settings, dict) and isinstance(settings.get("thread"), dict)
        kept = {name: settings[name] for name in KEPT if name in settings} if self._in_thread else {}
        self._kept: Fields = kept if kept and len(encode(kept)) <= MAX_KEPT else {}
        self.answer = Answer(dialect)
        self._dialect = dialect
        self._kind = WIRES[dialect].kind
        self._secrets = in_body | credentials(headers or {})
        self._status = 0
        self._cost: float | None = None  # in US dollars, as a gateway's header tells it
        self._wait = RETRY_WINDOW
        self._decode: Decode | None = None
        self._stream: Decoder | None = None
        self._whole: list[bytes] = []
        self._held = self._size = self._notes = 0
        self._came = self._events = 0  # bytes, still encoded, and what they have unpacked to
        self._has_whole = False  # an answer that is no stream was read
        self._trouble: str | None = None  # why the answer, or our copy of it, is incomplete
        self._lost = False  # the server has no such conversation

    def asked(self, kept: Mapping[str, Any] | None = None) -> list[Fields]:
        """Return the event of the request, which precedes those of the answer. Call it once.

        `kept`: what the server keeps of the conversation, and the request leaves out: `left_out` of the call before.
        """
        body, self._body = self._body, None
        self._kept = {**{name: value for name, value in (kept or {}).items() if name in KEPT}, **self._kept}
        return [self._event("request", request=body, **({"kept": kept} if kept else {}))]

    @property
    def left_out(self) -> Fields:
        """What a request that continues from this answer need not repeat: `system`, `tools`, names of `calls`."""
        return {**self._kept, **({"calls": self.answer.names} if self.answer.names else {})}

    @property
    def response_id(self) -> str | None:
        """The server's id of the answer, if a following request may refer to it."""
        return self.answer.response_id if self._in_thread or self._dialect != MESSAGES else None

    def answered(self, status: int, headers: Mapping[str, str]) -> list[Fields]:
        """Note status and headers of the answer; names of headers are in lower case."""
        self._status = status
        self._cost = told_cost(headers)
        self._wait = RETRY_WINDOW + _retry_after(headers)
        wire = WIRES[self._dialect]
        reads_objects = wire.framing == "sse-or-array"  # it takes a whole answer for a stream of an event
        if self._is_good and (reads_objects or _is_stream(headers.get("content-type", ""), asked=self._streams)):
            self._stream = decoder_for(wire, CAPTURED_ANSWER_BYTES)
        try:
            self._decode = decoding(headers.get("content-encoding", ""))
        except Unreadable as error:
            return self._unreadable(error)
        return []

    def data(self, chunk: bytes) -> Iterator[Fields]:
        """Yield the events that a chunk of the answer completes; it is still encoded."""
        if self._decode is None:
            return
        self._came += len(chunk)
        try:
            for piece in self._decode(chunk):
                yield from self._take(piece)
                if self._size > CAPTURED_STREAM_BYTES:
                    raise Unreadable(f"more than {CAPTURED_STREAM_BYTES:,} bytes of an answer are not read")
                if self._events > CAPTURED_EVENTS + self._came:
                    raise Unreadable(
                        f"{self._events:,} events of an answer came in {self._came:,} bytes: no more are read"
                    )
        except Unreadable as error:
            yield from self._unreadable(error)

    def finished(self) -> Iterator[Fields]:
        """Yield the remaining events: the answer's body is complete."""
        if self._stream is not None:
            yield from self._close()
        elif self._trouble is not None:
            pass  # it was reported already
        elif not self._is_good:
            body = without_secrets(b"".join(self._whole).decode("utf-8", "replace"), self._secrets)
            value = json_of(body.encode())
            self._lost = _error_code(value) in LOST
            yield self._event("error", status=self._status, body=fitted(body if value is None else value))
        elif self._size > self._held:
            self._trouble = (
                f"the answer has {self._size:,} bytes: only {CAPTURED_ANSWER_BYTES:,} are read of one that is no stream"
            )
            yield self._event("error", status=self._status, body=self._trouble)
        else:
            yield from self._read()
        self._whole = []

    def failed(self, error: str) -> Iterator[Fields]:
        """Yield the events of a broken connection, with no answer or a part of it. `error`: `NAME: its message`."""
        if self._stream is not None:
            yield from self._close()
        if not self.is_over:
            name = error.partition(":")[0]
            message = without_secrets(without_addresses(error), self._secrets)[:ERROR_CHARACTERS]
            self._trouble = name
            yield self._event("error", body={"type": name, "message": message})

    def cancelled(self) -> Iterator[Fields]:
        """Yield the events of a call that the program gave up; also of a refusal, which clients that retry may skip."""
        if self._status and not self._is_good:
            yield from self.finished()

    def gap(self, lost: int) -> list[Fields]:
        """Return the event for bytes of the answer that our queue has lost; the bytes after them can't be decoded."""
        self._decode = self._stream = None
        self._trouble = "lost"
        return self._left_out(lost, "there was no room for them: the publisher could not keep up")

    @property
    def is_over(self) -> bool:
        """True if the model has ended its answer, whatever happens to the connection."""
        return self.answer.over and not self.answer.failed

    def verdict(self, how: str) -> Verdict:
        """Return the verdict for an exchange that has ended in this way: finished, failed or cancelled."""
        if self.is_over:
            return Verdict("complete")
        if self._status and not self._is_good:
            again = self._lost or self._status in RETRIED_STATUSES or self._status >= 500 or self._status < 400
            return Verdict("error", self._wait if again else 0.0)
        if how == "cancelled":
            return Verdict("aborted")
        if self.answer.failed or not self._status:
            return Verdict("error", self._wait)
        if how == "finished" and self._trouble is not None:
            return Verdict("error")  # the program has its answer, and won't retry
        return Verdict("complete") if self._has_whole else Verdict("disconnected", self._wait)

    @property
    def _is_good(self) -> bool:
        return 200 <= self._status < 300

    def _take(self, piece: bytes) -> Iterator[Fields]:
        self._size += len(piece)
        if self._stream is not None:
            yield from self._framed(piece)
        elif self._held + len(piece) <= (CAPTURED_ANSWER_BYTES if self._is_good else ERROR_BYTES):
            self._whole.append(piece)
            self._held += len(piece)

    def _framed(self, piece: bytes) -> Iterator[Fields]:
        assert self._stream is not None  # the caller has checked
        for framed in self._stream.feed(piece):
            self._events += 1
            if framed.event is not None:
                yield from self._publishable(framed.event, len(framed.raw))
            elif framed.error is not None:
                yield from self._left_out(len(framed.raw), framed.error.detail)

    def _close(self) -> Iterator[Fields]:
        stream, self._stream = self._stream, None
        for framed in stream.close() if stream is not None else ():
            if framed.event is not None:
                yield from self._publishable(framed.event, len(framed.raw))

    def _read(self) -> Iterator[Fields]:
        """Yield the events of a whole answer: JSON, Google's array of events, or a stream with another content type."""
        data = b"".join(self._whole)
        value = json_of(data)
        if isinstance(value, (dict, list)):
            self._has_whole = True
            for event in value if isinstance(value, list) else [value]:
                if isinstance(event, dict):
                    yield from self._publishable(event, len(data))
        else:
            self._stream = decoder_for(WIRES[self._dialect], CAPTURED_ANSWER_BYTES)
            yield from self._framed(data + b"\n\n")

    def _publishable(self, event: Fields, size: int) -> Iterator[Fields]:
        """Yield an event in publishable form. `size`: its bytes as received; a small event is not measured again."""
        self.answer.take(event)
        event = self._masked(event)
        if self._cost is not None:
            event = with_cost(event, self._cost)
        small = event if size <= SMALL_BYTES else fitted(_without_repeats(event))
        yield small
        if small is not event:
            yield from self._left_out(0, "an event was too large: long texts in it are cut")

    def _masked(self, event: Fields) -> Fields:
        """Return an event; mask credentials if it reports a server's failure or repeats the request."""
        response = event.get("response")
        if isinstance(response, dict):
            event = {**event, "response": masked_settings(self._dialect, response)[0]}
        elif event.get("object") == "response":
            event = masked_settings(self._dialect, event)[0]
        if self.answer.failed and self._secrets:
            value = json_of(without_secrets(encode(event).decode(), self._secrets).encode())
            return value if isinstance(value, dict) else {}
        return event

    def _unreadable(self, error: Unreadable) -> list[Fields]:
        self._decode = self._stream = None
        self._trouble = str(error)
        return [self._event("error", status=self._status, body=str(error))]

    def _left_out(self, lost: int, why: str) -> list[Fields]:
        self._notes += 1
        return [self._event("left_out", bytes=lost, reason=why)] if self._notes <= MAX_NOTES else []

    def _event(self, kind: str, **fields: Any) -> Fields:
        return {self._kind: f"turnmill.{kind}", **fields}


def _is_stream(content_type: str, *, asked: bool) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    if kind.endswith(("/event-stream", "/x-ndjson", "/jsonl", ".amazon.eventstream")):
        return True
    return kind != "application/json" and asked


def _error_code(body: Any) -> Any:
    """Return the code of an error in the body of a refusal."""
    match body:
        case {"error": {"details": {"error_code": str(code)}}} | {"error": {"code": str(code)}}:
            return code
    return None


def _without_repeats(event: Fields) -> Fields:
    """Return an event; if it is too large, without its copy of the whole answer, which the deltas contain."""
    response = event.get("response")
    if not isinstance(response, dict) or not response.get("output") or fitted(event) is event:
        return event
    return {**event, "response": {**response, "output": []}}


def _retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds that the server asks a client to wait."""
    try:
        if "retry-after-ms" in headers:
            seconds = float(headers["retry-after-ms"]) / 1_000
        else:
            seconds = float(headers.get("retry-after", 0))
    except ValueError:  # a date
        return MAX_RETRY_AFTER if headers.get("retry-after") else 0.0
    return min(max(seconds, 0.0), MAX_RETRY_AFTER)
