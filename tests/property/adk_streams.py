"""Valid streams of ADK's events, with what they say."""

from itertools import count
from typing import Any

from hypothesis import strategies as st

Fields = dict[str, Any]

WORDS = st.text(min_size=1, max_size=20)
AUTHORS = st.sampled_from(["desk", "booking"])
OBJECTS = st.dictionaries(st.text(max_size=5), st.none() | st.booleans() | st.integers(-9, 9) | WORDS, max_size=3)
COUNTS = st.integers(0, 10**6)


@st.composite
def sessions(draw: st.DrawFn) -> list[Fields]:
    """The whole events of a run: steps with calls and their results, and an answer."""
    numbers = count(1)
    events: list[Fields] = []
    for _ in range(draw(st.integers(0, 3))):
        author = draw(AUTHORS)
        calls = [
            {"id": f"c{next(numbers)}", "name": "get", "args": draw(OBJECTS)} for _ in range(draw(st.integers(1, 3)))
        ]
        said = [*draw(st.lists(_texts(), max_size=2)), *({"functionCall": call} for call in calls)]
        events.append(draw(_event(numbers, author, "model", said)))
        answers = [{"functionResponse": {**_identity(call), "response": draw(OBJECTS)}} for call in calls]
        events.append(draw(_event(numbers, author, "user", answers)))
    events.append(draw(_event(numbers, draw(AUTHORS), "model", draw(st.lists(_texts(), min_size=1, max_size=3)))))
    return events


@st.composite
def streams(draw: st.DrawFn, events: list[Fields]) -> list[Fields]:
    """The same with fragments before what agents say, and with events that say nothing."""
    streamed: list[Fields] = []
    for event in events:
        if draw(st.booleans()):
            streamed.append({"id": f"n{len(streamed)}", "author": event["author"], "actions": {}, "invocationId": "i1"})
        if event["content"]["role"] == "model" and draw(st.booleans()):
            for part in event["content"]["parts"]:
                pieces = [{**part, "text": piece} for piece in part["text"]] if "text" in part else [part]
                identity = {key: event[key] for key in ("id", "author", "invocationId")}
                streamed += [{**identity, "partial": True, "content": {"role": "model", "parts": [p]}} for p in pieces]
        streamed.append({**event, "partial": False} if draw(st.booleans()) else event)
    return streamed


@st.composite
def _texts(draw: st.DrawFn) -> Fields:
    return {"text": draw(WORDS), **draw(st.sampled_from([{}, {"thought": True}]))}


@st.composite
def _event(draw: st.DrawFn, numbers: Any, author: str, role: str, parts: list[Fields]) -> Fields:
    number = next(numbers)
    event: Fields = {"id": f"e{number}", "invocationId": "i1", "author": author, "timestamp": 1_768_928_342 + number}
    event["content"] = {"role": role, "parts": parts}
    if role == "model":
        event["usageMetadata"] = {"promptTokenCount": number, "candidatesTokenCount": draw(COUNTS)}
    return event


def _identity(call: Fields) -> Fields:
    return {"id": call["id"], "name": call["name"]}
