"""Programs that nobody changed, before the gateway's proxy: they see what the provider says, and the thread holds it.

SDKs for Node, Claude Code, Codex and curl, against a scripted upstream. Part of `make test-sdks`; no broker is needed,
since what can't be sent is in the spool.
"""

import asyncio
import base64
import json
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import pytest

from tests.sdks.proxied import ANSWER, KEY, WITHIN, Done, claude_code, codex, proxy, run, said, speak, speaks
from tests.support.spools import spooled
from tests.support.upstream import (
    Answering,
    Asked,
    chat_answer,
    chat_call,
    chat_chunks,
    message_call,
    message_events,
    response_call,
    response_events,
)

AI_SDK = ("ai-responses", "ai-chat", "ai-messages")


@pytest.mark.parametrize(
    ("sdk", "way"),
    [("chat", "stream"), ("chat", "whole"), *((sdk, "stream") for sdk in ("responses", "messages", "gemini", *AI_SDK))],
)
async def test_an_sdk_for_node_hears_the_provider(tmp_path: Path, sdk: str, way: str) -> None:
    done = await speak(tmp_path, sdk, way)
    assert done.json == {"text": ANSWER}
    (turn,) = done.turns()
    assert (turn["completion_status"], said(turn)) == ("complete", ANSWER)


@pytest.mark.parametrize(
    ("sdk", "status"),
    [*product(("chat", "messages"), (429, 500)), *(("ai-responses", 429), ("ai-chat", 500), ("ai-messages", 500))],
)
async def test_an_sdk_for_node_hears_what_the_provider_refuses(tmp_path: Path, sdk: str, status: int) -> None:
    async def refuses(_: Asked, answer: Answering) -> None:
        await answer.whole({"type": "error", "error": {"type": "overloaded", "message": "not now"}}, status)

    done = await speak(tmp_path, sdk, "stream", refuses)
    assert (done.json["status"], "not now" in done.json["problem"]) == (status, True)
    (turn,) = done.turns()
    assert turn["completion_status"] == "interrupted"
    assert "not now" in json.dumps(turn["messages"])


@pytest.mark.parametrize("sdk", ["chat", "ai-chat"])
async def test_an_sdk_that_is_told_to_stop_stops_the_provider(tmp_path: Path, sdk: str) -> None:
    gone = asyncio.Event()

    async def goes_on(asked: Asked, answer: Answering) -> None:
        await answer.head(kind="text/event-stream")
        await answer.chunk(f"data: {json.dumps(chat_chunks('It')[0])}\n\n".encode())
        await asyncio.wait_for(asked.gone.wait(), WITHIN)
        gone.set()

    done = await speak(tmp_path, sdk, "abort", goes_on)
    assert done.json == {"text": "It"}
    assert gone.is_set()
    (turn,) = done.turns()
    assert turn["interruption"]["reason"] == "user_cancelled"


CALLS = {"/chat/completions": chat_call, "/responses": response_call, "/v1/messages": message_call}
CITIES = ("Paris", "Rome")


async def in_steps(asked: Asked, answer: Answering) -> None:
    """Ask for the weather of one city after the other, then answer."""
    path = asked.line.split()[1]
    answered = asked.body.decode().count("It is sunny in ")
    if answered == len(CITIES):
        await speaks(asked, answer)
        return
    city = CITIES[answered]
    call = next(call for end, call in CALLS.items() if path.endswith(end))
    await answer.stream(*call(f"call_{city}", "weather", json.dumps({"city": city})), done=path.endswith("completions"))


@pytest.mark.parametrize("sdk", AI_SDK)
async def test_steps_of_the_ai_sdk_are_runs_of_one_conversation(tmp_path: Path, sdk: str) -> None:
    done = await speak(tmp_path, sdk, "steps", in_steps)
    steps = done.json["steps"]
    assert (done.json["text"], len(steps)) == (ANSWER, len(CITIES) + 1)
    turns, first = done.turns(), [record for record in spooled(done.settings) if "run" in record]
    assert len({record["thread_id"] for record in first}) == 1
    assert [record["run"].get("continues") for record in first] == [None, *(record["run_id"] for record in first[:-1])]
    assert [turn["completion_status"] for turn in turns] == ["complete"] * len(steps)
    for number, (turn, step) in enumerate(zip(turns, steps, strict=True)):
        parts = [part for message in turn["messages"] for part in message.get("parts", ())]
        called = [part for part in parts if part["part_kind"] == "tool-call"]
        assert [[part["tool_name"], part["tool_call_id"], part["args"]] for part in called] == step["calls"]
        given = [[part["tool_call_id"], part["content"]] for part in parts if part["part_kind"] == "tool-return"]
        assert given == (steps[number - 1]["results"] if number else [])
        assert said(turn) == step["text"]
        if sdk != "ai-chat":  # its stream names no tokens, unless it is asked to
            used = turn["total_usage"]
            assert [used["input_tokens"], used["output_tokens"]] == step["tokens"]


@pytest.mark.parametrize("sdk", ["chat", *AI_SDK])
async def test_an_sdk_sees_an_answer_that_breaks_off_as_broken(tmp_path: Path, sdk: str) -> None:
    first = {
        "ai-responses": response_events("It")[:4],
        "chat": chat_chunks("It")[:1],
        "ai-chat": chat_chunks("It")[:1],
        "ai-messages": message_events("It")[:3],
    }

    async def breaks(_: Asked, answer: Answering) -> None:
        await answer.head(kind="text/event-stream")
        for event in first[sdk]:
            await answer.chunk(f"data: {json.dumps(event)}\n\n".encode())
        await asyncio.sleep(0.2)
        answer.reset()

    done = await speak(tmp_path, sdk, "stream", breaks)
    assert "problem" in done.json
    (turn,) = done.turns()
    assert turn["completion_status"] == "interrupted"
    assert "It" in json.dumps([turn["messages"], turn.get("meta:partial")])


async def test_another_attempt_of_the_ai_sdk_is_the_same_run(tmp_path: Path) -> None:
    attempts = []

    async def first_refuses(asked: Asked, answer: Answering) -> None:
        attempts.append(asked)
        if len(attempts) == 1:
            await answer.whole({"error": {"message": "not now"}}, 429, retry_after="0")
        else:
            await answer.whole(chat_answer(ANSWER))

    done = await speak(tmp_path, "ai-chat", "again", first_refuses)
    assert done.json == {"text": ANSWER}
    (turn,) = done.turns()
    assert (turn["completion_status"], said(turn)) == ("complete", ANSWER)
    assert "not now" in json.dumps(turn["messages"])


async def test_an_sdk_understands_a_problem_of_the_gateways_own(tmp_path: Path) -> None:
    async def hangs_up(_: Asked, answer: Answering) -> None:
        answer.reset()

    done = await speak(tmp_path, "chat", "stream", hangs_up)
    assert done.json["status"] == 502
    assert "closed the connection" in done.json["problem"]


async def test_claude_code_speaks_through_the_proxy(tmp_path: Path) -> None:
    program = claude_code()
    quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
    async with proxy(tmp_path, speaks) as (url, settings):
        out = await run(tmp_path, url, program, "-p", "What's the weather?", "--model", "claude-x", **quiet)
    done = Done(out, settings)
    assert ANSWER in done.out
    turns = [turn for turn in done.turns() if said(turn) == ANSWER]
    assert turns
    assert {turn["completion_status"] for turn in turns} == {"complete"}


async def test_codex_speaks_through_the_proxy(tmp_path: Path) -> None:
    async with proxy(tmp_path, speaks) as (url, settings):
        provider = f'{{name="proxy",base_url="{url}/proxy/openai/v1",env_key="OPENAI_API_KEY",wire_api="responses"}}'
        out = await run(
            tmp_path,
            url,
            codex(),
            "exec",
            "--skip-git-repo-check",
            *("-c", 'model_provider="proxy"', "-c", f"model_providers.proxy={provider}", "-c", 'model="gpt-5"'),
            "What's the weather?",
        )
    done = Done(out, settings)
    assert ANSWER in done.out
    assert ANSWER in [said(turn) for turn in done.turns()]


async def test_what_codex_sends_compressed_is_read(tmp_path: Path) -> None:
    """It does so for who has logged in with ChatGPT."""
    encodings = []

    async def noted(asked: Asked, answer: Answering) -> None:
        encodings.append(asked.headers.get("content-encoding"))
        await speaks(asked, answer)

    log_in(tmp_path / ".codex")
    async with proxy(tmp_path, noted) as (url, settings):
        provider = f'{{name="OpenAI",base_url="{url}/proxy/openai/v1",requires_openai_auth=true,wire_api="responses"}}'
        out = await run(
            tmp_path,
            url,
            codex(),
            "exec",
            "--skip-git-repo-check",
            *("--enable", "enable_request_compression", "-c", 'model_provider="proxy"', "-c", 'model="gpt-5"'),
            *("-c", f"model_providers.proxy={provider}"),
            "What's the weather?",
            OPENAI_API_KEY="",
            HTTPS_PROXY="http://127.0.0.1:9",  # it asks ChatGPT's own servers for news
            NO_PROXY="127.0.0.1",
        )
    assert ANSWER in out
    assert encodings[-1] == "zstd"
    (first, *_) = spooled(settings)
    assert "What's the weather?" in json.dumps(first["events"][0])
    assert ANSWER in [said(turn) for turn in Done(out, settings).turns()]


def log_in(home: Path) -> None:
    """As Codex keeps a login with ChatGPT; no account has its tokens."""
    account = {"chatgpt_plan_type": "pro", "chatgpt_account_id": "account", "chatgpt_user_id": "user"}
    claims = {"email": "a@example.com", "exp": 4_102_444_800, "https://api.openai.com/auth": account}
    parts = (json.dumps(part).encode() for part in ({"alg": "none", "typ": "JWT"}, claims, {}))
    token = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
    tokens = {"id_token": token, "access_token": token, "refresh_token": "none", "account_id": "account"}
    login = {"auth_mode": "chatgpt", "tokens": tokens, "last_refresh": datetime.now(UTC).isoformat()}
    home.mkdir()
    (home / "auth.json").write_text(json.dumps(login))


async def test_curl_speaks_through_the_proxy(tmp_path: Path) -> None:
    body = json.dumps({"model": "gpt-5", "stream": True, "messages": [{"role": "user", "content": "Weather?"}]})
    async with proxy(tmp_path, speaks) as (url, settings):
        path = f"{url}/proxy/openai/v1/chat/completions"
        head = ("-H", f"Authorization: Bearer {KEY}", "-H", "Content-Type: application/json")
        out = await run(tmp_path, url, "curl", "-sN", path, *head, "-d", body)
    assert out.endswith("data: [DONE]\n\n")
    (turn,) = Done(out, settings).turns()
    assert said(turn) == ANSWER
