"""Requests to models as they are read: which model they may be for, and why they can't be read."""

import gzip
import json
from typing import Any

import pytest

from turnmill.capture.passing import Call
from turnmill.capture.reading import Reading, read

CHAT = "/v1/chat/completions"
ASK = b'{"model": "m", "messages": [{"role": "user", "content": "Weather?"}]}'


def reading(body: bytes, path: str = CHAT, dialect: str = "openai-chat", **headers: str) -> Reading:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return read(Call("openai", dialect, path, named, body))


def test_a_request() -> None:
    found = reading(gzip.compress(ASK), content_encoding="gzip", content_type="application/json; charset=UTF-8")
    assert (found.problem, found.models, [one.text for one in found.messages]) == (None, ("m",), ["Weather?"])
    assert found.exchange.asked() == [{"object": "turnmill.request", "request": json.loads(ASK)}]


@pytest.mark.parametrize(
    ("dialect", "path", "named"),
    [
        ("bedrock", "/model/us.amazon.nova-pro-v1:0/converse", {"modelId": "us.amazon.nova-pro-v1:0"}),
        ("mistral", "/v1/conversations/conv_1", {"conversation_id": "conv_1"}),
        ("mistral", "/v1/conversations", {}),
    ],
)
def test_what_is_in_the_path_is_published_as_the_clients_take_it(
    dialect: str, path: str, named: dict[str, str]
) -> None:
    found = reading(b'{"messages": []}', path, dialect)
    assert found.exchange.asked()[0]["request"] == {"messages": [], **named}
    assert found.names.response == named.get("conversation_id")


@pytest.mark.parametrize(
    ("body", "path", "models"),
    [
        ({"model": "m"}, "/v1beta/models/gemini-2:generateContent", ("gemini-2", "m")),
        ({"model": "m"}, "/openai/deployments/d/chat/completions", ("d", "m")),
        ({"Model": "a", "MODEL": "b", "model": "m"}, CHAT, ("a", "b", "m")),
        ({"model": ["m"]}, CHAT, ()),
        ({}, CHAT, ()),
    ],
)
def test_models(body: dict[str, Any], path: str, models: tuple[str, ...]) -> None:
    assert reading(json.dumps(body).encode(), path).models == models


@pytest.mark.parametrize(
    ("body", "headers", "why"),
    [
        (ASK.decode().encode("utf-16"), {}, "not JSON in UTF-8"),
        (b'{"model": NaN}', {}, "not JSON"),
        (b"[]", {}, "no JSON object"),
        (b"", {}, "not JSON"),
        (ASK, {"content_encoding": "utf-8"}, "says that it is encoded"),
        (b"x", {"content_encoding": "utf-8"}, "'utf-8' is not known"),
        (b"x", {"content_encoding": "br,br,br"}, "more than 2 times"),
        (ASK, {"content_type": 'application/json; charset="utf-7"'}, "charset is 'utf-7'"),
        (b"[" + b"[]," * 300_000 + b"[]]", {}, "more than 200,000 values"),
        (gzip.compress(bytes(40_000_000)), {"content_encoding": "gzip"}, "more than 33,554,432 bytes"),
    ],
)
def test_what_can_not_be_read(body: bytes, headers: dict[str, str], why: str) -> None:
    found = reading(body, **headers)
    assert why in str(found.problem)
    assert found.messages == []
