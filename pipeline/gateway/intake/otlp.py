"""Spans and log records of OpenTelemetry's exporters (OTLP over HTTP), published as runs: each trace a run.

Exporters send a batch again after 429, 502, 503 and 504 alone, and lose it after any other error. Each event has a
number that follows from it, so a batch that comes again, or elsewhere, changes nothing.
"""

import asyncio
import zlib
from collections import Counter
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request, Response
from starlette.requests import ClientDisconnect

from pipeline.dialects.otel.spans import ENVIRONMENTS, USERS
from pipeline.gateway.access.limits import BodyTooLarge, BodyTooSlow, chunks
from pipeline.gateway.access.security import Sender
from pipeline.gateway.intake.otlp_events import Signal, body_of, events_of, message
from pipeline.gateway.intake.uploads import TheUploads
from pipeline.gateway.problems import KINDS, Problem, documented
from pipeline.gateway.routing import JSON, Tenant
from pipeline.gateway.state import SMALL_BYTES, TheAside, TheGateway
from topics.json_text import Fields, encoded, present
from turnmill.errors import InvalidRecord, Reason
from turnmill.identity import trace_thread, whole_text
from turnmill.limits import NAMED_CHARACTERS, OTLP_BYTES, RECORD_BYTES
from turnmill.wire.envelope import encode
from turnmill.wire.registry import OTEL

PROTOBUF: Final = "application/x-protobuf"
YIELD_RECORDS: Final = 100  # records between two yields to the event loop
UNREADABLE: Final = 3  # INVALID_ARGUMENT, of gRPC's codes
ADVICE: Final = "set OTEL_BSP_MAX_EXPORT_BATCH_SIZE lower in the program that exports"

router = APIRouter(prefix="/v1", tags=["runs"])


def _documented(name: str) -> dict[str, Any]:
    about = f"OpenTelemetry's `Export{name}ServiceRequest`; it may be gzipped."
    kinds = {PROTOBUF: {"schema": {"type": "string", "format": "binary"}}, JSON: {"schema": {"type": "object"}}}
    answer = {"description": "Taken; `partialSuccess` says what was left out.", "content": kinds}
    return {"requestBody": {"required": True, "description": about, "content": kinds}, "responses": {"200": answer}}


PROBLEMS: Final = documented("bad-request", "too-slow", "too-large", "unsupported-media-type")


class _Export:
    """A request of an exporter, and what takes it up."""

    def __init__(
        self,
        request: Request,
        gateway: TheGateway,
        uploads: TheUploads,
        aside: TheAside,
        principal: Sender,
        tenant: Tenant = None,
    ) -> None:
        self.request, self.gateway, self.uploads, self.aside = request, gateway, uploads, aside
        self.tenant = principal.bounded(tenant)


Export = Annotated[_Export, Depends()]


@router.post("/traces", summary="Publish spans", openapi_extra=_documented("Trace"), responses=PROBLEMS)
async def traces(export: Export) -> Response:
    """Send the spans of a program: runs and turns are made of those about models, tools and agents."""
    return await _take("traces", export)


@router.post("/logs", summary="Publish log records", openapi_extra=_documented("Logs"), responses=PROBLEMS)
async def logs(export: Export) -> Response:
    """Send log records, in which some instrumentations have the words of the calls that their spans are about."""
    return await _take("logs", export)


async def _take(signal: Signal, export: _Export) -> Response:
    request, uploads, tenant = export.request, export.uploads, export.tenant
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (JSON, PROTOBUF):
        return _refused(Problem("unsupported-media-type", f"a body of type {PROTOBUF} or {JSON} is needed"), kind)
    settings = export.gateway.settings
    try:
        with uploads.coming_in():
            async with asyncio.timeout(settings.run_timeout):
                most = min(OTLP_BYTES, settings.gateway_body_bytes)
                body = b"".join([chunk async for chunk in chunks(request.receive, settings.gateway_body_idle, most)])
            encoding = request.headers.get("content-encoding", "identity").strip().lower()
            read = partial(_read, signal, body, kind, encoding, most, tenant)
            small = kind == JSON and len(body) <= SMALL_BYTES and encoding == "identity"
            records, refused = read() if small else await export.aside.run(tenant, read)
            if records:
                publisher = await export.gateway.publisher()
                uploads.outage.take(publisher, tenant, len(body))
                for number, (key, value) in enumerate(records):
                    await publisher.put(key, value)
                    if number % YIELD_RECORDS == 0:
                        await asyncio.sleep(0)
                await publisher.kept()
    except (BodyTooSlow, TimeoutError):
        return _refused(Problem("too-slow", f"nothing came for {settings.gateway_body_idle:g} s"), kind)
    except BodyTooLarge:
        return _refused(Problem("too-large", f"a body may have {most:,} bytes: {ADVICE}"), kind)
    except ClientDisconnect:
        return _refused(Problem("bad-request", "the body broke off"), kind)
    except InvalidRecord as error:
        return _refused(Problem("bad-request", error.detail), kind)
    uploads.count_events({OTEL: len(records)}, Counter({Reason.INVALID_EVENT: len(refused)}) if refused else {})
    return _taken(signal, kind, refused)


def _read(
    signal: Signal, body: bytes, kind: str, encoding: str, most: int, tenant: str | None
) -> tuple[list[tuple[bytes, bytes]], list[str]]:
    """Return the records of a body, key and value, and why events were left out."""
    try:
        plain = _unpacked(body, encoding, most)
        events, refused = events_of(signal, body_of(signal, plain, protobuf=kind == PROTOBUF))
    except (zlib.error, RecursionError, ValueError, TypeError) as error:
        raise InvalidRecord(Reason.UNDECODABLE, f"the body can't be read: {error}") from None
    records: list[tuple[bytes, bytes]] = []
    for event in events:
        pieces = [_record(piece, tenant) for piece in _pieces(event)]
        large = max(len(value) for _, value in pieces)
        if large > RECORD_BYTES:
            refused.append(f"span {event['span_id']}: an attribute may have {RECORD_BYTES:,} bytes")
        else:
            records += pieces
    return records, refused


def _unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """Return a body without its encoding. Raises BodyTooLarge, InvalidRecord or zlib.error."""
    if encoding == "identity":
        return body
    if encoding != "gzip":
        raise InvalidRecord(Reason.UNDECODABLE, f"Content-Encoding is gzip or none, got {encoding:.80}")
    unpacking = zlib.decompressobj(wbits=31)
    plain = unpacking.decompress(body, most + 1)
    if len(plain) > most:
        raise BodyTooLarge
    if not unpacking.eof:
        raise InvalidRecord(Reason.UNDECODABLE, "the gzipped body breaks off")
    return plain


def _pieces(event: Fields) -> Iterator[Fields]:
    """Yield an event, in several pieces if it is too large for a record: each has some of its attributes."""
    room = RECORD_BYTES * 3 // 4
    if len(encoded(event)) <= room:
        yield event
        return
    held, size = dict[str, Any](), 0
    for name, value in event["attributes"].items():
        weight = len(encoded(value))
        if held and size + weight > room:
            yield {**event, "attributes": held}
            held, size = {}, 0
        held[name] = value
        size += weight
    yield {**event, "attributes": held}


def _record(event: Fields, tenant: str | None) -> tuple[bytes, bytes]:
    """Return the record of an event. The 52 bits of its `seq` are a hash of all that it says."""
    thread_id = trace_thread(event["trace_id"], tenant) or ""
    known = {**event["resource"], **event["attributes"]}
    names = {"user": USERS, "environment": ENVIRONMENTS}
    run = {
        name: next((known[key] for key in keys if isinstance(known.get(key), str)), None)
        for name, keys in names.items()
    }
    envelope = {
        "v": 1,
        "thread_id": thread_id,
        "run_id": event["trace_id"],
        "agent_id": whole_text(str(event["resource"].get("service.name") or "agent"))[:NAMED_CHARACTERS],
        "seq": int.from_bytes(sha256(encoded(event)).digest()[:8]) >> 12 | 1 << 52,
        "ts": event["start"] // 1_000_000,
        "dialect": OTEL,
        "events": [event],
        **present({"tenant": tenant, "run": present(run) or None}),
    }
    return thread_id.encode(), encode(envelope)


def _taken(signal: Signal, kind: str, refused: list[str]) -> Response:
    """Return the answer to a batch, in the batch's encoding; that is empty if nothing was left out."""
    name = "rejectedSpans" if signal == "traces" else "rejectedLogRecords"
    if kind == JSON:
        partly = {"partialSuccess": {name: str(len(refused)), "errorMessage": refused[0]}} if refused else {}
        return Response(encoded(partly), media_type=JSON)
    answer = message(signal, "ServiceResponse")() if refused else None
    if answer is not None:
        rejected = "rejected_spans" if signal == "traces" else "rejected_log_records"
        setattr(answer.partial_success, rejected, len(refused))
        answer.partial_success.error_message = refused[0]
    return Response(b"" if answer is None else answer.SerializeToString(), media_type=PROTOBUF)


def _refused(problem: Problem, kind: str) -> Response:
    """Return the answer to a batch that can't be taken: a `google.rpc.Status` in the encoding of the request.

    In protobuf, that has the fields of a partial success: a number, then a text.
    """
    status, text = KINDS[problem.kind].status, problem.detail
    if kind != PROTOBUF:
        return Response(encoded({"code": UNREADABLE, "message": text}), status, media_type=JSON)
    told = message("traces", "PartialSuccess")(rejected_spans=UNREADABLE, error_message=text)
    return Response(told.SerializeToString(), status, media_type=PROTOBUF)
