"""Valid UI message streams, with the UI message that the AI SDK's reader makes of them."""

import json
from itertools import count
from typing import Any

from hypothesis import strategies as st

from tests.property.pi_streams import IDS, JSON, OBJECTS, WORDS

Fields = dict[str, Any]
Piece = tuple[list[Fields], list[Fields]]  # events, and the parts that they make

METADATA = st.none() | st.dictionaries(st.sampled_from(["openai", "acme"]), OBJECTS, min_size=1, max_size=1)
SIDES = st.one_of(
    st.builds(lambda url: {"type": "source-url", "sourceId": "s", "url": url}, WORDS),
    st.builds(lambda title: {"type": "source-document", "sourceId": "s", "mediaType": "a/b", "title": title}, WORDS),
    st.builds(lambda name, data: {"type": f"data-app-{name}", "data": data}, IDS, JSON),
    st.builds(lambda data: {"type": "data-tp-agent_handoff", "data": data}, OBJECTS),
    st.builds(lambda url: {"type": "file", "mediaType": "image/png", "url": url}, WORDS),
    st.binary(max_size=6).map(
        lambda raw: {"type": "file", "mediaType": "image/png", "url": f"data:image/png;base64,{raw.hex() * 4}"}
    ),
    st.builds(lambda kind: {"type": "custom", "kind": kind}, IDS),
)


def told(**fields: Any) -> Fields:
    """Without what is not said."""
    return {key: value for key, value in fields.items() if value is not None}


@st.composite
def pieces(draw: st.DrawFn, whole: str) -> list[str]:
    """A text in deltas."""
    cuts = sorted(draw(st.sets(st.integers(0, len(whole)), max_size=3)))
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


@st.composite
def texts(draw: st.DrawFn, key: str) -> Piece:
    name = draw(st.sampled_from(["text", "reasoning"]))
    whole, metadata = draw(WORDS), draw(METADATA)
    deltas = [{"type": f"{name}-delta", "id": key, "delta": piece} for piece in draw(pieces(whole))]
    end = told(type=f"{name}-end", id=key, providerMetadata=metadata)
    own = {"id": key} if name == "reasoning" else {}
    part = told(type=name, text=whole, state="done", providerMetadata=metadata, **own)
    return [{"type": f"{name}-start", "id": key}, *deltas, end], [part]


@st.composite
def tools(draw: st.DrawFn, key: str) -> Piece:
    name, given, metadata = draw(IDS), draw(OBJECTS), draw(METADATA)
    flags: Fields = draw(st.sampled_from([{}, {"dynamic": True}, {"providerExecuted": True}, {"title": "T"}]))
    identity = {"toolCallId": key, "toolName": name}
    events: list[Fields] = []
    if draw(st.booleans()):
        deltas = draw(pieces(json.dumps(given)))
        events.append({"type": "tool-input-start", **identity, **flags})
        events += [{"type": "tool-input-delta", "toolCallId": key, "inputTextDelta": piece} for piece in deltas]
    events.append(told(type="tool-input-available", **identity, input=given, providerMetadata=metadata, **flags))
    kind = {"type": "dynamic-tool", "toolName": name} if "dynamic" in flags else {"type": f"tool-{name}"}
    rest = {key: value for key, value in flags.items() if key != "dynamic"}
    part = told(**kind, toolCallId=key, state="input-available", input=given, callProviderMetadata=metadata, **rest)
    end = draw(st.sampled_from(["output", "preliminary", "error", "denied", "open"]))
    if end in ("output", "preliminary"):
        output = draw(JSON)
        before = [{"type": "tool-output-available", "toolCallId": key, "output": 0, "preliminary": True}]
        events += before if end == "preliminary" else []
        events.append({"type": "tool-output-available", "toolCallId": key, "output": output})
        part |= {"state": "output-available", "output": output}
    elif end == "error":
        error = draw(WORDS)
        events.append({"type": "tool-output-error", "toolCallId": key, "errorText": error})
        part |= {"state": "output-error", "errorText": error}
    elif end == "denied":
        events += [
            {"type": "tool-approval-request", "approvalId": f"a{key}", "toolCallId": key},
            {"type": "tool-approval-response", "approvalId": f"a{key}", "approved": False},
            {"type": "tool-output-denied", "toolCallId": key},
        ]
        part |= {"state": "output-denied", "approval": {"id": f"a{key}", "approved": False}}
    return events, [part]


def _begins(event: Fields) -> bool:
    return event["type"].endswith("-start") or event["type"] == "tool-input-available"


@st.composite
def steps(draw: st.DrawFn, keys: Any) -> Piece:
    """A step: its pieces are interleaved; a part stands where it began."""
    side = SIDES.map(lambda part: ([part], [part]))
    made = [
        draw(st.one_of(texts(str(next(keys))), tools(str(next(keys))), side)) for _ in range(draw(st.integers(0, 4)))
    ]
    queues = [(list(events), list(parts)) for events, parts in made]
    events: list[Fields] = [{"type": "start-step"}]
    parts: list[Fields] = [{"type": "step-start"}]
    while queues:
        left, waiting = draw(st.sampled_from(queues))
        events.append(left.pop(0))
        if waiting:
            parts.append(waiting.pop())
        queues = [queue for queue in queues if queue[0]]
    return [*events, {"type": "finish-step"}], parts


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Fields], Fields]:
    """A whole stream, and the message that the SDK has in the end."""
    keys = count()
    metadata = draw(st.none() | OBJECTS.filter(bool))
    events: list[Fields] = [{"type": "start", "messageId": "m1"}]
    parts: list[Fields] = []
    for _ in range(draw(st.integers(1, 3))):
        more, made = draw(steps(keys))
        events += more
        parts += made
        if draw(st.booleans()):
            events.append({"type": "data-sys-usage", "data": {"input_tokens": 1}})
    reason = draw(st.sampled_from(["stop", "length", "tool-calls", None]))
    events.append(told(type="finish", finishReason=reason, messageMetadata=metadata))
    return events, told(id="m1", role="assistant", parts=parts, metadata=metadata)
