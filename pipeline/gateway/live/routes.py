"""Live streams: a thread's runs as they happen, from the broker."""

import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Header, Query, Response
from pydantic import BaseModel, Field

from pipeline.assembly.dialect import Dialect, Resume
from pipeline.dialects import DIALECTS, shown
from pipeline.gateway.access.security import Reader, Standing
from pipeline.gateway.live.erased import TheErased
from pipeline.gateway.live.event_record import EventRecord
from pipeline.gateway.live.event_stream import HEADERS, EventStream, comment, frame
from pipeline.gateway.live.following import Following, Live, first_places
from pipeline.gateway.live.recent_events import LAST_INDEX, EventId, Frame, InOrder, LiveEvent, Reading, places_of
from pipeline.gateway.live.run_watch import RunWatch
from pipeline.gateway.problems import Problem, documented
from pipeline.gateway.routing import ThreadId, Whose, facts
from pipeline.gateway.state import Gateway, TheGateway, only_one, provided, unknown_thread
from pipeline.observability import metrics as m
from pipeline.stores.database.errors import StoreError
from pipeline.stores.threads.reading import erased_among, thread_summary
from topics.thread_key import ThreadKey
from turnmill.capture.refusal import stopped_events
from turnmill.capture.secrets import masked_settings
from turnmill.control.record import ANSWER, EVENT, STEER
from turnmill.identity import thread_uuid
from turnmill.wire.envelope import encode

KEEP_ALIVE: Final = 15.0  # seconds of silence until a comment is sent
RETRY_MS: Final = 1000
SEND_BYTES: Final = 65_536  # sent in one piece
EARLY_BYTES: Final = 4_000_000  # of a resumed stream's events that wait for earlier ones
ID_CHARACTERS: Final = 4_000  # of an id, which names a place in each partition that has records of the thread
RESTART: Final = "turnmill.restart"  # the name of the event that tells a reader to begin again
RESUMABLE: Final = tuple(name for name, dialect in DIALECTS.items() if dialect.resume is not None)

router = APIRouter(prefix="/v1/threads", tags=["live"])


class LiveQuery(BaseModel):
    """The query of a live stream."""

    tenant: Whose = None
    dialect: Literal[RESUMABLE] | None = Field(  # type: ignore[valid-type]  # the names of a registry
        None, description="The stream of the active run of this dialect, as its SDK's own client resumes it."
    )
    starting_after: int | None = Field(
        None, ge=-1, description="dialect=openai-responses: events of its newest answer after this sequence_number."
    )
    replay: Literal["recent", "open", "none"] = Field(
        "recent", description="What to send first: the runs of the last hour, the open runs, or nothing."
    )
    follow: bool = Field(True, description="Go on with new events; else end after the present ones.")
    wait: bool = Field(False, description="Wait for a thread that doesn't exist yet.")
    shows: bool = Field(
        False, description="Add the visible text of each event, in any dialect: [[text|thinking|tool, …]]."
    )
    last_event_id: str | None = Field(
        None, max_length=ID_CHARACTERS, description="The same; the header takes precedence."
    )


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
        204: {"description": "With `dialect`: no run is active in it. AG-UI's client gets an empty stream instead."},
        **documented("unknown-thread", "bad-event-id", "conflict"),
    },
)
@facts("own", endless=True)
async def live(
    gateway: TheGateway,
    streams: Annotated[Live, provided(Live)],
    erased: TheErased,
    principal: Reader,
    still: Standing,
    thread_id: ThreadId,
    query: Annotated[LiveQuery, Query()],
    last_event_id: Annotated[
        str | None, Header(max_length=ID_CHARACTERS, description="Resume after this event.")
    ] = None,
) -> Response:
    """Stream events from the broker, before they are stored, each once.

    Their ids are the same on every gateway, so a reader that was disconnected can resume, here or elsewhere, exactly
    after the last id that it got.
    """
    given = last_event_id or query.last_event_id
    after = places_of(given) if given else []
    if after is None:
        raise Problem("bad-event-id", f"{given!r:.100} is no id of an event: PARTITION-OFFSET.INDEX is expected")
    thread = await _thread(gateway, streams, thread_id, principal.bounded(query.tenant))

    async def goes_on() -> bool:
        return await still() and not await erased.among([thread])

    if query.replay == "open":
        await gateway.service(RunWatch).open_runs()  # the worker's marks say which runs are over
    following = await streams.follow(thread, after, query.replay, goes_on)
    if query.dialect is not None:
        return await _resumed(gateway, streams, following, DIALECTS[query.dialect], after, query.starting_after)
    # A caller that never read the place can't make us search for it.
    if not (following.runs or query.wait or (after and await streams.at(following, after[0]))):
        # Its runs are not among the recent ones: if they ended long ago, it is stored.
        with suppress(StoreError):
            if await thread_summary(await gateway.store(), thread) is None:
                raise unknown_thread(thread_id)
    behind = None
    if query.replay == "none" and not after:
        # A reader that is cut off before its first event resumes after the events that it did not ask for. Where the
        # thread has none, any place will do: it says that there were none.
        stops = {number: stop for number, stop in following.stops.items() if stop > 0}
        held = {number: stops[number] for number in following.starts} or dict(list(stops.items())[:1])
        places = [EventId(number, stop - 1, LAST_INDEX) for number, stop in held.items()]
        following.reading.given.update((place.partition, place) for place in places)
        behind = following.reading.id_of(places[0]) if places else None
    return EventStream(_frames(streams, following, behind, follow=query.follow, shows=query.shows), gateway.metrics)


async def _frames(
    streams: Live, following: Following, behind: str | None, *, follow: bool, shows: bool
) -> AsyncGenerator[bytes]:
    yield comment("the events of a thread, as they come", RETRY_MS, behind)
    reading = following.reading
    async for records in streams.records(following, follow=follow, silence=KEEP_ALIVE):
        if not records:
            yield comment("nothing new")
        parts: list[bytes] = []
        size = 0
        for record in records:
            events = reading.events(record)
            streams.metrics.add(m.LIVE_EVENTS, len(events))
            for event in events:
                parts.append(_native(record, event, reading, shows=shows))
                size += len(parts[-1])
            if size > SEND_BYTES:
                yield b"".join(parts)
                parts, size = [], 0
        if parts:
            yield b"".join(parts)
    if following.again:  # an empty id makes an EventSource come back without an id
        yield b"id\n" + frame(encode({"reason": following.again}), name=RESTART)
    else:
        yield comment("go on behind the last id" if follow else "that is all", RETRY_MS)


def _native(record: EventRecord, event: LiveEvent, reading: Reading, *, shows: bool) -> bytes:
    """Return the event's frame: of a thread in a single partition, made once for all readers at the topic's end."""
    shared = len(reading.given) == 1
    known = record.frames.get((event.event_id.index, shows)) if shared else None
    if known is not None:
        return known
    envelope = event.envelope
    fields: dict[str, Any] = {name: envelope[name] for name in ("run_id", "agent_id", "dialect")}
    fields |= {"seq": event.seq, "ts": event.ts}
    said = event.event
    if isinstance(said, dict) and "request" in said:  # of a publisher that has not masked it
        said = said | {"request": masked_settings(fields["dialect"], said["request"])[0]}
    fields |= {"event": said} if event.end is None else {"end": event.end}
    if shows and event.end is None:
        fields["shows"] = [list(piece) for piece in shown(fields["dialect"], event.event)]
    made = frame(encode(fields), reading.id_of(event.event_id), "end" if event.end is not None else None)
    if record.fresh and shared:
        record.frames[event.event_id.index, shows] = made
    return made


async def _resumed(
    gateway: Gateway, streams: Live, following: Following, dialect: Dialect, after: list[EventId], number: int | None
) -> Response:
    """Return the stream of the newest active run as its SDK's client reads it.

    With `after`: the rest of the run that contains this place. `number`: the number of the last event of the newest
    answer that the client has.
    """
    resume = dialect.resume or Resume()
    if not after:
        idle = time.time() * 1000 - gateway.settings.idle_timeout * 1000
        whole = (
            (run_id, run) for run_id, run in following.runs.items() if run.dialect == dialect.name and run.seq == 0
        )
        active = [run_id for run_id, run in whole if not run.ended and run.last_at >= idle]
        if not active and resume.empty:
            return Response(comment("no run is active"), headers={**HEADERS, **resume.headers})
        if not active:
            return Response(status_code=204)
        run_id, seq = active[-1], 0
    else:
        record = await streams.at(following, after[0])
        envelope = record.envelope if record is not None else None
        if envelope is None or envelope["dialect"] != dialect.name:
            raise Problem("bad-event-id", f"{after[0]} is no event of a {dialect.name} stream of this thread")
        run_id, seq = envelope["run_id"], envelope["seq"] + after[0].index + 1
    known = following.runs.get(run_id)
    starts = first_places([known]) if known is not None else following.starts
    # Events are sent in the order of their seq, so the client's position is a seq as well, not a place.
    of_run = replace(following, starts=starts, reading=Reading(), again=None)
    if not after:
        seq = await _newest(streams, of_run, resume, run_id)
    frames = _frames_of_run(
        streams, replace(of_run, reading=Reading()), dialect, run_id, seq, number, gateway.settings.terminal_grace
    )
    return EventStream(frames, gateway.metrics, {**HEADERS, **resume.headers})


async def _newest(streams: Live, following: Following, resume: Resume, run_id: str) -> int:
    """Return the seq with which the newest answer of a run begins, as far as the run has been published."""
    newest = 0
    async for records in streams.records(following, follow=False, silence=KEEP_ALIVE):
        for event in (event for record in records for event in following.reading.events(record)):
            if event.envelope["run_id"] == run_id and event.end is None and resume.begins(event.event):
                newest = max(newest, event.seq)
    return newest


async def _frames_of_run(
    streams: Live, following: Following, dialect: Dialect, run_id: str, seq: int, number: int | None, grace: float
) -> AsyncGenerator[bytes]:
    """Yield the run's events from `seq` on, ordered by seq: an SDK's client fails at a delta before its start.

    Events up to `number` are left out, and the stream ends where another answer begins.

    Without an `end`, the stream ends `grace` seconds after the event that is usually the last. If the run was stopped,
    the stream ends as its SDK ends a stopped stream.
    """
    resume = dialect.resume or Resume()
    others: set[int] = set()  # seqs with which other answers begin
    silence = min(KEEP_ALIVE, grace)
    done = [frame(dialect.wire.done_marker.encode())] if dialect.wire.done_marker is not None else []
    finished, by = False, None
    frames = InOrder(seq, EARLY_BYTES)
    async for records in streams.records(following, follow=True, silence=silence):
        if not records:
            if finished:
                break
            yield comment("nothing new")
        for event in (event for record in records for event in following.reading.events(record)):
            if event.envelope["run_id"] != run_id:
                continue
            if event.end is not None:
                rest = frames.rest()
                is_cut = event.end == "aborted" and by is not None and not (finished or any(left.last for left in rest))
                last = stopped_events(dialect.name, f"the run was stopped by {by}") if is_cut else ()
                ending = [*(frame(encode(stopped_event)) for stopped_event in last), *done]
                for left in [*(waiting.data for waiting in rest if waiting.data), *ending]:
                    yield left
                return
            by = by or _stopped_by(event.event, dialect)
            if event.seq > seq and resume.begins(event.event):
                others.add(event.seq)
            for given in frames.take(_own_frame(event, dialect, resume, number)):
                if given.seq in others:
                    for marker in done:
                        yield marker
                    return
                streams.metrics.add(m.LIVE_EVENTS)
                if given.data:
                    yield given.data
                finished = given.last or (finished and not given.data)
    for marker in done if finished else ():
        yield marker


def _own_frame(event: LiveEvent, dialect: Dialect, resume: Resume, number: int | None) -> Frame:
    """Return the event for its SDK's client; without data if the client has it already, or must not get it."""
    at = resume.number(event.event) if number is not None else None
    known = number is not None and at is not None and at <= number
    sent = resume.sent(event.event) and event.event.get(dialect.wire.kind) != EVENT  # clients know no such event
    data = frame(encode(event.event), str(event.event_id)) if sent and not known else b""
    return Frame(event.seq, data, dialect.ended(event.event, None) is not None)


def _stopped_by(event: Any, dialect: Dialect) -> str | None:
    """Return who stopped the run, if this event reports that it was stopped."""
    if event.get(dialect.wire.kind) != EVENT or event.get("kind") in (STEER, ANSWER):
        return None
    return str(event.get("by")) if event.get("state") == "acknowledged" else None


async def _thread(gateway: Gateway, streams: Live, conversation_id: str, tenant: str | None) -> ThreadKey:
    """Return the thread of this id; `tenant`: None for any, "" for none.

    A UUID is used as it is. Any other id means the stored thread that declares it, or else the thread whose UUID the
    gateway derives from it. A deleted thread is unknown, though the topic may still have records of it. Raises
    BrokerError, and Problem, for instance if several tenants have a thread of this id.
    """
    await streams.tail.ready()
    uuid, external_id = thread_uuid(conversation_id, tenant)
    key = ThreadKey.of(uuid, tenant)
    known = streams.tail.threads(uuid) if tenant is None else {key} if streams.tail.runs_of(key) else set()
    try:
        store = await gateway.store()
        if tenant is None or (external_id is not None and not known):
            known |= await gateway.stored(conversation_id, tenant)
        key = only_one(conversation_id, known) or key
        deleted = await erased_among(store, [key])
    except StoreError:  # the broker's records suffice
        return only_one(conversation_id, known) or key
    if deleted:
        raise unknown_thread(conversation_id)
    return key
