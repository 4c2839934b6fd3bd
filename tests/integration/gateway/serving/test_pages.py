"""Pages, probes and headers: what a person, a probe, Prometheus and a browser see of the gateway."""

import asyncio
import json
import re
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipeline.gateway.problems import KINDS
from pipeline.settings import Settings
from tests.support.gateways import Running, client, running, sse, talk
from tests.support.waiting import until

STRICT = "default-src 'none'"


async def test_the_documentation_names_every_operation_and_every_problem(http: httpx.AsyncClient) -> None:
    document: dict[str, Any] = (await http.get("/openapi.json")).json()
    page = await http.get("/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert f'<div id="{method}-{path}">' in page.text
            assert operation["summary"]
            assert operation.get("description"), f"{method} {path} says nothing of what it does"
    for field in ("scopes", "tokens[].name"):  # of a body, and of an answer
        assert f"<td><code>{field}</code>" in page.text
    for name in KINDS:
        assert f'id="{name}"' in page.text
    assert "<script" not in page.text
    assert (await http.get("/docs.css")).headers["content-type"].startswith("text/css")


async def test_probes_say_what_is_missing(http: httpx.AsyncClient, gateway_settings: Settings) -> None:
    assert (await http.get("/livez")).json() == {
        "status": "ok",
        "reasons": [],
        "home": str(gateway_settings.home.absolute()),
    }
    assert (await http.get("/readyz")).json() == {"status": "ok", "reasons": []}
    away = gateway_settings.model_copy(update={"store": "postgresql://nobody@127.0.0.1:1/nothing"})
    async with running(away) as gateway, client(gateway.url) as other:
        assert (await other.get("/livez")).status_code == 200
        answer = await other.get("/readyz")
        assert answer.status_code == 503
        assert "127.0.0.1" in answer.json()["reasons"][0]
        answer = await other.get("/v1/threads")
        assert (answer.status_code, answer.json()["type"]) == (503, "/docs#unavailable")
        assert answer.headers["retry-after"] == "5"


async def test_metrics_count_what_was_done(http: httpx.AsyncClient) -> None:
    url = "/v1/threads/chat-1/runs/r1/stream?dialect=vercel-ai"
    await http.post(url, content=sse(talk(2)) + b"data: rubbish\n\n")
    assert (await http.get("/v1/threads/chat-1/live?follow=false")).status_code == 200
    assert (await http.get("/no/such/page")).status_code == 404
    text = (await http.get("/metrics")).text
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    route = "/v1/threads/{thread_id}/runs/{run_id}/stream"
    assert found["turnmill_gateway_requests_total", "POST", route, "200"] == 1
    assert found["turnmill_gateway_requests_total", "GET", "none", "404"] == 1
    assert found["turnmill_gateway_events_total", "vercel-ai"] == len(talk(2))
    assert found["turnmill_gateway_refused_events_total", "undecodable"] == 1
    assert found["turnmill_gateway_live_events_total",] == len(talk(2)) + 1
    assert found["turnmill_gateway_uploads",] == 0
    assert found["turnmill_gateway_live_readers",] == 0
    assert "chat-1" not in text


async def test_every_answer_keeps_browsers_strict(http: httpx.AsyncClient) -> None:
    for method, path in (
        *(("GET", path) for path in ("/", "/docs", "/livez", "/metrics", "/openapi.json", "/v1/threads", "/nothing")),
        ("PUT", "/v1/threads"),
        ("OPTIONS", "/v1/threads"),
    ):
        answer = await http.request(method, path, headers={"Origin": str(http.base_url).rstrip("/")})
        assert answer.headers["content-security-policy"].startswith(STRICT), path
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert not [name for name in answer.headers if name.startswith("access-control-")], "CORS is off"


@pytest.mark.parametrize(
    "path", ["/", "/static/app.js", "/docs", "/openapi.json", "/metrics", "/readyz", "/livez", "/none"]
)
async def test_without_tokens_nothing_answers_to_other_names_and_pages(http: httpx.AsyncClient, path: str) -> None:
    """Found by the review: only routes that ask who calls looked at Host, any port of this machine was an origin."""
    for headers in (
        {"Host": "evil.example.com"},
        {"Origin": "http://localhost:1"},
        {"Origin": "http://evil.example.com"},
    ):
        answer = await http.get(path, headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (403, "/docs#forbidden"), (path, headers)


async def test_only_pages_that_are_named_may_call(gateway_settings: Settings) -> None:
    origin = "https://app.example.com"
    named = gateway_settings.model_copy(update={"gateway_origins": origin})
    async with running(named) as gateway, client(gateway.url) as http:
        asked = {
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,turnmill-agent-id",
        }
        answer = await http.options("/v1/threads/x/runs/y/stream", headers={"Origin": origin, **asked})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, origin)
        answer = await http.get("/v1/threads", headers={"Origin": origin})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, origin)
        other = {"Origin": "https://evil.example.com"}
        assert (await http.options("/v1/threads", headers={**other, **asked})).status_code == 403
        answer = await http.get("/v1/threads", headers=other)
        assert (answer.status_code, answer.json()["type"]) == (403, "/docs#forbidden")
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/nothing", 404, "not-found"),
        ("GET", "/v1/threads/", 404, "not-found"),
        ("PATCH", "/v1/threads", 405, "method-not-allowed"),
        ("DELETE", "/v1/usage", 405, "method-not-allowed"),
        ("GET", "/static/../../../settings.py", 404, "not-found"),
        ("GET", "/static/%2e%2e/page.py", 404, "not-found"),
    ],
)
async def test_what_is_not_there_is_told(
    http: httpx.AsyncClient, method: str, path: str, status: int, kind: str
) -> None:
    answer = await http.request(method, path)
    assert (answer.status_code, answer.json()["type"]) == (status, f"/docs#{kind}")
    assert answer.headers["content-type"] == "application/problem+json"
    assert re.search("/docs lists|this path takes", answer.json()["detail"]) or "static" in path
    if status == 405:
        assert answer.headers["allow"]


async def test_a_fault_is_told_without_its_insides(gateway: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken() -> None:
        raise RuntimeError("a secret inside")

    monkeypatch.setattr(gateway.app.state.gateway, "store", broken)
    async with client(gateway.url) as http:
        answer = await http.get("/v1/threads")
    assert (answer.status_code, answer.json()["type"]) == (500, "/docs#internal")
    assert "secret" not in answer.text


async def test_a_reader_that_takes_nothing_is_left(gateway_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.gateway.serving.server.TAKE_TIMEOUT", 0.5)
    large = {"type": "data-x", "data": "x" * 800_000}
    async with running(gateway_settings) as gateway:
        gateway.app.add_api_route("/large", lambda: json.dumps([large] * 20), include_in_schema=False)
        at = urlsplit(gateway.url)
        reader, writer = await asyncio.open_connection(at.hostname, at.port, limit=1)
        writer.write(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        (connection,) = [one async for one in _connections(gateway)]

        async def left() -> bool:
            return connection not in gateway.server.server_state.connections

        await until(left)
        writer.transport.abort()
        assert reader is not None


async def _connections(gateway: Running) -> Any:
    while not gateway.server.server_state.connections:
        await asyncio.sleep(0.01)
    for one in gateway.server.server_state.connections:
        yield one
