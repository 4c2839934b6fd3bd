"""The mock's server: in the form that the client asks for, in the wire of its provider; and the fixture for tests."""

import json
import os
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest

from pipeline.cli.mock.calls import Call, as_recorded, calls_of, frozen
from pipeline.cli.mock.matching import Tape
from pipeline.cli.mock.plugin import turnmill_mock
from pipeline.cli.mock.serving import LABEL, Mock
from tests.support.assembled import START, THREAD_ID, assembled
from tests.support.upstream import chat_answer, chat_chunks, gemini_events, message_events, response_events

__all__ = ["turnmill_mock"]
TEXT = "It is sunny."
PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/m:streamGenerateContent?alt=sse",
}
SAID = [{"role": "user", "content": "Weather?"}]
BODIES: dict[str, dict[str, Any]] = {
    "openai-chat": {"stream": True, "messages": SAID},
    "openai-responses": {"stream": True, "input": SAID},
    "anthropic": {"stream": True, "messages": SAID},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "Weather?"}]}]},
}
STREAMS = {
    "openai-chat": [*chat_chunks("It is ", "sunny."), {"event": None, "data": "[DONE]"}],
    "openai-responses": response_events(TEXT),
    "anthropic": message_events(TEXT),
    "gemini": gemini_events(TEXT),
}
KINDS = {"openai-chat": "object"}


def calls(dialect: str, *events: dict[str, Any], recorded: bool = True, body: Any = None) -> list[Call]:
    asked = {KINDS.get(dialect, "type"): "turnmill.request", "request": body or BODIES[dialect]}
    run = [asked, *(events or STREAMS[dialect])]
    made = assembled(dialect, run)
    bare = calls_of(made.document, {one["turn_id"]: one for one in made.records}, {})
    envelope = {"v": 1, "thread_id": THREAD_ID, "run_id": "run-1", "agent_id": "agent-1", "dialect": dialect, "seq": 0}
    envelope |= {"ts": START, "events": run, "dt": [10 * n for n in range(len(run))]}
    hashes = {one["hash"] for one in made.records}
    return as_recorded(bare, hashes, {"run-1": [envelope]} if recorded else {}, lambda event: event)


async def answered(found: list[Call], path: str, body: Any) -> tuple[int, str | None, str]:
    async with (
        Mock(Tape(found)).serving() as url,
        aiohttp.ClientSession() as session,
        session.post(url + path, json=body) as answer,
    ):
        return answer.status, answer.headers.get(LABEL), await answer.text()


@pytest.mark.parametrize("dialect", STREAMS)
async def test_a_recorded_stream_is_sent_event_by_event(dialect: str) -> None:
    status, label, text = await answered(calls(dialect), PATHS[dialect], BODIES[dialect])
    assert (status, label) == (200, "recorded")
    data = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    found = [{"event": None, "data": one} if one == "[DONE]" else json.loads(one) for one in data]
    assert found == STREAMS[dialect]
    assert ("event: " in text) == (dialect in ("anthropic", "openai-responses"))


@pytest.mark.parametrize("dialect", STREAMS)
async def test_a_whole_answer_is_rebuilt_of_a_stream(dialect: str) -> None:
    body = {name: value for name, value in BODIES[dialect].items() if name != "stream"}
    path = PATHS[dialect].replace(":streamGenerateContent?alt=sse", ":generateContent")
    status, label, text = await answered(calls(dialect, recorded=dialect != "gemini"), path, body)
    assert (status, label) == (200, "rebuilt")
    assert TEXT in text
    assert isinstance(json.loads(text), dict)


async def test_a_stream_is_rebuilt_of_a_whole_answer() -> None:
    found = calls("openai-chat", chat_answer(TEXT))
    assert found[0].whole.recorded
    _, label, text = await answered(found, PATHS["openai-chat"], BODIES["openai-chat"])
    assert label == "rebuilt"
    assert text.endswith("data: [DONE]\n\n")


async def test_a_stream_of_gemini_is_an_array_unless_it_is_asked_for_events() -> None:
    path = PATHS["gemini"].removesuffix("?alt=sse")
    _, _, text = await answered(calls("gemini"), path, BODIES["gemini"])
    assert json.loads(text) == STREAMS["gemini"]


async def test_a_refusal_comes_back_with_its_status() -> None:
    error = {"object": "turnmill.error", "status": 429, "body": {"error": {"message": "slow down"}}}
    for recorded in (True, False):
        found = calls("openai-chat", error, recorded=recorded)
        status, label, text = await answered(found, PATHS["openai-chat"], BODIES["openai-chat"])
        assert (status, json.loads(text)["error"]) == (429, {"message": "slow down"})
        assert label == ("recorded" if recorded else "rebuilt")


async def test_a_stream_that_broke_off_breaks_off() -> None:
    broken = {"object": "turnmill.error", "body": {"type": "ReadError", "message": "reset"}}
    found = calls("openai-chat", STREAMS["openai-chat"][0], broken)
    with pytest.raises(aiohttp.ClientPayloadError):
        await answered(found, PATHS["openai-chat"], BODIES["openai-chat"])


@pytest.mark.parametrize("dialect", STREAMS)
async def test_a_request_that_the_run_did_not_make_is_refused_in_the_form_of_its_api(dialect: str) -> None:
    async with (
        Mock(Tape(calls(dialect))).serving() as url,
        aiohttp.ClientSession() as session,
        session.post(url + PATHS[dialect], json={}) as answer,
    ):
        assert (answer.status, answer.headers["x-should-retry"]) == (400, "false")
        assert "message 1 was user: 'Weather?'" in (await answer.json())["error"]["message"]


@pytest.mark.parametrize(("path", "body", "status"), [("/v1/models", {}, 404), ("/v1/messages", [], 400)])
async def test_what_is_no_call_is_refused(path: str, body: Any, status: int) -> None:
    assert (await answered([], path, body))[0] == status


@pytest.mark.parametrize("path", ["/v2/chat", "/api/chat", "/model/m/converse", "/v1/conversations", "/interactions"])
async def test_wires_that_it_does_not_speak_are_refused_with_a_sentence(path: str) -> None:
    status, _, text = await answered(calls("openai-chat"), path, BODIES["openai-chat"])
    assert (status, f"POST {path} is no call that a run is answered for" in text) == (404, True)


@pytest.mark.parametrize("headers", [{"Host": "page.example"}, {"Origin": "https://page.example"}])
async def test_no_web_page_reads_what_was_recorded(headers: dict[str, str]) -> None:
    async with (
        Mock(Tape(calls("openai-chat"))).serving() as url,
        aiohttp.ClientSession(headers=headers) as session,
        session.post(url + PATHS["openai-chat"], json=BODIES["openai-chat"]) as answer,
    ):
        assert (answer.status, TEXT in await answer.text()) == (403, False)


async def test_events_that_say_something_else_than_the_store_are_not_sent() -> None:
    found = calls("openai-chat", recorded=False)
    again = as_recorded(found, {"another hash"}, {"run-1": []}, lambda event: event)
    assert again == found


def test_the_fixture_serves_a_file_and_says_what_was_not_asked(turnmill_mock: Any, tmp_path: Path) -> None:
    file = tmp_path / "weather.json"
    file.write_text(frozen(calls("openai-chat")))
    mock = turnmill_mock(file, strict=True)
    assert os.environ["OPENAI_BASE_URL"] == f"{mock.url}/v1"
    assert os.environ["ANTHROPIC_BASE_URL"] == mock.url
    assert mock.unused == ["a call of openai-chat, run run-1"]
    answer = httpx.post(f"{mock.url}/v1/chat/completions", json=BODIES["openai-chat"])
    assert (answer.status_code, answer.headers[LABEL], mock.unused) == (200, "recorded", [])
