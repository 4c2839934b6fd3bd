"""The differences between the streams of Pydantic AI's Vercel adapter and the protocol.

1. Two consecutive text parts, with nothing between them, are two responses: the adapter joins texts of one response.
2. Its messages have the results of a step in the order in which it ran the calls: 1.107 and later send each whole input
   just then. Before, the input was sent as soon as it was whole, and the results of output tools came first.
3. `data-compaction` is a part of the response; `data-enqueued-messages` has user messages sent during the run.
4. `tool-input-error` comes alone, and is read by AI SDK 6.
5. Calls that an output tool made needless have no result in the stream, but one in its messages.
"""

from bisect import bisect_left
from typing import Any

from pipeline.assembly.agent_turn import PLACE
from pipeline.assembly.builder import Builder
from pipeline.assembly.parts import Message, Part
from pipeline.dialects.pydantic_ai.keys import IMPLIED, NOT_EXECUTED, PROCESSED
from pipeline.dialects.vercel_ai.content import user_prompt
from pipeline.dialects.vercel_ai.keys import META
from pipeline.dialects.vercel_ai.stream import Event, note, noted, stream_of


def compaction(builder: Builder, event: Event) -> bool:
    """Add the summary of earlier turns as a part; return False if the event has another shape."""
    data = event.get("data")
    if not isinstance(data, dict) or "content" not in data or len(event) > 2:
        return False
    builder.add_part({"part_kind": "compaction", **data})
    return True


def enqueued_messages(builder: Builder, event: Event) -> None:
    """Add the user messages to the next request. The caller keeps the event itself, too."""
    data = event.get("data")
    messages: list[Any] = data.get("messages") or [] if isinstance(data, dict) else []
    for message in messages:
        if isinstance(message, dict) and message.get("role") == "user" and isinstance(message.get("parts"), list):
            prompt = user_prompt(message["parts"])
            if prompt is not None:
                note(prompt, {"id": message.get("id"), "metadata": message.get("metadata"), "enqueued": True})
                builder.request_after(None).parts.append(Part(prompt, done=True))


def settle(builder: Builder) -> None:
    """Apply rules 1, 2, 4 and 5 of this module to the turn that is over."""
    metadata = builder.notes.get(META, {}).get("metadata")
    ours = isinstance(metadata, dict) and "pydantic_ai" in metadata
    ranks = {id(part): rank for rank, part in enumerate(stream_of(builder).whole)}
    responses = [message for message in builder.messages if message.kind == "response"]
    for message in responses:
        _order_results(builder, message, ranks)
        for part in message.parts if ours else ():
            if noted(part, "inputError"):
                note(part.fields, {"rawInput": True})
    if ours:
        builder.messages = _cut(builder.messages)


def _order_results(builder: Builder, response: Message, ranks: dict[int, int]) -> None:
    if response.request is None:  # there are no results
        return
    results = response.request.parts
    calls = [part for part in response.parts if part.fields["part_kind"] == "tool-call" and id(part) in ranks]
    outputs = {part.fields["tool_name"] for part in results if part.fields.get("content") == PROCESSED}
    if outputs:
        answered = {part.fields.get("tool_call_id") for part in results}
        results.extend(_not_executed(part) for part in calls if part.fields["tool_call_id"] not in answered)
    first = outputs if not stream_of(builder).overlapping else set()
    order = {part.fields["tool_call_id"]: (part.fields["tool_name"] not in first, ranks[id(part)]) for part in calls}
    results.sort(key=lambda part: order.get(part.fields.get("tool_call_id"), (True, len(ranks))))


def _not_executed(call: Part) -> Part:
    fields = {"part_kind": "tool-return", "tool_name": call.fields["tool_name"]}
    fields |= {"tool_call_id": call.fields["tool_call_id"], "status": "success", "content": NOT_EXECUTED, IMPLIED: True}
    return Part(fields, done=True)


def _cut(messages: list[Message]) -> list[Message]:
    """Return the messages, each response cut before every text that follows a text. Side messages keep their places."""
    groups: list[list[Message]] = [[]]  # a piece of a response, and the messages after it
    starts = [0]  # indexes at which the newest response's pieces begin
    for message in messages:
        if message.kind == "response":
            kinds = [part.fields["part_kind"] for part in message.parts]
            starts = [0, *(at for at in range(1, len(kinds)) if kinds[at - 1] == kinds[at] == "text")]
            groups.extend([piece] for piece in _pieces(message, starts))
        elif PLACE in message.fields:
            number = max(0, bisect_left(starts, message.fields[PLACE]) - 1)
            message.fields[PLACE] -= starts[number]
            groups[number - len(starts)].append(message)
        else:
            groups[-1].append(message)
    return [message for group in groups for message in group]


def _pieces(response: Message, starts: list[int]) -> list[Message]:
    if len(starts) == 1:
        return [response]
    pieces = []
    for start, end in zip(starts, [*starts[1:], len(response.parts)], strict=True):
        fields = {META: {"step": False}} if start else {}
        piece = Message("response", response.at, response.parts[start:end], fields, closed=response.closed)
        piece.first_part_at, piece.last_at = response.first_part_at, response.last_at
        pieces.append(piece)
    pieces[-1].fields, pieces[-1].request = {**response.fields, **pieces[-1].fields}, response.request
    return pieces
