"""Streams that no dialect reads are refused by their name. The events are those of the named package."""

import json
from typing import Any

import pytest

from pipeline.dialects.recognition import UnknownWire, recognise

STREAMS: dict[str, list[Any]] = {
    "Dify": [{"event": "message", "task_id": "t", "message_id": "m", "answer": "Hi"}],
    "OpenAI's agent sessions": [{"type": "agent.session.turn.output_text.delta", "delta": "Hi"}],
    "Anthropic's managed agents": [{"type": "agent.message", "id": "e", "content": [], "processed_at": "t"}],
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("form", ["{}\n", "data: {}\n\n"], ids=["lines", "sse"])
def test_it_is_refused_by_name(name: str, form: str) -> None:
    stream = "".join(form.replace("{}", json.dumps(event)) for event in STREAMS[name])
    with pytest.raises(UnknownWire, match="which no dialect reads") as caught:
        recognise(stream.encode())
    assert f"it is {name}, which" in str(caught.value)


REFUSED = {"type": "turnmill.error", "status": 401, "body": {"error": {"message": "Incorrect API key"}}}


@pytest.mark.parametrize(
    ("body", "wire"),
    [
        ({"model": "m", "input": "hello"}, "openai-responses"),
        ({"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}, "gemini"),
        ({"model": "m", "messages": [{"role": "user", "content": "hello"}]}, "anthropic"),
    ],
)
def test_a_refusal_alone_is_of_the_wire_of_its_request(body: Any, wire: str) -> None:
    found = recognise(json.dumps(REFUSED).encode(), body)
    assert found is not None
    assert found.name == wire
    for other in (None, "hello", {"model": "m"}):
        with pytest.raises(UnknownWire) as caught:
            recognise(json.dumps(REFUSED).encode(), other)
        assert set(caught.value.could_be) == {"anthropic", "gemini", "openai-responses"}
