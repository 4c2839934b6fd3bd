"""Makes the turn records of a finished run: user turns, agent turns, and facts about its thread."""

from collections.abc import Sequence

from pipeline.assembly.agent_turn import agent_turn
from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Context
from pipeline.turns.asides import is_aside
from pipeline.turns.canonical import sealed
from pipeline.turns.event_coverage import Ranges, held_ranges
from pipeline.turns.requests import REQUEST, set_apart, without_messages
from pipeline.turns.times import bounded, epoch_ms, iso
from topics import turn_record
from topics.json_text import Fields, object_of
from topics.turn_record import LABELS, TurnRecord
from turnmill.identity import thread_uuid, turn_id
from turnmill.labels import KEYS, labels_of

Timings = list[dict[str, int | None]]


def finish(
    builder: Builder,
    end: str,
    *,
    events: int,
    missing: Ranges = (),
    revision: int = 0,
    keep_telemetry: bool = False,
    keep_requests: bool = False,
    labels: Fields | None = None,
) -> list[TurnRecord]:
    """Return the records of a run of `events` events, in order. The builder can't be used again.

    There is at least one, except for a trace that calls no model.

    `missing`: the ranges of seq that are not among these events.

    `end` is complete, aborted, error, disconnected, or the interruption's reason (timeout, events_lost). The turns
    of sub-agents come last, in other threads; their dialect has ended them, and they have the `labels` of the
    run that started them.
    """
    context = builder.context
    labels = _labels(builder) if labels is None else labels
    start = epoch_ms(context.started_at)
    ranges = held_ranges(events, missing)
    turns: list[tuple[str, Fields, Timings]] = []
    for number, user in enumerate(builder.user_turns):
        turns.append((f"user{number or ''}", _user_turn(builder, user, start), []))
    if builder.messages or not (builder.agent_turns or builder.facts_only):
        builder.end_turn(end)  # an agent that was cut off before it spoke has a turn, too
    elif builder.asides and builder.agent_turns:
        builder.agent_turns[-1].asides.extend(builder.asides)
    for number, turn in enumerate(builder.agent_turns):
        document, timings = agent_turn(context, turn, start if number == 0 else None, keep_telemetry=keep_telemetry)
        turns.append((str(number or ""), document, timings))
        if not keep_requests:
            for message in document["messages"]:
                message.pop(REQUEST, None)
    for number, native in enumerate(builder.native):
        turns.append((str(number or ""), native, []))
    records = [
        _record(builder, ordinal, turn, events, ranges, revision, timings, labels) for ordinal, turn, timings in turns
    ]
    if not (records or builder.scattered):
        empty = _record(builder, "", None, events, ranges, revision, [], labels)
        records = [{**empty, "at": bounded(builder.last_at)}]
    for number, record in enumerate(records[1:], 1):
        record["ordinal"] = number
    if records:
        _add_facts(builder, records[-1], start)
    if keep_requests and not builder.native:
        _ask(builder, records)
    for child in builder.children:
        records += finish(
            child,
            end,
            events=events,
            missing=missing,
            revision=revision,
            keep_telemetry=keep_telemetry,
            keep_requests=keep_requests,
            labels=labels,
        )
    return [sealed(record) for record in records]


def _ask(builder: Builder, records: Sequence[TurnRecord]) -> None:
    """Put the requests to the model into new records.

    If no response has a request of its own, the run's request becomes that of the first response.
    """
    responses = [
        message
        for record in records
        for message in (record["turn"] or {}).get("messages") or ()
        if message["message_type"] == "response" and not is_aside(message)
    ]
    if responses and not any(REQUEST in response for response in responses):
        context = builder.context
        body = {**(without_messages(context.request, context.dialect) or {}), **(builder.asked or {})}
        if body:
            responses[0][REQUEST] = body
    for record in records:
        set_apart(record)


def _user_turn(builder: Builder, user: Fields, start: int | None) -> Fields:
    first = builder.agent_turns[0].first_at if builder.agent_turns else builder.first_at
    submitted = user["at"] if user["at"] is not None else start if start is not None else first
    rest = {key: value for key, value in user.items() if key not in ("turn_type", "at")}
    return {"turn_type": "user", "submitted_at": iso(submitted), **rest}


def _record(
    builder: Builder,
    ordinal: str,
    turn: Fields | None,
    events: int,
    ranges: list[list[int]],
    revision: int,
    timings: Timings,
    labels: Fields,
) -> TurnRecord:
    context = builder.context
    identity = turn_id(context.thread_id, context.run_id, ordinal)
    status = "complete"
    parent = _parent(context)
    if turn is not None:
        status = str(turn.get("completion_status", "complete"))
        turn["meta:turn_id"] = identity
        turn["meta:run_id"] = context.run_id
        if parent:
            turn["meta:parent"] = parent
    record: TurnRecord = {
        "v": turn_record.VERSION,
        "thread_id": context.thread_id,
        "run_id": context.run_id,
        "turn_id": identity,
        "agent_id": context.agent_id,
        "dialect": context.dialect,
        "revision": revision,
        "status": status,
        "hash": None,
        "events": events,
        "ranges": ranges,
        "turn": turn,
    }
    if timings:
        record["timings"] = timings
    if context.tenant is not None:
        record["tenant"] = context.tenant
    if labels:
        record["thread"] = {LABELS: labels}
    if parent:
        record["parent"] = parent
    if context.imported:
        record["imported"] = True
    if context.traceparent is not None:
        record["traceparent"] = context.traceparent
    return record


def _labels(builder: Builder) -> Fields:
    context = builder.context
    known = {key: value for key in KEYS if (value := getattr(context, key)) is not None}
    session = object_of((context.thread or {}).get("metadata")) | object_of(builder.thread.get("metadata"))
    return labels_of(known, context.request, session)


def _parent(context: Context) -> dict[str, str]:
    """Return the run that started this one: {"run_id"?, "thread_id"?}, as far as the publisher knows it."""
    parent = {"run_id": context.parent_run_id} if context.parent_run_id else {}
    if context.parent_thread_id:
        parent["thread_id"] = thread_uuid(context.parent_thread_id, context.tenant)[0]
    return parent


def _add_facts(builder: Builder, record: TurnRecord, start: int | None) -> None:
    context = builder.context
    agents = list(builder.agents)
    if not builder.facts_only and context.agent_id not in [agent.get("agent_id") for agent in agents]:
        config: Fields = {"agent_id": context.agent_id, "agent_name": context.agent_name or context.agent_id}
        created_at = iso(start if start is not None else builder.began_at)
        agents.insert(0, {**config, **context.model(), "created_at": created_at})
    if agents:
        record["agents"] = agents
    thread = {**(context.thread or {}), **builder.thread, **record.get("thread", {})}
    if context.external_id is not None:
        thread["external_id"] = context.external_id
    if thread:
        record["thread"] = thread
    links = list(builder.links)
    parent_thread = _parent(context)["thread_id"] if context.parent_thread_id else context.thread_id
    if parent_thread != context.thread_id:  # a sub-agent in a thread of its own
        spawned = {"thread_id": parent_thread, "relation": "spawned_from"}
        links += [] if any(spawned.items() <= link.items() for link in links) else [spawned]
    if links:
        record["links"] = links
