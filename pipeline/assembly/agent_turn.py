"""Makes the AgentTurn of ThreadProtocol 0.0.4 from a turn's messages.

A part without its end is discarded. A complete turn keeps all its closed parts; an interrupted one only complete
cycles: closed responses all of whose calls were answered. Other content that had been shown is in `meta:partial`.
"""

from collections.abc import Collection, Sequence
from typing import Final

from pipeline.assembly.parts import Context, Message, Part, Turn
from pipeline.turns import tokens
from pipeline.turns.arguments import arguments
from pipeline.turns.partial_turns import PARTIAL
from pipeline.turns.text import join, mend
from pipeline.turns.times import bounded, iso
from topics.json_text import Fields
from topics.part_kinds import ANSWERS
from turnmill.control.record import BUDGET

REASONS: Final = {"aborted": "user_cancelled", "error": "error", "disconnected": "network_failure"}
STOPPED_BY: Final = "meta:stopped_by"
PLACE: Final = "meta:after_part"
UNFINISHED: Final = "meta:unfinished"
BILLED: Final = ("usage", "model_name", "provider_name", "provider_response_id")


def agent_turn(
    context: Context, turn: Turn, start: int | None, *, keep_telemetry: bool
) -> tuple[Fields, list[dict[str, int | None]]]:
    """Return the AgentTurn's JSON, and per response {"ttft_ms", "duration_ms"}.

    `start`: when the run began according to its publisher, epoch ms.
    """
    complete = turn.end == "complete"
    started = turn.first_at if start is None else min(start, turn.last_at)
    document: Fields = {
        "turn_type": "agent",
        "agent_id": context.agent_id,
        "started_at": iso(started),
        "completion_status": "complete" if complete else "interrupted",
    }
    if complete:
        document["completed_at"] = iso(turn.last_at)
    else:
        stopped_by = turn.turn_fields.get(STOPPED_BY, {}).get("by") if turn.end == "aborted" else None
        document["interruption"] = {
            "reason": BUDGET if stopped_by == BUDGET else REASONS.get(turn.end, turn.end),
            "interrupted_at": iso(turn.last_at),
            **({"detail": turn.error_text} if turn.error_text else {}),
        }
    for message in (*turn.messages, *turn.asides):
        usage = message.fields.get("usage")
        if isinstance(usage, dict):
            message.fields["usage"] = tokens.normal(usage)
    whole = [] if complete else [(message, list(message.parts)) for message in turn.messages]
    staying = {id(message) for message in (turn.messages if complete else complete_cycles(turn.messages))}
    messages, timings = _messages(context, turn, started, staying, keep_telemetry=keep_telemetry)
    document["messages"] = messages
    messages += [_aside(context, message, messages[-1]["timestamp"] if messages else None) for message in turn.asides]
    known = [message.fields.get("usage") for message in (*turn.messages, *turn.asides)]
    usages = [usage for usage in known if isinstance(usage, dict)]
    if turn.total_usage:
        reported = tokens.normal(turn.total_usage)
        besides = usages[len(usages) - len(turn.asides) :]
        document["total_usage"] = {**reported, **(tokens.total([reported, *besides]) or {})} if besides else reported
    elif total := tokens.total(usages):
        document["total_usage"] = total
    document.update(turn.turn_fields)
    document.update(turn.notes)
    shown = None if complete else partial(context.agent_id, whole, staying)
    if shown is not None:
        document[PARTIAL] = shown
    return document, timings


def _messages(
    context: Context, turn: Turn, started: int, staying: Collection[int], *, keep_telemetry: bool
) -> tuple[list[Fields], list[dict[str, int | None]]]:
    documents: list[Fields] = []
    timings: list[dict[str, int | None]] = []
    complete = turn.end == "complete"
    clock, previous_end = 0, started
    kept: list[bool] | None = None  # which parts of the newest response are kept; None if it isn't kept itself
    for message in turn.messages:
        if message.kind == "response":
            kept = None
        if id(message) not in staying:
            continue
        if message.kind == "system":
            if keep_telemetry or not str(message.fields.get("event_type")).startswith("data-sys-"):
                documents.append({"message_type": "system", "timestamp": iso(message.at), **_placed(message, kept)})
            continue
        if turn.returns_by_call and message.request is not None:
            _order_returns(message, message.request)
        finished = [_part(part) if part.done else None for part in message.parts]
        parts = [fields for fields in finished if fields]
        if not parts and not message.keep_empty and "usage" not in message.fields:
            continue
        clock = max(clock, message.at)  # rule 5: in order, though a late result may belong to an early response
        document: Fields = {"message_type": message.kind, "timestamp": iso(clock), "agent_id": context.agent_id}
        document["parts"] = parts
        if message.kind == "response":
            kept = [bool(fields) for fields in finished]
            _describe(context, message, document, complete=complete)
            timings.append(_timing(message, previous_end))
            previous_end = message.last_at or message.at
        document.update(message.fields)
        if document.get("finish_reason", "") is None:  # the wire's word means none that ThreadProtocol has
            del document["finish_reason"]
        documents.append(document)
    return documents, timings


def _aside(context: Context, message: Message, after: str | None) -> Fields:
    """Return a response beside the answer, not before the message that it stands behind."""
    at = iso(message.at)
    head = {"message_type": "response", "timestamp": at if after is None else max(at, after)}
    return {**head, "agent_id": context.agent_id, "parts": [], **context.model(), **message.fields}


def complete_cycles(messages: list[Message]) -> list[Message]:
    """Return an interrupted turn's messages without responses that never closed or whose calls weren't all answered."""
    dropped: set[int] = set()
    for message in messages:
        if message.kind != "response":
            continue
        calls = {p.fields["tool_call_id"] for p in message.parts if p.done and p.fields["part_kind"] == "tool-call"}
        answers = message.request.parts if message.request is not None else []
        if message.closed and calls <= {part.fields.get("tool_call_id") for part in answers}:
            continue
        dropped.add(id(message))
        if message.request is not None:  # keep the user's prompts, but no result without its call
            message.request.parts = [part for part in answers if part.fields["part_kind"] not in ANSWERS]
    return [message for message in messages if id(message) not in dropped]


def _describe(context: Context, message: Message, document: Fields, *, complete: bool) -> None:
    document |= context.model()
    if complete or message.request is not None:
        calls = any(part["part_kind"] == "tool-call" for part in document["parts"])
        document["finish_reason"] = "tool_call" if calls else "stop"


def _placed(message: Message, kept: list[bool] | None) -> Fields:
    """Return a system message's fields.

    Its position among the parts of the response before it counts only the parts that are kept.
    """
    if PLACE not in message.fields:
        return message.fields
    fields = {key: value for key, value in message.fields.items() if key != PLACE}
    return fields if kept is None else {**fields, PLACE: sum(kept[: message.fields[PLACE]])}


def _timing(message: Message, since: int) -> dict[str, int | None]:
    """Return what a response took since the previous response, as far as the times of its events tell it.

    Unknown is the first token of an answer in a single piece, and all of a body that came at once.
    """
    first = message.first_part_at
    end = message.last_at if message.last_at is not None else first
    if end is None or end <= since:
        return {"ttft_ms": None, "duration_ms": None}
    ttft_ms = None if first is None or first >= end else bounded(first - since)
    return {"ttft_ms": ttft_ms, "duration_ms": bounded(end - since)}


def _order_returns(response: Message, request: Message) -> None:
    """Sort tool returns by their calls: wires send them as they complete, SDKs keep them in the order of the calls."""
    if len(request.parts) > 1:
        count = len(response.parts)
        rank = {
            part.fields["tool_call_id"]: n for n, part in enumerate(response.parts) if "tool_call_id" in part.fields
        }
        request.parts.sort(key=lambda part: rank.get(part.fields.get("tool_call_id"), count))


def _part(part: Part) -> Fields | None:
    """Return the part as JSON; None for an empty one."""
    fields = part.fields
    if fields["part_kind"] in ("text", "thinking"):
        if part.chunks:
            part.chunks[:] = [join(part.chunks)]  # frees the deltas of a large turn as their text is made
            fields = {**fields, "content": fields["content"] + part.chunks[0]}
        if len(fields) == 2 and not fields["content"]:
            return None
    return fields


def partial(agent_id: str, messages: Sequence[tuple[Message, list[Part]]], kept: Collection[int]) -> Fields | None:
    """Return `meta:partial`: content that an interrupted turn had shown, but does not keep; None if there is none.

        {"messages": [{"message_type", "timestamp", "agent_id", "usage"?, "model_name"?, "provider_name"?,
                       "provider_response_id"?, "parts"}, …]}

    Messages have the form of the turn's, with the content that the turn leaves out: unfinished texts, thoughts and
    calls (each marked `meta:unfinished`), and whole responses whose calls were not all answered. A response of which
    nothing is kept has here its id at the provider, its model, and its usage, which the turn's total includes, even if
    it had shown nothing. Arguments that broke off are {"INVALID_JSON": text}. Like all of `meta:*`, it is not part of
    the canonical hash.

    `messages`: those of the turn, each with the parts that it had before incomplete cycles were dropped. `kept`: the
    `id()` of the messages that are kept.
    """
    partial_messages: list[Fields] = []
    clock = 0
    for message, parts in messages:
        if message.kind == "system":
            continue
        stay = {id(part) for part in message.parts if part.done} if id(message) in kept else set()
        lost = [fields for part in parts if id(part) not in stay and (fields := _shown(part)) is not None]
        clock = max(clock, message.at)
        billed = {} if id(message) in kept else {name: value for name in BILLED if (value := message.fields.get(name))}
        if lost or any(tokens.counts(billed.get("usage")).values()):
            head: Fields = {"message_type": message.kind, "timestamp": iso(clock), "agent_id": agent_id}
            partial_messages.append({**head, **billed, "parts": lost})
    return {"messages": partial_messages} if partial_messages else None


def _shown(part: Part) -> Fields | None:
    """Return the received content of a part; None if there is none."""
    fields = part.fields if part.done else {**part.fields, UNFINISHED: True}
    received_text = join(part.chunks)
    if fields["part_kind"] in ("text", "thinking"):
        content = mend(fields.get("content") or "") + received_text
        return {**fields, "content": content} if content else None
    if "args" in fields and not part.done and fields["args"] is None:
        return {**fields, "args": arguments(received_text)}
    return fields
