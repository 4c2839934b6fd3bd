"""Valid streams of the Agents SDK, with what they say."""

import json
from typing import Any

from hypothesis import strategies as st

Fields = dict[str, Any]

WORDS = st.text(min_size=1, max_size=20)
OBJECTS = st.dictionaries(st.text(max_size=5), st.none() | st.booleans() | st.integers(-9, 9) | WORDS, max_size=3)


@st.composite
def runs(draw: st.DrawFn) -> list[tuple[list[Fields], list[Fields]]]:
    """Steps of a run: the items of a response, and the outputs behind it. Call ids begin anew in each step."""
    steps = []
    for number in range(draw(st.integers(0, 3))):
        calls = [_call(number, place, draw(OBJECTS)) for place in range(draw(st.integers(1, 3)))]
        outputs = [{"type": "function_call_output", "call_id": c["call_id"], "output": draw(WORDS)} for c in calls]
        items = [*draw(st.lists(_reasoning(f"rs_{number}") | _message(f"msg_{number}"), max_size=1)), *calls]
        steps.append((items, outputs))
    return [*steps, ([draw(_message("msg_end"))], [])]


@st.composite
def streams(draw: st.DrawFn, steps: list[tuple[list[Fields], list[Fields]]]) -> list[Fields]:
    """Their events: the model's own and the run items, in the order of a new or of an old SDK."""
    old = draw(st.booleans())
    events: list[Fields] = [{"type": "agent_updated_stream_event", "new_agent": {"name": "Pilot"}}]
    for number, (items, outputs) in enumerate(steps):
        events.append(_raw("response.created", response={"id": f"resp_{number}", "output": []}))
        behind: list[Fields] = []
        for index, item in draw(st.permutations(list(enumerate(items)))):
            events += [_raw("response.output_item.added", output_index=index, item=_hollow(item))]
            events += _deltas(index, item)
            if draw(st.booleans()):
                events.append(_raw("response.output_item.done", output_index=index, item=item))
            (events if old and item["type"] != "message" else behind).append(_said(item))
        usage = {"input_tokens": 10 + number, "output_tokens": 5}
        response = {"id": f"resp_{number}", "model": "m1", "output": items, "usage": usage}
        events += [_raw("response.completed", response=response), *behind, *map(_said, outputs)]
    return events


def items_alone(steps: list[tuple[list[Fields], list[Fields]]]) -> list[Fields]:
    """The same of a publisher that leaves the model's own events out."""
    return [_said(item) for items, outputs in steps for item in [*items, *outputs]]


def _deltas(index: int, item: Fields) -> list[Fields]:
    if item["type"] == "message":
        text = item["content"][0]["text"]
        return [_raw("response.output_text.delta", output_index=index, content_index=0, delta=piece) for piece in text]
    if item["type"] == "reasoning":
        text = item["summary"][0]["text"]
        kind = "response.reasoning_summary_text.delta"
        return [_raw(kind, output_index=index, summary_index=0, delta=piece) for piece in text]
    kind = "response.function_call_arguments.delta"
    return [_raw(kind, output_index=index, delta=piece) for piece in item["arguments"]]


def _hollow(item: Fields) -> Fields:
    empty: Fields = {"content": [], "summary": [], "arguments": ""}
    return {key: empty.get(key, value) for key, value in item.items()}


def _raw(kind: str, **told: Any) -> Fields:
    return {"type": "raw_response_event", "data": {"type": kind, **told}}


def _said(item: Fields) -> Fields:
    kinds = {"message": "message_output_item", "reasoning": "reasoning_item", "function_call": "tool_call_item"}
    kind = kinds.get(item["type"], "tool_call_output_item")
    return {
        "type": "run_item_stream_event",
        "name": "told",
        "item": {"type": kind, "raw_item": item, "agent": {"name": "Pilot"}},
    }


def _call(number: int, place: int, args: Fields) -> Fields:
    identity = {"type": "function_call", "id": f"fc_{number}_{place}", "call_id": f"call_{place}"}
    return {**identity, "name": "get", "arguments": json.dumps(args)}


@st.composite
def _message(draw: st.DrawFn, identity: str) -> Fields:
    content = [{"type": "output_text", "text": draw(WORDS), "annotations": []}]
    return {"type": "message", "id": identity, "role": "assistant", "content": content}


@st.composite
def _reasoning(draw: st.DrawFn, identity: str) -> Fields:
    summary = [{"type": "summary_text", "text": draw(WORDS)}]
    return {"type": "reasoning", "id": identity, "summary": summary}
