"""Valid Agents SDK streams, with the parts that a client shows."""

from itertools import count
from typing import Any

from hypothesis import strategies as st

from tests.property.pi_streams import JSON, WORDS

Fields = dict[str, Any]


def event(name: str, **data: Any) -> Fields:
    return {"event": name, "data": data}


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Fields], list[Any]]:
    """-> events from meta to done, and [text | (name, id, input, output or error)] in the order of their appearance."""
    events = [event("meta", runId="run_1", model="gpt", createdAt="2026-01-20T16:59:02Z")]
    parts: list[Any] = []
    ids = count(1)
    for number in range(draw(st.integers(0, 2))):
        message = {"messageId": f"m{number}"}
        events.append(event("message.start", role="assistant", **message))
        for _ in range(draw(st.integers(0, 3))):
            words = draw(st.lists(WORDS, max_size=3))
            if words and parts and isinstance(parts[-1], str) and events[-1]["event"] != "message.start":
                parts[-1] += "".join(words)
            elif words:
                parts.append("".join(words))
            events += [event("message.delta", delta=delta, **message) for delta in words]
            calls = [
                (f"t{draw(st.integers(0, 3))}", f"c{next(ids)}", draw(JSON)) for _ in range(draw(st.integers(0, 2)))
            ]
            for name, call_id, given in calls:
                deltas = [event("tool.delta", toolCallId=call_id, delta="?", **message)] * draw(st.integers(0, 1))
                called = event("tool.call", toolCallId=call_id, toolName=name, input=given, **message)
                events += draw(st.sampled_from([[*deltas, called], [called, *deltas]]))
            outcomes = {call_id: draw(_outcome()) for _, call_id, _ in calls}
            events += [
                event("tool.result", toolCallId=call_id, **outcomes[call_id], **message)
                for call_id in draw(st.permutations(list(outcomes)))
            ]
            parts += [(name, call_id, given, *outcomes[call_id].values()) for name, call_id, given in calls]
        if draw(st.booleans()):
            events.append(event("message.end", **message))
    return [*events, event("done", finishReason="stop", usage={"inputTokens": 3, "outputTokens": 2})], parts


@st.composite
def _outcome(draw: st.DrawFn) -> Fields:
    return {"output": draw(JSON)} if draw(st.booleans()) else {"errorText": draw(WORDS)}
