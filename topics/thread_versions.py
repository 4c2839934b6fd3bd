"""ThreadProtocol 0.0.3 <-> 0.0.4, and the forms that the mapping document's example writes.

Functions take plain documents and return new ones: the given one is never changed, unchanged parts are shared with it,
and every field that is not named here survives. Malformed pieces pass through: topics/thread_rules.py reports them.
"""

from collections.abc import Callable
from typing import Any, Final

from topics.json_text import Fields
from topics.thread import VERSION
from turnmill.errors import InvalidRecord, Reason

OLD: Final = "0.0.3"
MESSAGE_FIELDS: Final = frozenset({"message_type", "timestamp", "agent_id", "parts"})


def upgrade(document: Any) -> Fields:
    """Return a 0.0.3 or 0.0.4 document as 0.0.4, without the mapping document's forms.

    Agent turns become complete ones, `tool_calls` becomes `tool_call`, and a first request that repeats the user's
    prompt loses the repetition. Raises InvalidRecord if it is not a document of these versions.
    """
    new = _checked(document)
    new["version"] = VERSION
    return _with_turns(new, lambda turns: [_upgraded(turn, _prompts_before(turns, n)) for n, turn in enumerate(turns)])


def downgrade(document: Any) -> Fields:
    """Return a document as 0.0.3: interrupted turns are dropped, the others lose what 0.0.4 added.

    Raises InvalidRecord where it is no document of these versions.
    """
    new = _checked(document)
    new["version"] = OLD
    return _with_turns(new, lambda turns: [_downgraded(turn) for turn in turns if not _is_interrupted(turn)])


def repeat_user_prompt(document: Any) -> Fields:
    """Begin each agent turn after a user turn with a request that repeats the user's parts.

    The mapping document's example is written in this way; `upgrade` removes the repetition again. Raises InvalidRecord
    if it is not a document of these versions.
    """
    new = _checked(document)
    return _with_turns(new, lambda turns: [_repeating(turn, turns, n) for n, turn in enumerate(turns)])


def _checked(document: Any) -> Fields:
    if not isinstance(document, dict):
        raise InvalidRecord(Reason.INVALID_EVENT, f"a thread document is an object, not a {type(document).__name__}")
    if document.get("version") not in (OLD, VERSION):
        detail = f"thread document of version {document.get('version')!r:.40}; {OLD} and {VERSION} are read"
        raise InvalidRecord(Reason.UNSUPPORTED_VERSION, detail)
    return dict(document)


def _with_turns(document: Fields, change: Callable[[list[Any]], list[Any]]) -> Fields:
    if isinstance(document.get("turns"), list):
        document["turns"] = change(document["turns"])
    return document


def _is_agent_turn(turn: Any) -> bool:
    return isinstance(turn, dict) and turn.get("turn_type") == "agent"


def _is_interrupted(turn: Any) -> bool:
    return _is_agent_turn(turn) and turn.get("completion_status") == "interrupted"


def _upgraded(turn: Any, prompts: list[Any]) -> Any:
    if not _is_agent_turn(turn):
        return turn
    new = {**turn}
    new.setdefault("completion_status", "complete")
    if isinstance(new.get("messages"), list):
        messages = [_with_finish_reason(message) for message in new["messages"]]
        new["messages"] = [*_without_repetition(messages[0], prompts), *messages[1:]] if messages else messages
    return new


def _with_finish_reason(message: Any) -> Any:
    if isinstance(message, dict) and message.get("finish_reason") == "tool_calls":
        return {**message, "finish_reason": "tool_call"}
    return message


def _prompts_before(turns: list[Any], number: int) -> list[Any]:
    """Return the parts of the user turn just before turn `number`."""
    before = turns[number - 1] if number else None
    if isinstance(before, dict) and before.get("turn_type") == "user" and isinstance(before.get("parts"), list):
        parts: list[Any] = before["parts"]
        return parts
    return []


def _without_repetition(message: Any, prompts: list[Any]) -> list[Any]:
    """Return a list of the message without the `prompts` that it repeats; an empty list if no part remains."""
    if not isinstance(message, dict) or message.get("message_type") != "request" or not prompts:
        return [message]
    parts = message.get("parts")
    if not isinstance(parts, list) or len(parts) < len(prompts):
        return [message]
    if not all(_repeats(part, prompt) for part, prompt in zip(parts, prompts, strict=False)):
        return [message]
    rest = parts[len(prompts) :]
    return [{**message, "parts": rest}] if rest or not message.keys() <= MESSAGE_FIELDS else []


def _repeats(part: Any, prompt: Any) -> bool:
    """Return True if `part` repeats `prompt`: the time may differ, and one text may be written as a list of one."""
    if not isinstance(part, dict) or not isinstance(prompt, dict):
        return False
    return all(
        key == "timestamp"
        or (key in prompt and (value == prompt[key] or [value] == prompt[key] or value == [prompt[key]]))
        for key, value in part.items()
    )


def _downgraded(turn: Any) -> Any:
    if not _is_agent_turn(turn):
        return turn
    new = {key: value for key, value in turn.items() if key not in ("completion_status", "interruption")}
    if new.get("completed_at") is None:  # required in 0.0.3
        messages = new.get("messages")
        times = [m.get("timestamp") for m in messages if isinstance(m, dict)] if isinstance(messages, list) else []
        ended = next((t for t in reversed(times) if isinstance(t, str)), new.get("started_at"))
        if ended is not None:
            new["completed_at"] = ended
    return new


def _repeating(turn: Any, turns: list[Any], number: int) -> Any:
    prompts = _prompts_before(turns, number)
    if not prompts or not _is_agent_turn(turn) or not isinstance(turn.get("messages"), list):
        return turn
    messages = turn["messages"]
    if messages and _without_repetition(messages[0], prompts) != messages[:1]:
        return turn  # it already repeats the user's parts
    first = {
        "message_type": "request",
        "timestamp": turns[number - 1].get("submitted_at"),
        "agent_id": turn.get("agent_id"),
        "parts": prompts,
    }
    return {**turn, "messages": [first, *messages]}
