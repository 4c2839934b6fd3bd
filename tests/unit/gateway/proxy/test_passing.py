"""A gateway before a scripted upstream: what passes, and what is published of it. The broker is away."""

import asyncio
import gzip
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import cramjam
import httpx
import pytest
from pydantic import SecretStr

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from pipeline.gateway.budgets.memory import Budgets
from pipeline.gateway.proxy import bodies, passing
from pipeline.policies.budgets import State
from pipeline.settings import Settings
from pipeline.turns.thread_document import thread_document
from tests.support.gateways import Running, Tokens, client
from tests.support.spools import spooled
from tests.support.upstream import SSE, Answering, Asked, chat_answer, chat_chunks, playing
from tests.support.waiting import until
from tests.unit.gateway.proxy.conftest import Proxied

CHAT = "/proxy/openai/v1/chat/completions"
KEY = "sk-provider-0123456789"
ASK = {"model": "gpt-5", "messages": [{"role": "user", "content": "Weather?"}], "stream": True}


def documents(settings: Settings) -> Iterator[dict[str, Any]]:
    """The threads of what was published, one for each run."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for record in spooled(settings):
        runs.setdefault(record["run_id"], []).append(record)
    for records in runs.values():
        turns, refused = assemble(DIALECTS[records[0]["dialect"]], records)
        assert refused == []
        yield thread_document(records[0]["thread_id"], turns)


def said(document: dict[str, Any]) -> tuple[str, str]:
    """Of the last turn: its status, and its text."""
    turn = document["turns"][-1]
    parts = [part for message in turn["messages"] for part in message.get("parts", ())]
    return turn["completion_status"], "".join(part["content"] for part in parts if part["part_kind"] == "text")


async def test_a_stream_passes_byte_by_byte_as_it_comes_and_is_published(proxied: Proxied) -> None:
    more = asyncio.Event()
    events = chat_chunks("Hel", "lo")

    async def play(_: Asked, answer: Answering) -> None:
        await answer.head(kind=SSE, x_request_id="r1", set_cookie="a=b", content_security_policy="default-src *")
        await answer.chunk(b": hello\n\ndata: " + json.dumps(events[0]).encode()[:20])
        await more.wait()
        await answer.chunk(json.dumps(events[0]).encode()[20:] + b"\n\n")
        await answer.chunk(b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events[1:]))
        await answer.chunk(b"data: [DONE]\n\n")
        await answer.chunk(b"")

    async with playing(play) as upstream, proxied(upstream.url) as gateway, client(gateway.url) as http:
        headers = {"Authorization": f"Bearer {KEY}", "Turnmill-Thread": "chat-1", "Cookie": "sso=1"}
        async with http.stream("POST", CHAT, json=ASK, headers=headers) as answer:
            pieces = answer.aiter_bytes()
            first = await anext(pieces)
            assert first.endswith(json.dumps(events[0]).encode()[:20]), "before the upstream goes on"
            more.set()
            rest = b"".join([piece async for piece in pieces])
        assert (first + rest).endswith(b"data: [DONE]\n\n")
        assert (answer.status_code, answer.headers["x-request-id"]) == (200, "r1")
        assert "set-cookie" not in answer.headers
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    (asked,) = upstream.asked
    assert asked.line == "POST /v1/chat/completions HTTP/1.1"
    assert asked.json == ASK
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.headers["host"] == upstream.url.removeprefix("http://")
    assert not {"cookie", "turnmill-thread"} & asked.headers.keys()
    (document,) = documents(gateway.settings)
    assert said(document) == ("complete", "Hello")
    assert document["turns"][0]["parts"][0]["content"] == "Weather?"


@pytest.mark.parametrize("encoding", ["zstd", "gzip", "br"])
async def test_a_request_that_is_encoded_passes_as_it_is_and_is_read(proxied: Proxied, encoding: str) -> None:
    pack = {"zstd": cramjam.zstd.compress, "gzip": gzip.compress, "br": cramjam.brotli.compress}[encoding]
    body = bytes(pack(json.dumps(ASK).encode()))

    async def play(_: Asked, answer: Answering) -> None:
        await answer.stream(*chat_chunks("Sunny."), done=True)

    async with playing(play) as upstream, proxied(upstream.url) as gateway, client(gateway.url) as http:
        answer = await http.post(CHAT, content=body, headers={"Content-Encoding": encoding})
        assert answer.status_code == 200
    (asked,) = upstream.asked
    assert (asked.body, asked.headers["content-encoding"]) == (body, encoding)
    (document,) = documents(gateway.settings)
    assert said(document) == ("complete", "Sunny.")
    assert document["turns"][0]["parts"][0]["content"] == "Weather?"


@pytest.mark.parametrize(("told", "cost"), [("0.0125", 0.0125), ("0.0", None)])
async def test_a_cost_in_a_header_is_published_and_the_answer_passes_as_it_is(
    proxied: Proxied, told: str, cost: float | None
) -> None:
    async def play(_: Asked, answer: Answering) -> None:
        await answer.whole(chat_answer("Sunny."), x_litellm_response_cost=told)

    async with playing(play) as upstream, proxied(upstream.url) as gateway, client(gateway.url) as http:
        answer = await http.post(CHAT, json={**ASK, "stream": False})
        assert answer.json() == chat_answer("Sunny.")
        assert answer.headers["x-litellm-response-cost"] == told
    (document,) = documents(gateway.settings)
    (response,) = [one for one in document["turns"][-1]["messages"] if one["message_type"] == "response"]
    assert response["usage"].get("cost_usd") == cost


async def test_whole_answers_and_errors_pass_as_they_are(proxied: Proxied) -> None:
    squeezed = gzip.compress(json.dumps(chat_answer("Sunny.")).encode())
    refusal = b'{"error": {"message": "slow down", "type": "rate_limit"}}'

    async def play(asked: Asked, answer: Answering) -> None:
        if len(upstream.asked) == 1:
            await answer.whole(refusal, 429, retry_after="7", x_should_retry="true")
        elif len(upstream.asked) == 2:
            await answer.whole(b"<h1>oops</h1>", 500)
        else:
            assert asked.headers["accept-encoding"] == "gzip"
            await answer.whole(squeezed, content_encoding="gzip")

    async with playing(play) as upstream, proxied(upstream.url) as gateway, client(gateway.url) as http:
        ask, headers = {**ASK, "stream": False}, {"Accept-Encoding": "gzip"}
        limited, failed = [await http.post(CHAT, json=ask, headers=headers) for _ in range(2)]
        async with http.stream("POST", CHAT, json=ask, headers=headers) as answer:
            raw = b"".join([chunk async for chunk in answer.aiter_raw()])
    assert (limited.status_code, limited.content, limited.headers["retry-after"]) == (429, refusal, "7")
    assert (failed.status_code, failed.content) == (500, b"<h1>oops</h1>")
    assert raw == squeezed
    # What failed was asked again with the same words: one run, whose last attempt counts.
    (document,) = documents(gateway.settings)
    assert said(document) == ("complete", "Sunny.")


async def test_a_client_that_goes_away_closes_the_connection_to_the_upstream(proxied: Proxied) -> None:
    async def play(asked: Asked, answer: Answering) -> None:
        await answer.head(kind=SSE)
        await answer.chunk(f"data: {json.dumps(chat_chunks('Hel')[0])}\n\n".encode())
        await asked.gone.wait()

    async with playing(play) as upstream, proxied(upstream.url) as gateway:
        async with client(gateway.url) as http, http.stream("POST", CHAT, json=ASK) as answer:
            await anext(answer.aiter_bytes())
        await asyncio.wait_for(upstream.asked[0].gone.wait(), 10)
    (document,) = documents(gateway.settings)
    assert said(document)[0] == "interrupted"
    assert document["turns"][-1]["interruption"]["reason"] == "user_cancelled"


async def test_a_client_that_goes_before_the_answer_closes_it_too(proxied: Proxied) -> None:
    async def play(asked: Asked, _: Answering) -> None:
        await asked.gone.wait()

    async with playing(play) as upstream, proxied(upstream.url) as gateway, client(gateway.url) as http:
        waiting = asyncio.create_task(http.post(CHAT, json=ASK))

        async def asked() -> bool:
            return bool(upstream.asked)

        await until(asked)
        waiting.cancel()
        await asyncio.wait_for(upstream.asked[0].gone.wait(), 10)


@pytest.mark.parametrize("way", ["reset", "stalls", "silent", "away"])
async def test_an_upstream_that_fails_fails_as_it_would_without_us(proxied: Proxied, way: str) -> None:
    async def play(asked: Asked, answer: Answering) -> None:
        if way == "silent":
            await asked.gone.wait()
        elif way == "away":
            answer.reset()
        else:
            await answer.head(kind=SSE)
            await answer.chunk(f"data: {json.dumps(chat_chunks('Hel')[0])}\n\n".encode())
            await asyncio.sleep(0.1)
            if way == "reset":
                answer.reset()
            else:
                await asked.gone.wait()

    bounds = {"silent": {"gateway_proxy_first_byte": 0.5}, "stalls": {"gateway_proxy_idle": 3.0}}.get(way, {})
    async with playing(play) as upstream, proxied(upstream.url, **bounds) as gateway, client(gateway.url) as http:
        if way in ("silent", "away"):
            answer = await http.post(CHAT + "?key=secret-in-query", json=ASK)
            assert answer.status_code == (504 if way == "silent" else 502)
            assert answer.json()["error"]["message"] == answer.json()["detail"]
            assert "secret-in-query" not in answer.text
        else:
            async with http.stream("POST", CHAT, json=ASK) as streamed:
                pieces = streamed.aiter_raw()
                assert b"Hel" in await anext(pieces)
                with pytest.raises(httpx.RemoteProtocolError):
                    await anext(pieces)
    (document,) = documents(gateway.settings)
    assert said(document)[0] == "interrupted"


async def test_what_is_no_model_call_passes_and_is_not_published(proxied: Proxied) -> None:
    big = bytes(range(256)) * 40_000  # 10 MB

    async def play(asked: Asked, answer: Answering) -> None:
        if asked.line.startswith("HEAD"):
            await answer.head(size=2)
            return
        await answer.whole(
            asked.body or b"[]", 302 if "redirect" in asked.line else 200, location="https://evil.example/"
        )

    async def pieces() -> Any:
        for at in range(0, len(big), 100_000):
            yield big[at : at + 100_000]

    async with playing(play) as upstream, proxied(upstream.url) as gateway, client(gateway.url) as http:
        assert (await http.get("/proxy/openai/v1/models?limit=2")).content == b"[]"
        assert (await http.post("/proxy/openai/v1/files", content=big)).content == big
        assert (await http.put("/proxy/openai/v1/files", content=pieces())).content == big
        assert (await http.head("/proxy/openai/v1/models")).headers["content-length"] == "2"
        moved = await http.get("/proxy/openai/redirect")
        assert (moved.status_code, moved.headers["location"]) == (302, "https://evil.example/")
    assert [asked.line.split()[1] for asked in upstream.asked] == [
        "/v1/models?limit=2",
        "/v1/files",
        "/v1/files",
        "/v1/models",
        "/redirect",
    ]
    assert "content-length" not in upstream.asked[0].headers
    assert upstream.asked[1].headers["content-length"] == str(len(big))
    assert upstream.asked[2].headers["transfer-encoding"] == "chunked"
    assert spooled(gateway.settings) == []


async def test_what_is_refused_never_reaches_an_upstream(proxied: Proxied) -> None:
    async def play(_: Asked, answer: Answering) -> None:
        await answer.whole({})

    async with playing(play) as upstream, proxied(upstream.url) as gateway, client(gateway.url) as http:
        socket = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
        for path, headers, status in (
            ("/proxy/evil/v1/models", {}, 404),
            ("/proxy/openai/v1/responses", socket, 426),
            ("/proxy/openai/v1/%2e%2e/%2e%2e/x", {}, 400),
            ("/proxy/openai/v1/models", {"Authorization": "Bearer tm_secret"}, 401),
            ("/proxy/openai/v1/models", {"Origin": "https://evil.example"}, 403),
        ):
            answer = await http.get(path, headers=headers)
            assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), path
        assert (await http.request("TRACE", "/proxy/openai/v1/models")).status_code == 405
        assert upstream.asked == []


async def test_a_body_that_is_too_large_or_finds_no_room_is_refused(
    proxied: Proxied, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(_: Asked, answer: Answering) -> None:
        await answer.whole({})

    monkeypatch.setattr(bodies, "PROXIED_BYTES", 1_000)
    monkeypatch.setattr(passing, "BODIES", replace(passing.BODIES, size=800))
    async with playing(play) as upstream, proxied(upstream.url) as gateway, client(gateway.url) as http:
        statuses = [(await http.post(CHAT, content=b"x" * size)).status_code for size in (2_000, 900, 700)]
        assert statuses == [413, 503, 200]
        assert len(upstream.asked) == 1


async def test_tokens_travel_in_a_header_or_in_the_path_and_go_no_further(
    proxied: Proxied, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = Tokens()

    async def play(_: Asked, answer: Answering) -> None:
        await answer.whole(chat_answer("Sunny."))

    setting = SecretStr(tokens.setting)
    async with (
        playing(play) as upstream,
        proxied(upstream.url, gateway_tokens=setting) as gateway,
        client(gateway.url) as http,
    ):
        ask, key = {**ASK, "stream": False}, {"Authorization": f"Bearer {KEY}"}
        refused = await http.post(CHAT, json=ask, headers=key)
        assert (refused.status_code, "Turnmill-Token" in refused.json()["detail"]) == (401, True)
        wrong = await http.post(CHAT, json=ask, headers={**key, "Turnmill-Token": tokens.reader})
        assert wrong.status_code == 403
        good = {**key, "Turnmill-Token": tokens.acme, "Turnmill-Thread": "same"}
        assert (await http.post(CHAT, json=ask, headers=good)).status_code == 200
        path = CHAT.replace("/proxy/", f"/proxy/t/{tokens.globex}/")
        good = {**key, "Turnmill-Thread": "same"}
        assert (await http.post(path, json=ask, headers=good)).status_code == 200
        assert (await http.post(path.replace(tokens.globex, "tm_wrong"), json=ask)).status_code == 401
    assert len(upstream.asked) == 2
    assert not any(b"tm_" in asked.head + asked.body for asked in upstream.asked)
    records = spooled(gateway.settings)
    assert {record["tenant"] for record in records} == {"acme", "globex"}
    assert len({record["thread_id"] for record in records}) == 2
    logged = "".join(line.getMessage() for line in caplog.records if line.name != "httpx")  # the client of this test
    held = json.dumps(records) + logged
    assert not any(secret in held for secret in (KEY, tokens.acme, tokens.globex))


BUDGETS = """[{"name": "weather-hour", "agent": "weather", "model": "gpt-5", "tokens": 10, "per": "hour"},
  {"name": "all-hour", "tokens": 1000, "per": "hour"}]"""


def use(gateway: Running, **used: int) -> None:
    """Let so much be used, as the next look at the store would have it."""
    memory: Budgets = gateway.app.state.gateway.service(Budgets)
    for budget in memory.budgets:
        window = budget.window(time.time_ns() // 1_000_000)
        memory.states[budget.name] = State(budget, used.get(budget.name.replace("-", "_"), 0), *window)


async def test_a_call_for_which_a_budget_is_used_up_is_not_passed_on_where_a_setting_says_so(
    proxied: Proxied, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(_: Asked, answer: Answering) -> None:
        await answer.whole(chat_answer("Sunny."))

    monkeypatch.setattr(Budgets, "start", lambda _: None)
    ask, headers = {**ASK, "stream": False}, {"Turnmill-Agent": "weather"}
    budgeted = {"gateway_proxy_budgets": True, "budgets": BUDGETS}
    async with playing(play) as upstream:
        async with proxied(upstream.url, **budgeted) as gateway, client(gateway.url) as http:
            use(gateway, weather_hour=10)
            answer = await http.post(CHAT, json=ask, headers=headers)
            assert (answer.status_code, answer.headers["x-should-retry"]) == (429, "false")
            assert 0 < int(answer.headers["retry-after"]) <= 3601
            problem = answer.json()
            assert (problem["error"]["code"], problem["budgets"]) == ("budget-used-up", ["weather-hour"])
            assert problem["resets"].endswith(":00:00.000Z")
            packed = bytes(cramjam.zstd.compress(json.dumps(ask).encode()))
            answer = await http.post(CHAT, content=packed, headers={**headers, "Content-Encoding": "zstd"})
            assert answer.status_code == 429, "what is encoded is counted, too"
            gemini = "/proxy/google/v1beta/models/gpt-5:generateContent"
            answer = await http.post(gemini, json={"model": "cheap", "contents": []}, headers=headers)
            assert answer.status_code == 429, "the path says which model it is"
            answer = await http.post(CHAT, json={**ask, "Model": "cheap"}, headers=headers)
            assert answer.status_code == 429, "some servers read keys in any case"
            assert (await http.get("/proxy/openai/v1/models")).status_code == 200
            assert (await http.post(CHAT, json={**ask, "model": "cheap"}, headers=headers)).status_code == 200
            use(gateway, all_hour=1000)
            assert (await http.post("/proxy/openai/v1/embeddings", json=ask)).status_code == 429
        async with proxied(upstream.url) as gateway, client(gateway.url) as http:
            assert (await http.post(CHAT, json=ask)).status_code == 200


async def test_a_call_that_can_not_be_counted_is_refused_where_a_budget_would_count_it(
    proxied: Proxied, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(asked: Asked, answer: Answering) -> None:
        assert asked.headers["accept-encoding"] in ("gzip", "gzip, br")
        await answer.whole(chat_answer("Sunny."))

    monkeypatch.setattr(Budgets, "start", lambda _: None)
    monkeypatch.setattr("turnmill.capture.reading.CAPTURED_REQUEST_BYTES", 100_000)
    plain = json.dumps({**ASK, "stream": False})
    unreadable: list[tuple[bytes, dict[str, str]]] = [
        (plain.encode("utf-16"), {}),
        (plain.replace("true", "NaN").replace("false", "NaN").encode(), {}),
        (plain.encode(), {"Content-Encoding": "utf-8"}),
        (plain.encode(), {"Content-Encoding": "br, br, br"}),
        (plain.encode(), {"Content-Encoding": "deflate"}),
        (plain.encode(), {"Content-Type": "application/json; charset=utf-7"}),
        (plain.encode() + b" " * 100_000, {}),
        (gzip.compress(plain.encode() + b" " * 100_000), {"Content-Encoding": "gzip"}),
        (b'{"messages": [' + b"[]," * 30_000 + b"[]]}", {}),
        (b'{"messages": []}', {}),
        (b"[]", {}),
        (b"", {}),
    ]
    monkeypatch.setattr("turnmill.capture.reading.JSON_VALUES", 20_000)
    accepting = {"Accept-Encoding": "gzip, br"}
    budgeted = {"gateway_proxy_budgets": True, "budgets": BUDGETS}
    async with playing(play) as upstream:
        async with proxied(upstream.url, **budgeted) as gateway, client(gateway.url) as http:
            for body, headers in unreadable:
                answer = await http.post(CHAT, content=body, headers={**accepting, **headers})
                assert (answer.status_code, answer.json()["error"]["code"]) == (422, "unreadable-request"), body[:50]
            assert (await http.post(CHAT, content=plain, headers=accepting)).status_code == 200
            assert upstream.asked[0].headers["accept-encoding"] == "gzip", "else the answer might not be read"
            assert len(upstream.asked) == 1
        async with proxied(upstream.url) as gateway, client(gateway.url) as http:
            for body, headers in unreadable:
                assert (await http.post(CHAT, content=body, headers={**accepting, **headers})).status_code == 200
            assert len(upstream.asked) == 1 + len(unreadable), "without a budget it passes"


async def test_a_call_that_can_not_be_recorded_is_refused_where_a_budget_would_count_it(
    proxied: Proxied, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(_: Asked, answer: Answering) -> None:
        await answer.whole(chat_answer("Sunny."))

    monkeypatch.setattr(Budgets, "start", lambda _: None)
    monkeypatch.setattr("turnmill.capture.passing.Passing.put", lambda *_, **__: False)
    async with playing(play) as upstream:
        for budgets, status in ((BUDGETS, 503), (None, 200)):
            more = {"gateway_proxy_budgets": True, "budgets": budgets}
            async with proxied(upstream.url, **more) as gateway, client(gateway.url) as http:
                assert (await http.post(CHAT, json={**ASK, "stream": False})).status_code == status
        assert len(upstream.asked) == 1


async def test_a_slow_reader_holds_up_the_upstream_and_no_memory(proxied: Proxied) -> None:
    sent = 0

    async def play(_: Asked, answer: Answering) -> None:
        nonlocal sent
        await answer.head(kind="application/octet-stream", size=100_000_000)
        for _number in range(1_000):
            await answer.send(b"x" * 100_000)
            sent += 100_000

    async with playing(play) as upstream, proxied(upstream.url) as gateway, client(gateway.url) as http:
        async with http.stream("GET", "/proxy/openai/v1/files/f/content") as answer:
            await asyncio.sleep(1.0)
            assert 0 < sent < 20_000_000, "the rest waits where it comes from"
            size = sum([len(chunk) async for chunk in answer.aiter_raw()])
        assert size == 100_000_000
        assert upstream.asked[0].line.startswith("GET /v1/files/f/content")


async def test_a_failure_of_the_publishing_is_none_of_the_program(
    proxied: Proxied, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(_: Asked, answer: Answering) -> None:
        await answer.stream(*chat_chunks("Hello"), done=True)

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("nothing works")

    monkeypatch.setattr("pipeline.gateway.proxy.publishing.Capture", broken)
    async with playing(play) as upstream, proxied(upstream.url) as gateway, client(gateway.url) as http:
        answer = await http.post(CHAT, json=ASK)
    assert (answer.status_code, "Hello" in answer.text) == (200, True)
    assert "not published" in caplog.text


def test_who_has_no_proxy_does_not_load_it() -> None:
    program = (
        "import sys; from pipeline.gateway.serving.app import create_app; from pipeline.settings import Settings; "
        "app = create_app(Settings()); "
        "assert not {'pipeline.gateway.proxy.passing', 'turnmill.capture.capture'} & sys.modules.keys(); "
        "assert not any(getattr(route, 'path', '').startswith('/proxy') for route in app.routes)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
