"""Lines of the conversation: the model's output and input."""

from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Violation
from pipeline.assembly.parts import Message, Part
from pipeline.dialects import ends
from pipeline.dialects.anthropic.keys import note
from pipeline.dialects.anthropic.message import set_apart
from pipeline.dialects.claude_code.blocks import part_of, prompts
from pipeline.dialects.claude_code.retractions import named, take_back
from pipeline.dialects.claude_code.session import INPUT, META, PREFIX, Session, Thread, name_of, normal, thread_of
from pipeline.dialects.wire_values import note_under, text_or_none
from topics.json_text import Fields, present
from topics.part_kinds import CALLS

SYNTHETIC: Final = "<synthetic>"
COMMANDS: Final = ("<local-command-", "<command-name>", "<command-message>", "<bash-")
UNSAID: Final = frozenset({"type", "message", "parent_tool_use_id", "session_id", "uuid"})
OF_MESSAGE: Final = frozenset({"id", "type", "role", "model", "content", "usage", "stop_reason"})
ENDING: Final = frozenset({"end_turn", "stop_sequence", "max_tokens", "model_context_window_exceeded", "refusal"})


def assistant(builder: Builder, event: Fields) -> None:
    """One or more blocks of an API message."""
    message = event["message"]
    parts = [part_of(block) for block in _blocks(message["content"])]
    name_of(event)
    session: Session = builder.scratch
    if not session.is_new(event):
        return
    thread = thread_of(builder, event)
    take_back(session, named(event))
    builder.ended = None if not thread.name else builder.ended
    if message.get("model") == SYNTHETIC or event.get("is_api_error_message") is True:
        _synthetic(thread, event, parts)
        if builder.context.imported and event.get("is_api_error_message") is True:
            builder.ended = "error"
        return
    if not _continues(thread, event, message, parts):
        open_message(thread, message, event.get("request_id"))
    thread.answered = False
    response = thread.builder.current_response()
    session.note(event, [_add_block(thread, response, fields) for fields in parts])
    _tell(thread, response, message)
    note(response.fields, {key: value for key, value in message.items() if key not in OF_MESSAGE})
    note_under(META, response.fields, {key: value for key, value in event.items() if key not in UNSAID})
    if builder.context.imported and message.get("stop_reason") in ENDING:
        builder.ended = "complete"  # a transcript has no `result`
    if event.get("aborted") is True:
        thread.torn.append(response)


def open_message(thread: Thread, message: Fields, request_id: Any = None) -> Message:
    """Begin a new API message in its thread."""
    thread.shut()
    fields: Fields = {"provider_name": thread.builder.context.provider_name or "anthropic"}
    fields |= present({"model_name": text_or_none(message.get("model"))})
    if isinstance(message.get("id"), str):
        fields["provider_response_id"] = thread.message_id = message["id"]
    thread.request_id, thread.sent = request_id, _sent(message)
    return thread.builder.open_response(**fields)


def user(builder: Builder, event: Fields) -> None:
    """Add results of tools, prompts, and notes of the program."""
    content = event["message"]["content"]
    blocks = _blocks(content)
    results = [block for block in blocks if block["type"] == "tool_result"]
    parts = prompts([block for block in blocks if block["type"] != "tool_result"])
    ids = [block["tool_use_id"] + "" for block in results]
    name_of(event)
    session: Session = builder.scratch
    if not session.is_new(event):
        return
    thread = thread_of(builder, event)
    unknown = [call_id for call_id in ids if call_id not in thread.builder.calls]
    if unknown and not builder.context.imported:  # a part of a transcript may begin after its calls
        raise Violation(f"user: no call has the id {unknown[0]!r:.80}")
    beside = {key: value for key, value in event.items() if key not in UNSAID and value is not None}
    session.note(event, [_answer(thread, block, beside) for block in results])
    if not parts:
        return
    if event.get("isSynthetic") is True or (event.get("isMeta") is True) or _is_command(parts):
        thread.builder.system(f"{PREFIX}note", {"content": content, **beside})
    else:
        session.note(event, _ask(thread, parts, beside, is_beside_results=bool(results)))


def _ask(thread: Thread, parts: list[Fields], beside: Fields, *, is_beside_results: bool) -> list[Part]:
    """Add a prompt. Return its parts in a request.

    Before any response it is the user's turn, unless `run.request` contained the same turn.
    """
    builder = thread.builder
    if any(message.kind == "response" for message in builder.messages):
        if not is_beside_results and not _is_stop(parts):
            thread.shut()
        if builder.context.imported and _is_stop(parts):
            builder.ended = "aborted"
        added = [Part(part, done=True) for part in parts]
        builder.request_after(None).parts.extend(added)
        return added
    if all(turn["parts"] != parts for turn in builder.user_turns):
        builder.user_turn(parts, at=builder.at, **({META: beside} if beside else {}))
    return []


def _answer(thread: Thread, block: Fields, beside: Fields) -> Part:
    fields: Fields = {
        "status": "error" if block.get("is_error") is True else "success",
        "content": block.get("content", ""),
    }
    if beside:
        fields[META] = beside
    thread.answered = True
    builder, call_id = thread.builder, block["tool_use_id"]
    answer = builder.tool_return(call_id, **fields) if call_id in builder.calls else None
    if answer is None:
        fields = {"part_kind": "tool-return", "tool_name": "", "tool_call_id": call_id, **fields}
        answer = Part(fields, done=True)
        builder.request_after(None).parts.append(answer)
    return answer


def _continues(thread: Thread, event: Fields, message: Fields, parts: list[Fields]) -> bool:
    """Return True if a line belongs to the API message of the previous lines. Gateways reuse ids for later messages."""
    response = thread.builder.response
    if response is None or message.get("id") != thread.message_id:
        return False
    if thread.streams:  # only a `message_start` begins the next one
        return True
    requested = event.get("request_id")
    if requested is not None and thread.request_id is not None and requested != thread.request_id:
        return False
    known = {part.fields.get("tool_call_id") for part in response.parts if part.done}
    if any(part.get("tool_call_id") in known for part in parts if part["part_kind"] == "tool-call"):
        return False
    return not (thread.answered and _sent(message) != thread.sent)


def _sent(message: Fields) -> Fields | None:
    """Return the counts of input tokens on a line; they are the same on all lines of one API message."""
    usage = message.get("usage")
    return {key: usage.get(key) for key in INPUT} if isinstance(usage, dict) else None


def _add_block(thread: Thread, response: Message, fields: Fields) -> Part:
    """Add a whole block: it replaces its streamed version."""
    kind, call_id = fields["part_kind"], fields.get("tool_call_id")
    begun = next((p for p in thread.awaited if _is_same(p.fields, fields)), None)
    if begun is None:
        begun = thread.builder.add_part({})
    else:
        thread.awaited.remove(begun)
    begun.fields, begun.done = fields, True
    begun.chunks.clear()
    if kind in CALLS:
        thread.builder.calls[str(call_id)] = (response, begun)
    elif kind == "builtin-tool-return" and call_id in thread.builder.calls:
        fields["tool_name"] = thread.builder.calls[call_id][1].fields["tool_name"]
    return begun


def _is_same(streamed: Fields, whole: Fields) -> bool:
    keys = ("part_kind", "tool_call_id", "thinking_id")
    return all(streamed.get(key) == whole.get(key) for key in keys)


def _tell(thread: Thread, response: Message, message: Fields) -> None:
    """Set stop reason and tokens: the output count on a line is a placeholder until the message is over."""
    reason = message.get("stop_reason")
    told = message.get("usage")
    usage = normal(told)
    if isinstance(told, dict) and "iterations" in told:
        set_apart(thread.builder, told, response.fields["provider_name"], message.get("model"), thread.asides)
    if isinstance(reason, str):
        stopped(response, reason)
        if usage:
            response.fields["usage"] = usage
            thread.exact.append(response)
    elif usage and not any(response is other for other in thread.exact):
        imported = thread.builder.context.imported  # no `result` follows with the sum: the last line counts
        response.fields["usage"] = {key: value for key, value in usage.items() if key != "output_tokens" or imported}


def stopped(response: Message, reason: str) -> None:
    """Set why the model stopped."""
    ends.tell(response.fields, ends.ANTHROPIC, reason)
    note(response.fields, {"stop_reason": reason})


def _synthetic(thread: Thread, event: Fields, parts: list[Fields]) -> None:
    """Add a message that the program wrote itself, mostly an error; it is not a response of the model."""
    builder = thread.builder
    text = "".join(part["content"] for part in parts if part["part_kind"] == "text")
    error = {"error": event.get("error"), "message": text}
    error |= {"status": event.get("api_error_status"), "request_id": event.get("request_id")}
    thread.shut()
    builder.system("error", present(error))
    builder.error_text = text or builder.error_text
    shown = Message("response", builder.at, [Part(fields, done=True) for fields in parts])
    builder.messages.append(shown)
    thread.errors.append(shown)


def _blocks(content: Any) -> list[Fields]:
    """Return the blocks of a message; a text is one block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise TypeError(f"content must be a text or a list, not {type(content).__name__}")
    return content


def _is_command(parts: list[Fields]) -> bool:
    return any(isinstance(p.get("content"), str) and p["content"].lstrip().startswith(COMMANDS) for p in parts)


def _is_stop(parts: list[Fields]) -> bool:
    return all(str(part.get("content")).startswith("[Request interrupted by user") for part in parts)
