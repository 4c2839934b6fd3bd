"""Anthropic's Messages API, streamed (dialect `anthropic`), as Anthropic, clouds and gateways write it.

| event | what it does |
|---|---|
| turnmill.request | a call begins; its new messages are the request after the previous response |
| turnmill.request, whose history lacks the exchange before it, which the model refused | that exchange is taken back |
| turnmill.request of Claude Code's own (suggestions, titles), or with `compaction` | its answer is beside the answer |
| notes of Claude Code in the user's name (`<system-reminder>`, commands, a summary) | SystemMessage data-app-note |
| turnmill.error | the server refused the call: interrupted, unless another call follows |
| message_start | begins a response with the blocks in it; a second one before any block changes nothing |
| content_block_start | begins a part: text, thinking, a call, the result of a server's tool, custom:TYPE |
| content_block_delta | extends the block of its index; a signature replaces |
| content_block_delta of an unknown type, or of another kind of block | SystemMessage data-app-content_block_delta |
| content_block_stop | nothing: `message_stop` closes all |
| message_delta | why the message ends, and its usage so far; a zero does not replace a count |
| `usage.iterations` of type compaction, advisor_message | responses beside the answer, whose usage excludes them |
| message_stop | the call ended well |
| a block, or a delta, behind the end of its call | refused: it belongs to no message |
| message | a whole answer, as one event |
| error | the call failed: interrupted, unless another call follows |
| ping | nothing |
| any other | SystemMessage data-app-TYPE |
"""

from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Delta, Handler, Stretch, Violation, nothing
from pipeline.dialects import model_calls
from pipeline.dialects.anthropic.keys import note
from pipeline.dialects.anthropic.message import MessageAnswer, set_apart
from pipeline.dialects.anthropic.request import READER
from pipeline.dialects.model_calls import calls_of
from topics.json_text import Fields, object_of

PAUSED: Final = "pause_turn"  # the answer is sent back unchanged, and continues in the next response

REFUSED: Final = "refusal"


def begin(builder: Builder) -> None:
    """Prepare for a run. The body of its first call comes as an event, or is the publisher's `run.request`."""
    model_calls.begin(builder, READER)
    builder.scratch["names"] = {}


def message_start(builder: Builder, event: Fields) -> None:
    """Begin a message. One that another message, without a request, interrupts is dropped."""
    message = event["message"]
    if not isinstance(message, dict):
        raise Violation(f"message_start: 'message' is an object, got {message!r:.80}")
    calls = calls_of(builder)
    if calls.answer is not None and (calls.whole or calls.answer.blocks):
        model_calls.settle_newest(builder)
        model_calls.next_call(builder)
    _start(builder, message)


def message(builder: Builder, event: Fields) -> None:
    """Add an answer that was not streamed."""
    model_calls.settle_newest(builder)
    if calls_of(builder).answer is not None:
        model_calls.next_call(builder)
    _start(builder, event)
    _end(builder)


def content_block_start(builder: Builder, event: Fields) -> None:
    """Begin a block."""
    index, block = _index(event), event["content_block"]
    if not isinstance(block, dict):
        raise Violation(f"content_block_start: 'content_block' is an object, got {block!r:.80}")
    _writing(builder, event).open(index, block, builder.at)


def content_block_delta(builder: Builder, event: Fields) -> None:
    """Append to a block."""
    index, delta = _index(event), event["delta"]
    if not isinstance(delta, dict):
        raise Violation(f"content_block_delta: 'delta' is an object, got {delta!r:.80}")
    taken = _writing(builder, event).add(index, delta, builder.at)
    if not taken and any(value for key, value in delta.items() if key != "type"):
        builder.system(f"data-app-{event['type']}", _unknown_fields(event))


def content_block_deltas(builder: Builder, events: list[Any], start: int) -> int:
    """Append consecutive text deltas of a block (a Stretch)."""
    first, calls = events[start], calls_of(builder)
    answer: MessageAnswer | None = calls.answer
    index, delta = first.get("index", 0), first.get("delta")
    if answer is None or calls.whole or calls.shut or index.__class__ is not int or delta.__class__ is not dict:
        return start
    kind, block = delta.get("type"), answer.at(index)
    key = block.grows_by(kind) if block is not None and isinstance(kind, str) else None
    if block is None or key is None:
        return start
    texts = []
    for at in range(start, len(events)):
        event = events[at]
        if event.__class__ is not dict or event.get("type") != "content_block_delta":
            break
        delta = event.get("delta")
        if event.get("index", 0) is not index or delta.__class__ is not dict or delta.get("type") != kind:
            break
        text = delta.get(key)
        if text.__class__ is not str:
            break
        texts.append(text)
    if texts:
        block.part.chunks.append("".join(texts))
    return start + len(texts)


def message_delta(builder: Builder, event: Fields) -> None:
    """Set the message's stop reason and usage."""
    delta = event.get("delta")
    answer = _open_answer(builder)
    if answer is not None:
        answer.end(object_of(delta), event.get("usage"))
        note(answer.response.fields, _unknown_fields(event, "delta", "usage"))
        count(builder, answer)


def message_stop(builder: Builder, event: Fields) -> None:
    """End the message."""
    answer = _open_answer(builder)
    if answer is not None:
        note(answer.response.fields, _unknown_fields(event))
        _end(builder)


def error(builder: Builder, event: Fields) -> None:
    """Fail the call: the server gave up."""
    model_calls.settle_newest(builder)
    model_calls.fail(builder, event.get("error"), **model_calls.identified(event))
    calls_of(builder).shut = True


def unknown(builder: Builder, event: Fields) -> None:
    """Keep an event of an unknown type: protocols grow."""
    kind = event.get("type")
    if kind is None and event.get("error"):
        error(builder, event)
        return
    if not isinstance(kind, str):
        raise Violation(f"an event's 'type' is a text, got {kind!r:.80}")
    model_calls.ask_first(builder)
    builder.system(f"data-app-{kind}", _unknown_fields(event))


def _start(builder: Builder, message: Fields) -> None:
    calls = calls_of(builder)
    response = model_calls.open_response(builder)
    if calls.answer is None:
        provider = builder.context.provider_name or "anthropic"
        calls.answer = MessageAnswer(response, provider, builder.scratch["names"])
    calls.shut = False
    calls.answer.start(message, builder.at)
    count(builder, calls.answer)


def _open_answer(builder: Builder) -> MessageAnswer | None:
    """Return the answer that is being written; None after its end. Some streams lack their message_start."""
    calls = calls_of(builder)
    if calls.whole or calls.shut:
        return None
    if calls.answer is None:
        _start(builder, {})
    answer: MessageAnswer = calls.answer
    return answer


def _writing(builder: Builder, event: Fields) -> MessageAnswer:
    """Return the answer that gets a piece of content. Raises Violation after its end."""
    answer = _open_answer(builder)
    if answer is None:
        raise Violation(f"{event['type']}: the call is over")
    return answer


def _end(builder: Builder) -> None:
    answer: MessageAnswer = calls_of(builder).answer
    answer.response.last_at = builder.at
    calls_of(builder).refused = answer.stop_reason == REFUSED
    model_calls.end_call(builder, awaits=bool(answer.calls()) or answer.stop_reason == PAUSED)


def count(builder: Builder, answer: MessageAnswer) -> None:
    """Count the tokens that the events of an answer have named so far."""
    usage = answer.spent()
    if usage is not None:
        builder.usage(usage, answer.response)
    if "iterations" in answer.usage:
        model = answer.response.fields.get("model_name")
        set_apart(builder, answer.usage, builder.context.provider_name, model, answer.asides)


def _unknown_fields(event: Fields, *known: str) -> Fields:
    return {key: value for key, value in event.items() if key != "type" and key not in known}


def _index(event: Fields) -> int:
    index: Any = event.get("index", 0)
    if isinstance(index, bool) or not isinstance(index, int):
        raise Violation(f"{event['type']}: 'index' is a number, got {index!r:.80}")
    return index


HANDLERS: Final[dict[str, Handler]] = {
    model_calls.REQUEST: model_calls.request,
    model_calls.ERROR: model_calls.refused,
    "message_start": message_start,
    "content_block_start": content_block_start,
    "content_block_delta": content_block_delta,
    "content_block_stop": nothing,
    "message_delta": message_delta,
    "message_stop": message_stop,
    "message": message,
    "error": error,
    "ping": nothing,
}
STRETCHES: Final[dict[str | None, Stretch]] = {"content_block_delta": content_block_deltas}
DELTAS: Final[dict[str | None, tuple[Delta, ...]]] = {
    "content_block_delta": (
        Delta("text", ("delta", "text"), "index", ("type", "text_delta")),
        Delta("thinking", ("delta", "thinking"), "index", ("type", "thinking_delta")),
        Delta("arguments", ("delta", "partial_json"), "index", ("type", "input_json_delta")),
    )
}
