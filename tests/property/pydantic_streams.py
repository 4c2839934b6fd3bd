"""Valid event streams of Pydantic AI, and the messages that the SDK makes of them."""

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

Event = dict[str, Any]

WORDS = st.text(st.characters(codec="utf-8"), max_size=6)
VALUES = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | WORDS
ARGS = st.dictionaries(st.text("abc", min_size=1, max_size=3), VALUES, max_size=3)
IDS = st.sampled_from(["c1", "c2", "c3"])  # used again in later steps, as providers do
SEPARATORS = st.sampled_from([(",", ":"), (", ", ": "), (" ,", " : ")])


@dataclass(frozen=True, slots=True)
class Stream:
    """A run's events without its result, and its messages; the first is the user's."""

    events: list[Event]
    messages: list[dict[str, Any]]

    def result(self, history: list[dict[str, Any]]) -> Event:
        """The run's last event, where `history` came before the run."""
        body = {"messages": [*history, *self.messages], "new_message_index": len(history), "output": None}
        return {"event_kind": "agent_run_result", "result": body}


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    prompt = {"part_kind": "user-prompt", "content": draw(WORDS), "timestamp": "2026-01-20T10:00:00Z"}
    out = Stream([], [{"kind": "request", "parts": [prompt], "timestamp": "2026-01-20T10:00:00.250000Z"}])
    for _ in range(draw(st.integers(0, 2))):
        calls = draw(st.lists(IDS, min_size=1, max_size=3, unique=True))
        parts = [*draw(st.lists(spoken(), max_size=2)), *[draw(call(call_id)) for call_id in calls]]
        _respond(draw, out, parts)
        _answer(draw, out, calls)
    _respond(draw, out, draw(st.lists(spoken(), min_size=1, max_size=3)))
    return out


@st.composite
def spoken(draw: st.DrawFn) -> dict[str, Any]:
    content = draw(WORDS)
    if draw(st.booleans()):
        return {"part_kind": "text", "content": content}
    return {"part_kind": "thinking", "content": content, "signature": draw(st.none() | st.just("sig"))}


@st.composite
def call(draw: st.DrawFn, call_id: str) -> dict[str, Any]:
    args: Any = draw(ARGS)
    if draw(st.booleans()):
        args = json.dumps(args, separators=draw(SEPARATORS), ensure_ascii=draw(st.booleans()))
    return {"part_kind": "tool-call", "tool_name": f"tool_{call_id}", "tool_call_id": call_id, "args": args}


def _respond(draw: st.DrawFn, out: Stream, parts: list[dict[str, Any]]) -> None:
    """One response: each part starts with a piece of itself; pieces of calls may come after the part's end."""
    late: list[Event] = []
    before = None
    for index, part in enumerate(parts):
        start, deltas, at_end = _pieces(draw, index, part)
        out.events.append(_event("part_start", index=index, part=start, previous_part_kind=before))
        before = part["part_kind"]
        following = parts[index + 1]["part_kind"] if index + 1 < len(parts) else None
        if following is not None and deltas and before == "tool-call" and draw(st.booleans()):
            late.extend(deltas)
            deltas, at_end = [], start
        if following is None:
            deltas = [*deltas, *late]
        out.events.extend(deltas)
        out.events.append(_event("part_end", index=index, part=at_end, next_part_kind=following))
    out.messages.append({"kind": "response", "parts": parts, "timestamp": "2026-01-20T10:00:01.500000Z"})


def _pieces(draw: st.DrawFn, index: int, part: dict[str, Any]) -> tuple[Event, list[Event], Event]:
    """-> the part as it starts, its deltas, and the part as it is then."""
    if part["part_kind"] == "tool-call":
        if not isinstance(part["args"], str):
            return part, [], part
        pieces = _cut(draw, part["args"])
        deltas = [{"part_delta_kind": "tool_call", "args_delta": piece} for piece in pieces[1:]]
        start = {**part, "args": pieces[0] or None}
    else:
        kind, pieces = part["part_kind"], _cut(draw, part["content"])
        deltas = [{"part_delta_kind": kind, "content_delta": piece} for piece in pieces[1:]]
        start = {"part_kind": kind, "content": pieces[0]}
        if part.get("signature"):
            deltas.append({"part_delta_kind": kind, "signature_delta": part["signature"]})
    return start, [_event("part_delta", index=index, delta=delta) for delta in deltas], part


def _cut(draw: st.DrawFn, text: str) -> list[str]:
    at = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
    return [text[start:end] for start, end in zip([0, *at], [*at, len(text)], strict=True)]


def _answer(draw: st.DrawFn, out: Stream, calls: list[str]) -> None:
    """Results come as they complete; the message has them in the order of the calls."""
    made = {part["tool_call_id"]: part for part in out.messages[-1]["parts"] if part["part_kind"] == "tool-call"}
    out.events.extend(_event("function_tool_call", part=made[call_id]) for call_id in calls)
    returns = {
        call_id: {
            "part_kind": "tool-return",
            "tool_name": made[call_id]["tool_name"],
            "tool_call_id": call_id,
            "content": draw(VALUES),
            "outcome": draw(st.sampled_from(["success", "failed", "denied"])),
            "timestamp": "2026-01-20T10:00:01.750000Z",
        }
        for call_id in calls
    }
    for call_id in draw(st.permutations(calls)):
        key = draw(st.sampled_from(["part", "result"]))
        out.events.append(_event("function_tool_result", **{key: returns[call_id]}))
    parts = [returns[call_id] for call_id in calls]
    out.messages.append({"kind": "request", "parts": parts, "timestamp": "2026-01-20T10:00:02.000001Z"})


def _event(kind: str, **fields: Any) -> Event:
    return {"event_kind": kind, **fields}
