"""Clients and transports of ours: what they hand on, and what they publish."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import turnmill
from pipeline.settings import Settings
from tests.support.spools import away, spooled
from turnmill.capture import runtime
from turnmill.errors import CallerError

URL = "https://api.openai.com/v1/chat/completions?api-version=secret"
ASKED = {"model": "m", "messages": [{"role": "user", "content": "Weather?"}]}
ANSWER = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Rain."}, "finish_reason": "stop"}]}


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    monkeypatch.setattr(runtime, "KEEP_AFTER", 0.1)
    found = away(tmp_path, capture_agent="weather")
    runtime.restart(found)
    yield found
    runtime.restart()


def records(settings: Settings) -> list[dict[str, Any]]:
    """What was published, each run as one record."""
    runtime.runtime().stop()
    found: dict[str, dict[str, Any]] = {}
    for record in spooled(settings):
        whole = found.setdefault(record["run_id"], {**record, "events": []})
        whole["events"] += record["events"]
        whole["end"] = record.get("end")
    return sorted(found.values(), key=lambda record: (record["ts"], record["end"]))


def answer(request: httpx.Request) -> httpx.Response:
    assert "turnmill-thread" not in request.headers
    return httpx.Response(200, json=ANSWER, headers={"x-request-id": "r"})


def test_a_transport_of_ones_own(settings: Settings) -> None:
    inner = httpx.MockTransport(answer)
    with httpx.Client(transport=turnmill.transport(inner, thread_id="chat-1", agent_id="a")) as client:
        assert client.post(URL, json=ASKED).json() == ANSWER
        assert client.get(URL).json() == ANSWER, "no call of a model"
    (record,) = records(settings)
    assert (record["agent_id"], record["run"]["external_id"]) == ("a", "chat-1")
    assert record["run"]["provider_name"] == "openai"
    assert [event.get("object") for event in record["events"]] == ["turnmill.request", None]
    assert "secret" not in json.dumps(record)


async def test_an_asynchronous_one(settings: Settings) -> None:
    async with httpx.AsyncClient(transport=turnmill.transport(Answering())) as client:
        assert (await client.post(URL, json=ASKED)).json() == ANSWER
        with pytest.raises(httpx.ConnectError):
            await client.post(URL, json={**ASKED, "model": "away"})
    answered, failed = records(settings)
    assert answered["end"] == "complete"
    assert (failed["agent_id"], failed["end"]) == ("weather", "error")
    assert failed["events"][-1]["body"] == {"type": "ConnectError", "message": "ConnectError: nobody there"}


class Answering(httpx.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        if b"away" in request.content:
            raise httpx.ConnectError("nobody there")
        return httpx.Response(200, json=ANSWER)


def test_a_client_has_the_options_of_its_library(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    with turnmill.client(library="httpx", timeout=7, headers={"x": "y"}) as client:
        assert isinstance(client, httpx.Client)
        assert (client.timeout, client.headers["x"], client.follow_redirects) == (httpx.Timeout(7), "y", True)
        with pytest.raises(httpx.ConnectError):  # the proxy of the environment is asked, and it is heard
            client.post(URL, json=ASKED)
    assert isinstance(turnmill.async_client(library="httpx"), httpx.AsyncClient)
    (record,) = records(settings)
    assert record["end"] == "error"


def test_what_is_no_transport_and_no_library() -> None:
    with pytest.raises(CallerError, match="a transport of httpx2 or httpx is expected, not str"):
        turnmill.transport("https://")
    with pytest.raises(CallerError, match="there is no urllib9"):
        turnmill.client(library="urllib9")


def test_a_call_is_heard_once(settings: Settings) -> None:
    """Also where the transport inside of ours is hooked."""
    from turnmill.capture.hooks import httpx as hook

    before = httpx.MockTransport.handle_request
    try:
        httpx.MockTransport.handle_request = hook._sync(before, httpx)  # type: ignore[method-assign]
        with httpx.Client(transport=turnmill.transport(httpx.MockTransport(answer))) as client:
            client.post(URL, json=ASKED)
        with httpx.Client(transport=httpx.MockTransport(answer)) as client:
            client.post(URL, json=ASKED)
    finally:
        httpx.MockTransport.handle_request = before  # type: ignore[method-assign]
    assert len(records(settings)) == 2


def test_what_was_said_is_kept_when_flush_returns(settings: Settings) -> None:
    turnmill.flush()  # nothing was
    with httpx.Client(transport=turnmill.transport(httpx.MockTransport(answer))) as client:
        client.post(URL, json=ASKED)
        turnmill.flush()
        publisher = runtime.runtime()._publisher
        assert publisher is not None
        report = publisher.report()
        assert (report.sent, report.spooled, report.waiting) == (1, 1, 0)
    assert [record["end"] for record in records(settings)] == ["complete"]
    turnmill.flush()  # it has ended
