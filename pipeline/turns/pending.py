"""The open questions of a turn: approvals, results of the client's tools, questions to the user. Pure.

| wire | what is asked |
|---|---|
| vercel-ai | a call whose approval was requested, and not answered; a client's tool |
| openai-responses | `mcp_approval_request`; a call without its output |
| ag-ui | the interrupts of RUN_FINISHED; calls without results |
| langgraph | `interrupt()`, with the actions that its middleware asks about |
| google-adk | `adk_request_confirmation`, as the call that is to be confirmed; other calls without response |
| strands | the interrupts of tools |
| all others | a call without its result; their streams don't tell whether it waits for an approval or the result |

Only questions with or after the last response count: the model has gone on past earlier ones.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pipeline.turns.asides import is_aside
from topics import json_text
from topics.json_text import Fields, object_of, objects
from topics.part_kinds import ANSWERS

MAX_QUESTIONS: Final = 50  # questions that are listed of one turn
MAX_ARGS_CHARACTERS: Final = 10_000  # of arguments that are kept
MAX_TEXT_CHARACTERS: Final = 2_000  # of a message or a name
CONFIRMATION: Final = "adk_request_confirmation"

Asked = dict[str, Any]


def pending(turn: Mapping[str, Any] | None) -> list[Asked]:
    """Return the open questions of a turn, in their order.

    Each is {"id", "kind", "tool_name", "tool_call_id", "args", "message"}. `id`: the id by which the wire takes the
    answer: that of the interrupt or the approval, if these have one.

    `kind`: `approval`, `input` (an answer to a question), or `result` (of a call, which may need an approval first).
    Unknown fields are null, and so are arguments longer than MAX_ARGS_CHARACTERS. An interrupted turn has no
    questions.
    """
    if turn is None or turn.get("turn_type") != "agent" or turn.get("completion_status") != "complete":
        return []
    messages = [item for item in turn.get("messages") or () if isinstance(item, dict)]
    last = max(
        (n for n, m in enumerate(messages) if m.get("message_type") == "response" and not is_aside(m)), default=0
    )
    behind = messages[last:]
    answered = set(_answered_ids(messages))
    questions: list[Asked] = []
    for part in _parts(behind[:1]):
        questions += _of_part(part, answered)
    for message in behind:
        if message.get("message_type") == "system":
            for asked in _of_event(message.get("event_type"), message.get("event_data")):
                _merge(questions, asked)
    return questions[:MAX_QUESTIONS]


def _parts(messages: Iterable[Fields]) -> Iterable[Fields]:
    for message in messages:
        for part in message.get("parts") or ():
            if isinstance(part, dict):
                yield part


def _answered_ids(messages: Iterable[Fields]) -> Iterable[str]:
    for part in _parts(messages):
        if part.get("part_kind") in ANSWERS:
            yield str(part.get("tool_call_id"))
        elif part.get("part_kind") == "custom:mcp_approval_response":
            yield str(object_of(part.get("block")).get("approval_request_id"))


def _of_part(part: Fields, answered: set[str]) -> list[Asked]:
    """Return the questions in a part of the last response."""
    kind = part.get("part_kind")
    if kind == "custom:mcp_approval_request":
        block = object_of(part.get("block"))
        if str(block.get("id")) in answered:
            return []
        return [_question("approval", block.get("name"), block.get("id"), _parsed(block.get("arguments")))]
    if kind != "tool-call" or str(part.get("tool_call_id")) in answered:
        return []
    name, call_id, args = part.get("tool_name"), part.get("tool_call_id"), part.get("args")
    original = object_of(object_of(args).get("originalFunctionCall"))
    if name == CONFIRMATION and original:
        hint = object_of(object_of(args).get("toolConfirmation")).get("hint")
        return [_question("approval", original.get("name"), call_id, original.get("args"), hint)]
    approval = object_of(part.get("meta:vercel")).get("approval")
    if not isinstance(approval, dict):
        return [_question("result", name, call_id, args)]
    if "approved" in approval or approval.get("isAutomatic"):  # the server goes on
        return []
    return [_question("approval", name, call_id, args, approval.get("requestReason"), approval.get("id"))]


def _of_event(event_type: Any, data: Any) -> list[Asked]:
    """Return the questions in a system message."""
    if event_type == "custom:ag-ui.interrupt":
        kinds = {True: "approval", False: "input"}
        return [
            _question(kinds[bool(call)], None, call, None, item.get("message") or item.get("reason"), item.get("id"))
            for item in objects(object_of(data).get("interrupts"))
            for call in (item.get("toolCallId"),)
        ]
    if event_type == "data-app-tool_interrupt_event":
        asked = object_of(object_of(data).get("tool_interrupt_event"))
        use = object_of(asked.get("tool_use"))
        return [
            _question("input", use.get("name"), use.get("toolUseId"), use.get("input"), _said(why), item.get("id"))
            for item in objects(asked.get("interrupts"))
            for why in (item.get("reason") or item.get("name"),)
        ]
    if event_type != "custom:langgraph.interrupt":
        return []
    held = object_of(data)
    value = held.get("value", held.get("payload", data))
    interrupt = held.get("id") or held.get("interrupt_id") or ""
    actions = objects(object_of(value).get("action_requests"))
    if actions:
        return [
            _question(
                "approval",
                item.get("name", item.get("action")),
                None,
                item.get("args"),
                item.get("description"),
                identity,
            )
            for item, identity in zip(actions, (f"{interrupt}#{n}" for n in range(len(actions))), strict=True)
        ]
    return [_question("input", None, None, None, _said(value), interrupt)]


def _merge(questions: list[Asked], asked: Asked) -> None:
    """Add details to the listed question about the same call, or else add the question."""
    for question in questions:
        by_id = asked["tool_call_id"] is not None and question["tool_call_id"] == asked["tool_call_id"]
        by_call = asked["tool_call_id"] is None and asked["tool_name"] is not None and question["kind"] == "result"
        if by_id or (by_call and (question["tool_name"], question["args"]) == (asked["tool_name"], asked["args"])):
            question.update({name: asked[name] for name in ("id", "kind", "message")})
            return
    calls = [question for question in questions if question["kind"] == "result"]
    if asked["tool_name"] is None and asked["tool_call_id"] is None and len(calls) == 1:  # the tool itself asks
        calls[0].update({name: asked[name] for name in ("id", "kind", "message")})
        return
    questions.append(asked)


def _question(kind: str, name: Any, call_id: Any, args: Any, message: Any = None, own_id: Any = None) -> Asked:
    small = args is None or len(json_text.dumps(args)) <= MAX_ARGS_CHARACTERS
    texts = {"id": own_id or call_id, "tool_name": name, "tool_call_id": call_id, "message": message}
    known = {key: value[:MAX_TEXT_CHARACTERS] if isinstance(value, str) else None for key, value in texts.items()}
    return {"kind": kind, **known, "args": args if small else None}


def _said(value: Any) -> str:
    return value if isinstance(value, str) else json_text.dumps(value)


def _parsed(text: Any) -> Any:
    try:
        return json_text.loads(text) if isinstance(text, str) else text
    except ValueError:
        return text
