"""Valid pi-agent and pi-proxy streams, with the messages that they carry."""

import json
from collections.abc import Iterator
from itertools import count, pairwise
from typing import Any

from hypothesis import strategies as st

from tests.support.assembled import START

Fields = dict[str, Any]

WORDS = st.text(min_size=1, max_size=20)
IDS = st.text("abcdef0123456789_", min_size=1, max_size=6)
NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.text(max_size=5), JSON, max_size=3)
COUNTS = st.integers(0, 10**6)
COSTS = st.floats(0, 100, allow_nan=False)
IMAGES = st.binary(max_size=12).map(lambda data: {"type": "image", "data": data.hex() * 2, "mimeType": "image/png"})
TEXTS = WORDS.map(lambda words: {"type": "text", "text": words})
SIGNED = st.builds(
    lambda words, signature: {"type": "text", "text": words, "textSignature": signature},
    st.text(max_size=10),
    IDS | IDS.map(lambda name: json.dumps({"v": 1, "id": name, "phase": "final"})),
)
THOUGHTS = st.builds(
    lambda words, rest: {"type": "thinking", "thinking": words, **rest},
    WORDS,
    st.sampled_from(
        [
            {},
            {"thinkingSignature": "c2ln"},
            {"thinkingSignature": '{"id":"rs_1"}'},
            {"thinkingSignature": "eHg=", "redacted": True},
        ]
    ),
)


@st.composite
def usages(draw: st.DrawFn) -> Fields:
    tokens = {name: draw(COUNTS) for name in ("input", "output", "cacheRead", "cacheWrite", "totalTokens")}
    cost = {name: draw(COSTS) for name in ("input", "output", "cacheRead", "cacheWrite", "total")}
    return {**tokens, "cost": cost}


@st.composite
def runs(draw: st.DrawFn) -> list[list[Fields]]:
    """The messages of one to three runs of an agent."""
    clock = count(START, 1_000)
    return [draw(_run(clock)) for _ in range(draw(st.integers(1, 3)))]


@st.composite
def _run(draw: st.DrawFn, clock: Iterator[int]) -> list[Fields]:
    messages = [draw(_user(clock)) for _ in range(draw(st.integers(0, 2)))]
    for _ in range(draw(st.integers(0, 2))):
        calls = draw(st.lists(_call(), min_size=1, max_size=3))
        messages.append(draw(_assistant(clock, calls, "toolUse")))
        messages += [draw(_result(clock, call)) for call in draw(st.permutations(calls))]
        messages += [draw(_user(clock)) for _ in range(draw(st.integers(0, 1)))]
        messages += [draw(_custom(clock)) for _ in range(draw(st.integers(0, 1)))]
    stop = draw(st.sampled_from(["stop", "length", "error", "aborted"]))
    return [*messages, draw(_assistant(clock, [], stop))]


@st.composite
def _call(draw: st.DrawFn) -> Fields:
    call = {"type": "toolCall", "id": draw(IDS), "name": draw(IDS), "arguments": draw(OBJECTS)}
    return call | draw(st.sampled_from([{}, {"thoughtSignature": "dGhvdWdodA=="}]))


@st.composite
def _user(draw: st.DrawFn, clock: Iterator[int]) -> Fields:
    content = draw(WORDS | st.lists(TEXTS | IMAGES, max_size=3))
    return {"role": "user", "content": content, "timestamp": next(clock)}


@st.composite
def _assistant(draw: st.DrawFn, clock: Iterator[int], calls: list[Fields], stop: str) -> Fields:
    content = draw(st.permutations([*draw(st.lists(TEXTS | SIGNED | THOUGHTS, max_size=3)), *calls]))
    model = {"api": "anthropic-messages", "provider": "anthropic", "model": draw(IDS), "usage": draw(usages())}
    rest = draw(st.sampled_from([{}, {"durationMs": 20}, {"responseId": "r1"}, {"responseModel": "m2"}]))
    return {"role": "assistant", "content": content, **model, "stopReason": stop, "timestamp": next(clock), **rest}


@st.composite
def _result(draw: st.DrawFn, clock: Iterator[int], call: Fields) -> Fields:
    content = draw(st.lists(TEXTS | IMAGES, max_size=2))
    details = draw(st.just({}) | OBJECTS.map(lambda found: {"details": found}))
    identity = {"role": "toolResult", "toolCallId": call["id"], "toolName": call["name"], "content": content}
    return {**identity, "isError": draw(st.booleans()), "timestamp": next(clock), **details}


@st.composite
def _custom(draw: st.DrawFn, clock: Iterator[int]) -> Fields:
    return {"role": draw(st.sampled_from(["artifact", "custom"])), "value": draw(JSON), "timestamp": next(clock)}


@st.composite
def agent_events(draw: st.DrawFn, said: list[list[Fields]]) -> list[Fields]:
    """The stream of these runs, on the full or on the compact wire."""
    compact = draw(st.booleans())
    events: list[Fields] = []
    for messages in said:
        events += [{"type": "agent_start"}, {"type": "turn_start"}]
        for message in messages:
            events.append({"type": "message_start", "message": message})
            if message["role"] == "assistant":
                delta = {"type": "text_delta", "contentIndex": 0, "delta": "x"}
                snapshot = {"usage": {}} if compact else {"message": message}
                events += [{"type": "message_update", "assistantMessageEvent": delta, **snapshot}] * draw(
                    st.integers(0, 2)
                )
            events.append({"type": "message_end", "message": message})
        events.append({"type": "agent_end", "messages": messages})
    return events


@st.composite
def proxied(draw: st.DrawFn) -> tuple[list[Fields], Fields]:
    """A proxy stream, and the message that its client has in the end."""
    said = draw(st.lists(TEXTS | SIGNED | THOUGHTS.filter(lambda block: "redacted" not in block) | _call(), max_size=4))
    content = [{key: value for key, value in block.items() if key != "thoughtSignature"} for block in said]
    stop = (
        "toolUse"
        if any(block["type"] == "toolCall" for block in content)
        else draw(st.sampled_from(["stop", "length"]))
    )
    usage = draw(usages())
    queues = [draw(_block_events(index, block)) for index, block in enumerate(content)]
    events: list[Fields] = [{"type": "start"}]
    while queues:
        queue = draw(st.sampled_from(queues))
        events.append(queue.pop(0))
        queues = [queue for queue in queues if queue]
    return [*events, {"type": "done", "reason": stop, "usage": usage}], {
        "content": content,
        "stopReason": stop,
        "usage": usage,
    }


@st.composite
def _block_events(draw: st.DrawFn, index: int, block: Fields) -> list[Fields]:
    kind = {"text": "text", "thinking": "thinking", "toolCall": "toolcall"}[block["type"]]
    at = {"contentIndex": index}
    whole = json.dumps(block["arguments"], ensure_ascii=False) if kind == "toolcall" else block[kind]
    identity = {"id": block["id"], "toolName": block["name"]} if kind == "toolcall" else {}
    signature = block.get("textSignature", block.get("thinkingSignature"))
    end = {"contentSignature": signature} if signature is not None else {}
    deltas = [{"type": f"{kind}_delta", **at, "delta": piece} for piece in draw(_pieces(whole))]
    return [{"type": f"{kind}_start", **at, **identity}, *deltas, {"type": f"{kind}_end", **at, **end}]


@st.composite
def _pieces(draw: st.DrawFn, whole: str) -> list[str]:
    """Deltas of a text, cut between any two UTF-16 units: inside surrogate pairs, too."""
    units = whole.encode("utf-16-le", "surrogatepass")
    cuts = draw(st.sets(st.integers(0, len(units) // 2), max_size=4))
    edges = [0, *sorted(2 * cut for cut in cuts), len(units)]
    return [units[a:b].decode("utf-16-le", "surrogatepass") for a, b in pairwise(edges)]
