"""`turnmill mcp` before a real gateway, asked by the SDK's own client, over stdio and over HTTP."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from pydantic import SecretStr

from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.turns import write_turns
from tests.support.gateways import Running, Tokens, running
from tests.support.turn_records import make_record
from tests.support.workers import environment
from turnmill.identity import thread_uuid

TURNMILL = ["-m", "turnmill", "mcp"]


@pytest.fixture
def tokens() -> Tokens:
    return Tokens()


@pytest.fixture
def gateway_settings(applied_settings: Settings, tokens: Tokens) -> Settings:
    guarded = {"gateway_port": 0, "gateway_tokens": SecretStr(tokens.setting)}
    return applied_settings.model_copy(update=guarded)


@pytest.fixture
async def gateway(gateway_settings: Settings) -> AsyncIterator[Running]:
    async with running(gateway_settings) as one:
        yield one


async def write(settings: Settings) -> None:
    records = [
        {**make_record(chat, run, text=text, tenant=tenant, seconds=n), "thread_id": thread_uuid(chat, tenant)[0]}
        for n, (chat, run, text, tenant) in enumerate(
            [
                ("chat", "r1", "the first answer", "acme"),
                ("chat", "r2", "rain tomorrow", "acme"),
                ("other", "r1", "rain elsewhere", "globex"),
            ]
        )
    ]
    async with await ThreadStore.open(settings.store_url) as store:
        await write_turns(store, records)


def variables(settings: Settings, gateway: Running, token: str) -> dict[str, str]:
    of_gateway = {"TURNMILL_PUBLISH_URL": gateway.url, "TURNMILL_PUBLISH_TOKEN": token}
    return environment(settings.model_copy(update={"gateway_tokens": None}), **of_gateway)


async def told(client: Client, tool: str, **arguments: Any) -> tuple[bool, str]:
    """Whether the call failed, and the text of its result."""
    result = await client.call_tool(tool, arguments)
    [content] = result.content
    return result.is_error, content.text


async def answered(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    wrong, text = await told(client, tool, **arguments)
    assert not wrong, text
    return json.loads(text)


def said_in(page: dict[str, Any]) -> list[str]:
    return [turn["messages"][0]["parts"][0]["content"] for turn in page["turns"]]


async def test_each_tool_answers_over_stdio_for_the_tenant_of_its_token(
    gateway_settings: Settings, gateway: Running, tokens: Tokens
) -> None:
    await write(gateway_settings)
    of_process = variables(gateway_settings, gateway, tokens.reader)
    async with Client(StdioServerParameters(command=sys.executable, args=TURNMILL, env=of_process)) as client:
        listed = (await client.list_tools()).tools
        assert all(tool.description and tool.annotations.read_only_hint for tool in listed)
        assert len(listed) == 6
        [hit] = (await answered(client, "search_conversations", q="rain"))["results"]
        assert hit["thread_id"] == thread_uuid("chat", "acme")[0], "not that of another tenant"
        [thread] = (await answered(client, "list_threads", limit=5))["threads"]
        assert thread["external_id"] == "chat"
        page = await answered(client, "show_thread", thread="chat", last=1)
        assert said_in(page) == ["rain tomorrow"]
        before = await answered(client, "show_thread", thread="chat", before=page["previous"])
        assert said_in(before) == ["the first answer"]
        assert (await answered(client, "usage", group_by="agent"))["total"]["input_tokens"] == 20
        assert await answered(client, "open_runs", status="waiting") == {"runs": []}
        assert await answered(client, "feedback", thread="chat") == {"meta:feedback": []}


async def test_an_error_says_what_to_do(gateway_settings: Settings, gateway: Running, tokens: Tokens) -> None:
    reads, sends = (variables(gateway_settings, gateway, token) for token in (tokens.reader, tokens.sender))
    nowhere = "http://127.0.0.1:9"
    for of_process, calls in (
        (
            reads,
            {
                "show_thread": ({"thread": "nobody"}, "404 "),
                "usage": ({"user": "u"}, "unknown, or missing: user. The arguments are: group_by: "),
                "erase": ({}, "there is no tool 'erase': there are search_conversations, "),
            },
        ),
        (sends, {"usage": ({}, "lacks the scope 'read'")}),
        ({**reads, "TURNMILL_PUBLISH_URL": nowhere}, {"usage": ({}, f": does a gateway run at {nowhere}?")}),
    ):
        async with Client(StdioServerParameters(command=sys.executable, args=TURNMILL, env=of_process)) as client:
            for tool, (arguments, said) in calls.items():
                wrong, text = await told(client, tool, **arguments)
                assert wrong, text
                assert said in text


@asynccontextmanager
async def serving(of_process: dict[str, str]) -> AsyncIterator[str]:
    """The URL of a server on a free port."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *TURNMILL, "--http", "--port", "0", env=of_process, stderr=asyncio.subprocess.PIPE
    )
    try:
        line = (await process.stderr.readline()).decode()
        assert line.startswith("turnmill: mcp; http://127.0.0.1:"), line
        yield line.split()[-1]
    finally:
        process.terminate()
        await process.communicate()


@asynccontextmanager
async def over_http(url: str, token: str | None) -> AsyncIterator[Client]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


async def test_over_http_each_caller_has_its_own_token(
    gateway_settings: Settings, gateway: Running, tokens: Tokens
) -> None:
    await write(gateway_settings)
    async with serving(variables(gateway_settings, gateway, tokens.operator)) as url:
        for token, chats in ((tokens.acme, ["chat"]), (tokens.globex, ["other"])):
            async with over_http(url, token) as client:
                threads = (await answered(client, "list_threads"))["threads"]
                assert [thread["external_id"] for thread in threads] == chats
        async with over_http(url, None) as client:
            wrong, text = await told(client, "list_threads")
            assert (wrong, text[:4]) == (True, "401 "), "the token of the process is lent to none"


async def test_over_http_no_web_page_gets_in(gateway_settings: Settings, gateway: Running) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    accepts = {"Accept": "application/json, text/event-stream"}
    async with serving(variables(gateway_settings, gateway, "")) as url, httpx.AsyncClient(trust_env=False) as http:
        assert (await http.post(url, json=ping, headers=accepts)).status_code == 200
        for refused in (
            {"Host": "evil.example"},
            {"Origin": "https://evil.example"},
            {"Origin": "http://localhost:3000"},
        ):
            assert (await http.post(url, json=ping, headers={**accepts, **refused})).status_code == 403, refused
