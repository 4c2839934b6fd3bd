"""AG-UI's runs: thread and run are those of the RunAgentInput, over HTTP and from an iterator."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from tests.support.spools import away, spooled
from turnmill import Publisher, RunIdentity, ag_ui_events
from turnmill.identity import thread_uuid
from turnmill.integrations.asgi import PublishStreams
from turnmill.integrations.stream_request import REQUEST_BYTES, RunInputs, StreamRequest, kept
from turnmill.remembered import ENTRY_BYTES, SCOPE_BYTES, size_of

EVENTS = [
    {"type": "RUN_STARTED", "threadId": "chat", "runId": "r"},
    {"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"},
    {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "It rains."},
    {"type": "TEXT_MESSAGE_END", "messageId": "m"},
    {"type": "RUN_FINISHED", "threadId": "chat", "runId": "r"},
]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnmill.publish.publisher.KEEP_AFTER", 0.0)


def asked(run: str, *before: dict[str, Any], text: str = "Weather?", **more: Any) -> dict[str, Any]:
    messages = [*before, {"id": f"q-{run}", "role": "user", "content": text}]
    beside = {"state": {}, "tools": [], "context": [], "forwardedProps": {}}
    return {"threadId": "chat", "runId": run, "messages": messages, **beside, **more}


async def posted(publisher: Publisher, middleware: PublishStreams, body: dict[str, Any]) -> list[bytes]:
    """What the client gets."""
    sent: list[bytes] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    scope = {"type": "http", "path": "/agent", "headers": [(b"content-type", b"application/json")]}
    await middleware(scope, receive, send)
    return sent


async def application(_: Any, receive: Any, send: Any) -> None:
    body = json.loads((await receive())["body"])
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    for event in EVENTS:
        said = {**event, "runId": body["runId"]} if "runId" in event else event
        await send({"type": "http.response.body", "body": f"data: {json.dumps(said)}\n\n".encode(), "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def by_run(records: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        found.setdefault(record["run_id"], []).append(record)
    return found


async def test_the_middleware_takes_thread_and_run_from_the_input(tmp_path: Path) -> None:
    answer = {"id": "m", "role": "assistant", "content": "It rains."}
    settings = away(tmp_path)
    async with Publisher(settings) as publisher:
        middleware = PublishStreams(application, publisher=publisher, agent_id="weather", dialect="ag-ui")
        first = await posted(publisher, middleware, asked("r1"))
        await posted(publisher, middleware, asked("r2", answer, text="And Rome?", parentRunId="r1"))
        await posted(publisher, middleware, asked("r2", answer, text="And Oslo?", parentRunId="r1"))
    assert b"".join(first).count(b"data: ") == len(EVENTS)
    runs = by_run(spooled(settings))
    assert list(runs) == ["r1", "r2", "r2.2"], "a run's id that comes again is another run"
    assert {records[0]["thread_id"] for records in runs.values()} == {thread_uuid("chat")[0]}
    assert [records[-1]["end"] for records in runs.values()] == ["complete"] * 3
    for run, words in (("r1", "Weather?"), ("r2", "And Rome?"), ("r2.2", "And Oslo?")):
        turns, refused = assemble(DIALECTS["ag-ui"], runs[run])
        (user, agent) = [record["turn"] for record in turns if record["turn"]]
        assert refused == []
        assert [part["content"] for part in user["parts"]] == [words]
        assert agent["messages"][0]["parts"][0]["content"] == "It rains."


class Camel(BaseModel):
    """As ag-ui-protocol has its models."""

    model_config = ConfigDict(extra="allow", alias_generator=to_camel, populate_by_name=True)


class RunAgentInput(Camel):
    thread_id: str
    run_id: str
    messages: list[dict[str, Any]]


async def test_an_iterator_of_objects(tmp_path: Path) -> None:
    settings = away(tmp_path)
    given = RunAgentInput(thread_id="chat", run_id="iterated", messages=asked("r")["messages"])
    events = [Camel.model_validate(event) for event in EVENTS]
    async with Publisher(settings) as publisher:
        for more in ({}, {"thread_id": "user-7/chat", "tenant": "acme"}):
            seen = [event async for event in ag_ui_events(publisher, given, events, agent_id="weather", **more)]
            assert [one is other for one, other in zip(seen, events, strict=True)] == [True] * len(events)
    named, checked = [record for record in spooled(settings) if "run" in record]
    assert (named["run_id"], named["run"]["external_id"]) == ("iterated", "chat")
    assert named["run"]["request"]["messages"][0]["content"] == "Weather?"
    assert (checked["run_id"], checked["thread_id"]) == ("iterated", thread_uuid("user-7/chat", "acme")[0])


async def test_an_iterator_that_raises_or_is_left(tmp_path: Path) -> None:
    settings = away(tmp_path)

    def breaks() -> Any:
        yield EVENTS[0]
        raise ValueError("the agent is gone")

    async with Publisher(settings) as publisher:
        with pytest.raises(ValueError, match="gone"):
            [event async for event in ag_ui_events(publisher, asked("broken"), breaks())]
        left = ag_ui_events(publisher, asked("left"), EVENTS)
        await anext(left)
        await left.aclose()
    runs = by_run(spooled(settings))
    assert {run: records[-1]["end"] for run, records in runs.items()} == {"broken": "error", "left": "aborted"}


def test_an_input_that_is_none_names_a_thread_all_the_same() -> None:
    inputs = RunInputs()
    for body in (None, [], {"runId": 7}, {"threadId": ""}):
        found = inputs(StreamRequest({}, {}, body))
        assert found.thread_id
        assert found.run_id is None
    assert inputs(StreamRequest({}, {}, {"thread_id": "t", "run_id": "r"})) == RunIdentity("t", "r")


def test_the_newest_runs_are_remembered() -> None:
    inputs = RunInputs()
    inputs._named.size = SCOPE_BYTES + 2 * (ENTRY_BYTES + size_of(("t", "a")) + size_of(1))
    ids = [inputs(StreamRequest({}, {}, {"threadId": "t", "runId": run})).run_id for run in "aabcab"]
    assert ids == ["a", "a.2", "b", "c", "a", "b"]


def test_a_large_state_costs_no_words_of_the_user() -> None:
    body = asked("r", state={"document": "x" * REQUEST_BYTES})
    assert kept(body) == {key: value for key, value in body.items() if key != "state"}
    assert kept({"messages": [{"role": "user", "content": "x" * REQUEST_BYTES}]}) is None
    assert kept("x" * REQUEST_BYTES) is None
    assert kept(asked("r")) == asked("r")
