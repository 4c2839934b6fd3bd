"""Live streams: a thread's runs as they happen, from the broker."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Header, Query, Response

from pipeline.assembly.dialect import Dialect
from pipeline.dialects import DIALECTS
from pipeline.dialects.live_text import shown
from pipeline.errors import StoreError
from pipeline.gateway.connections import Gateway, TheGateway, unknown_thread
from pipeline.gateway.live.event_stream import HEADERS, EventStream, comment, frame
from pipeline.gateway.live.following import Following
from pipeline.gateway.live.recent_events import LiveEvent, Place, Reading, visible
from pipeline.gateway.problems import Problem, documented
from pipeline.gateway.security import Reader, Standing
from pipeline.gateway.threads import ThreadId
from pipeline.observability import metrics as m
from threadmill.envelope import encode
from threadmill.identity import thread_uuid

KEEP_ALIVE: Final = 15.0  # seconds of silence until a comment is sent
RETRY_MS: Final = 1000
AT_ONCE: Final = 65_536  # bytes that are sent together
LAST: Final = 999_999_999  # index behind all events of a record
EARLY: Final = 1000  # events of a resumed stream that wait for those before them; then what is missing is passed over
RESUMABLE: Final = tuple(name for name, dialect in DIALECTS.items() if dialect.resume is not None)

router = APIRouter(prefix="/v1/threads", tags=["live"])


@router.get(
    "/{thread_id}/live",
    summary="Follow a thread's runs",
    response_class=Response,
    responses={
        200: {
            "description": "Server-sent events: each event of a run once, then as they come.",
            "content": {
                "text/event-stream": {
                    "schema": {"type": "string"},
                    "example": 'id: 7-12345.3\ndata: {"run_id":"r1","agent_id":"weather","dialect":"vercel-ai","seq":3,'
                    '"ts":1768928342002,"event":{"type":"text-delta","id":"t","delta":"Hello"}}\n\n'
                    'id: 7-12346.1\nevent: end\ndata: {"run_id":"r1","agent_id":"weather","dialect":"vercel-ai",'
                    '"seq":4,"ts":1768928343002,"end":"complete"}\n\n',
                }
            },
        },
        204: {"description": "dialect=vercel-ai: no run is active"},
        **documented("unknown-thread", "bad-event-id"),
    },
)
async def live(
    gateway: TheGateway,
    principal: Reader,
    still: Standing,
    thread_id: ThreadId,
    dialect: Annotated[
        Literal[RESUMABLE] | None,  # type: ignore[valid-type]
        Query(description="The UI message stream of the one active run, as `useChat({resume: true})` expects it."),
    ] = None,
    replay: Annotated[
        Literal["recent", "open", "none"],
        Query(description="What comes first: the runs of the last hour, those that are open, or nothing."),
    ] = "recent",
    follow: Annotated[bool, Query(description="Go on with what comes; else it ends behind what is there.")] = True,  # noqa: FBT002
    wait: Annotated[bool, Query(description="For a thread that is not there yet.")] = False,  # noqa: FBT002
    shows: Annotated[  # noqa: FBT002
        bool,
        Query(description="With what each event adds for people, in any dialect: [[text|thinking|tool, …]]."),
    ] = False,
    last_event_id: Annotated[str | None, Header(max_length=100, description="Go on behind this event.")] = None,
    from_id: Annotated[
        str | None, Query(alias="last_event_id", max_length=100, description="The same; the header wins.")
    ] = None,
) -> Response:
    """Events come from the broker, before they are stored, and each once. Their ids are the same from every gateway: a
    reader that breaks off goes on, here or elsewhere, exactly behind the id that it got last.
    """
    after = _place(last_event_id or from_id)
    uuid = await _thread(gateway, thread_id, principal.tenant)
    following = await gateway.live.follow(uuid, principal.tenant, after, replay, still)
    if dialect is not None:
        return await _resumed(gateway, following, DIALECTS[dialect], after, principal.tenant)
    if not (following.runs or wait or await _has(gateway, following, after, principal.tenant)):
        await _check_known(gateway, thread_id, uuid, principal.tenant)
    behind = None
    if replay == "none" and after is None and following.stop > 0:
        # A reader that breaks off before its first event goes on behind all that it did not ask for.
        behind = str(Place(following.partition, following.stop - 1, LAST))
    return EventStream(_frames(gateway, following, behind, follow=follow, shows=shows), gateway.count_cut)


async def _frames(
    gateway: Gateway, following: Following, behind: str | None, *, follow: bool, shows: bool
) -> AsyncGenerator[bytes]:
    yield comment("the events of a thread, as they come", RETRY_MS, behind)
    async for records in gateway.live.records(following, follow=follow, silence=KEEP_ALIVE):
        if not records:
            yield comment("nothing new")
        parts: list[bytes] = []
        size = 0
        for record in records:
            events = following.reading.events(record)
            gateway.metrics.add(m.LIVE_EVENTS, len(events))
            for event in events:
                parts.append(_native(event, shows=shows))
                size += len(parts[-1])
            if size > AT_ONCE:
                yield b"".join(parts)
                parts, size = [], 0
        if parts:
            yield b"".join(parts)
    yield comment("go on behind the last id" if follow else "that is all", RETRY_MS)


def _native(event: LiveEvent, *, shows: bool) -> bytes:
    envelope = event.envelope
    said: dict[str, Any] = {name: envelope[name] for name in ("run_id", "agent_id", "dialect")}
    said |= {"seq": event.seq, "ts": event.ts}
    said |= {"event": event.event} if event.end is None else {"end": event.end}
    if shows and event.end is None:
        said["shows"] = [list(piece) for piece in shown(said["dialect"], event.event)]
    return frame(encode(said), str(event.place), "end" if event.end is not None else None)


async def _resumed(
    gateway: Gateway, following: Following, dialect: Dialect, after: Place | None, tenant: str | None
) -> Response:
    """The stream of the newest active run as its SDK's client reads it; with `after`, the rest of the run that this
    place is in.
    """
    if after is None:
        idle = time.time() * 1000 - gateway.settings.idle_timeout * 1000
        whole = (
            (run_id, run) for run_id, run in following.runs.items() if run.dialect == dialect.name and run.seq == 0
        )
        active = [run_id for run_id, run in whole if not run.over and run.last_at >= idle]
        if not active:
            return Response(status_code=204)
        run_id, seq = active[-1], 0
    else:
        record = await gateway.live.at(following, after)
        envelope = record.envelope if record is not None else None
        if envelope is None or envelope["dialect"] != dialect.name or not visible(envelope, tenant):
            raise Problem("bad-event-id", f"{after} is no event of a {dialect.name} stream of this thread")
        run_id, seq = envelope["run_id"], envelope["seq"] + after.index + 1
    known = following.runs.get(run_id)
    start = known.first if known is not None else following.start
    # Events come in the order of their seq, so what a client has is said by seq, too, and not by the place.
    of_run = replace(following, start=start, reading=Reading(tenant))
    headers = {**HEADERS, **(dialect.resume or {})}
    return EventStream(_frames_of_run(gateway, of_run, dialect, run_id, seq), gateway.count_cut, headers)


async def _frames_of_run(
    gateway: Gateway, following: Following, dialect: Dialect, run_id: str, seq: int
) -> AsyncGenerator[bytes]:
    """The run's events from `seq` on, in this order: a client of the SDK fails at a delta before its start.

    Without an `end` the stream is over a moment after the event that usually is the last.
    """
    silence = min(KEEP_ALIVE, gateway.settings.terminal_grace)
    done = [frame(dialect.wire.done_marker.encode())] if dialect.wire.done_marker is not None else []
    finished = False
    early: dict[int, LiveEvent] = {}
    async for records in gateway.live.records(following, follow=True, silence=silence):
        if not records:
            if finished:
                break
            yield comment("nothing new")
        for event in (event for record in records for event in following.reading.events(record)):
            if event.envelope["run_id"] != run_id:
                continue
            if event.end is not None:
                for left in [*(_own_frame(early[seq]) for seq in sorted(early)), *done]:
                    yield left
                return
            if event.seq < seq:
                continue
            early[event.seq] = event
            if len(early) > EARLY:
                seq = min(early)
            while seq in early:
                given = early.pop(seq)
                gateway.metrics.add(m.LIVE_EVENTS)
                yield _own_frame(given)
                finished = dialect.ended(given.event, None) is not None
                seq += 1
    for marker in done if finished else ():
        yield marker


def _own_frame(event: LiveEvent) -> bytes:
    return frame(encode(event.event), str(event.place))


def _place(text: str | None) -> Place | None:
    if not text:
        return None
    place = Place.parse(text)
    if place is None:
        raise Problem("bad-event-id", f"{text!r:.100} is no id of an event: PARTITION-OFFSET.INDEX is expected")
    return place


async def _thread(gateway: Gateway, conversation_id: str, tenant: str | None) -> str:
    """A UUID as it is; another id as the gateway would make one of it, unless a stored thread declares it. A deleted
    thread is unknown, though the topic may still have something of it.
    """
    uuid, external_id = thread_uuid(conversation_id, tenant)
    try:
        store = await gateway.store()
        if external_id is not None and not gateway.tail.recent.runs(uuid, tenant):
            uuid = await store.find(conversation_id, tenant=tenant) or uuid
        deleted = await store.erased([uuid])
    except StoreError:  # the broker alone can tell enough
        return uuid
    if deleted:
        raise unknown_thread(conversation_id)
    return uuid


async def _has(gateway: Gateway, following: Following, place: Place | None, tenant: str | None) -> bool:
    """Whether the caller's place is in the thread: who has never read of it, can't make us look for it everywhere."""
    record = await gateway.live.at(following, place) if place is not None else None
    return record is not None and record.envelope is not None and visible(record.envelope, tenant)


async def _check_known(gateway: Gateway, conversation_id: str, thread_id: str, tenant: str | None) -> None:
    """A thread whose runs are long over is stored; another one may be about to begin, but who asks must say so."""
    try:
        found = await (await gateway.store()).summary(thread_id, tenant=tenant)
    except StoreError:
        return
    if found is None:
        raise unknown_thread(conversation_id)
