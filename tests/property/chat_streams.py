"""Valid streams of Chat Completions: runs of several calls, and what an agent's client makes of them."""

from itertools import count
from typing import Any

from hypothesis import strategies as st

from tests.property.pi_streams import JSON, WORDS
from topics import json_text

Fields = dict[str, Any]


def chunk(number: int, delta: Fields, finish: str | None = None, **more: Any) -> Fields:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    identity = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return {**identity, "choices": [choice], **more}


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[Fields], list[Fields]]:
    """-> events, and the messages that the client has in the end."""
    history: list[Fields] = [{"role": "user", "content": draw(WORDS)}]
    events: list[Fields] = []
    ids = count(1)
    for number in range(draw(st.integers(0, 3))):
        calls = [(f"c{next(ids)}", draw(_object())) for _ in range(draw(st.integers(1, 2)))]
        events += [_request(history), *_answer(draw, number, calls, draw(st.lists(WORDS, max_size=2)), history)]
        history += [{"role": "tool", "tool_call_id": call_id, "content": draw(WORDS)} for call_id, _ in calls]
        if draw(st.booleans()):
            history.append({"role": "user", "content": draw(WORDS)})
    words = draw(st.lists(WORDS, min_size=1, max_size=3))
    events += [_request(history), *_answer(draw, 9, [], words, history)]
    return events, history


def _request(history: list[Fields]) -> Fields:
    return {"object": "turnmill.request", "request": {"model": "m", "messages": list(history)}}


def _answer(
    draw: st.DrawFn, number: int, calls: list[tuple[str, Fields]], words: list[str], history: list[Fields]
) -> list[Fields]:
    """The chunks of one answer, whose message goes to the history."""
    message: Fields = {"role": "assistant", "content": "".join(words) or (None if calls else "")}
    events = [chunk(number, {"role": "assistant", "content": None}), *(chunk(number, {"content": w}) for w in words)]
    if calls:
        message["tool_calls"] = []
    for index, (call_id, args) in enumerate(calls):
        text = json_text.dumps(args)
        cut = draw(st.integers(0, len(text)))
        function = {"name": "search", "arguments": text}
        message["tool_calls"].append({"id": call_id, "type": "function", "function": function})
        opened = {"index": index, "id": call_id, "function": {"name": "search", "arguments": text[:cut]}}
        rest = {"index": index, "function": {"arguments": text[cut:]}}
        events += [chunk(number, {"tool_calls": [opened]}), chunk(number, {"tool_calls": [rest]})]
    history.append(message)
    events.append(chunk(number, {}, "tool_calls" if calls else "stop"))
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    return [*events, {**chunk(number, {}), "choices": [], "usage": usage}, {"event": None, "data": "[DONE]"}]


@st.composite
def _object(draw: st.DrawFn) -> Fields:
    return {"q": draw(JSON)}
