"""SDKs of models' APIs, unchanged, under `turnmill run` and before the proxy: two calls are one thread.

Part of `make test-sdks`; no broker is needed, since what can't be sent is in the spool.
"""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from pipeline.settings import Settings
from tests.sdks.proxied import said
from tests.sdks.python_sdks import HERE, environment
from tests.sdks.recordings import by_run
from tests.sdks.scripted import CACHED, CASES, FORECAST, PARIS, QUESTION, READ, ROME
from tests.sdks.wire_answers import answer_of
from tests.support.gateways import running
from tests.support.places import ROOT
from tests.support.spools import away
from tests.support.upstream import Answering, Asked, playing
from tests.support.workers import environment as variables

MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
SECRET = "very-secret-key-0123456789"
WAYS = ("stream", "whole")
SDKS = {  # -> the provider, the model, and the wire
    "converse": ("bedrock", MODEL, "bedrock"),
    "invoke": ("bedrock", MODEL, "bedrock"),
    "ollama": ("ollama", "scripted-1", "ollama"),
    "cohere": ("cohere", "command-a-03-2025", "cohere"),
    "mistral": ("mistral", "mistral-medium-2505", "mistral"),
    "interactions": ("google", "gemini-2.5-flash", "gemini-interactions"),
}
KEYS = {
    "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_SESSION_TOKEN": SECRET,
    "CO_API_KEY": SECRET,
}


async def plays(asked: Asked, answer: Answering) -> None:
    """Answer the first request with two calls, and the second, which has their results, with the forecast."""
    path = asked.line.split()[1].partition("?")[0]
    number = "It rains in Rome." in asked.body.decode()
    kind, data = answer_of(path, asked.json, CASES["tools"][number], number)
    await answer.head(kind=kind)
    for at in range(0, len(data), 97):
        await answer.chunk(data[at : at + 97])
    await answer.chunk(b"")


async def ran(command: list[str | Path], more: dict[str, str]) -> Any:
    process = await asyncio.create_subprocess_exec(*command, env={**os.environ, **KEYS, **more}, stdout=-1, stderr=-1)
    out, problems = await asyncio.wait_for(process.communicate(), 120)
    assert process.returncode == 0, problems.decode()
    return json.loads(out.splitlines()[-1])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sdk", SDKS)
async def test_two_calls_are_one_thread(tmp_path: Path, sdk: str, way: str) -> None:
    settings = away(tmp_path, capture_hosts=f"127.0.0.1={SDKS[sdk][0]}")
    python = environment("model-wires")
    async with playing(plays) as upstream:
        program = [python, HERE / "wires_program.py", sdk, way, upstream.url]
        more = {**variables(settings), "PYTHONPATH": str(ROOT)}
        alone = await ran(program, more)
        heard = await ran([python, "-m", "turnmill", "run", "--", *program], more)
    assert alone == heard
    check(settings, sdk, heard)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sdk", SDKS)
async def test_through_the_gateways_proxy(tmp_path: Path, sdk: str, way: str) -> None:
    """The scripted server checks no signature: Bedrock itself would refuse these, made for the gateway's address."""
    provider, *_ = SDKS[sdk]
    async with playing(plays) as upstream:
        settings = away(tmp_path).model_copy(update={"gateway_port": 0, "gateway_proxy": f"{provider}={upstream.url}"})
        async with running(settings) as gateway:
            address = f"{gateway.url}/proxy/{provider}"
            program = [environment("model-wires"), HERE / "wires_program.py", sdk, way, address]
            heard = await ran(program, {})
    check(settings, sdk, heard)


def check(settings: Settings, sdk: str, heard: Any) -> None:
    """Both calls are in one thread, with the words, calls, results and tokens, and what was asked of which model."""
    provider, model, wire = SDKS[sdk]
    first, second = by_run(settings).values()
    assert SECRET not in json.dumps([first, second])
    assert {first[0]["dialect"], second[0]["dialect"]} == {wire}
    assert first[0]["thread_id"] == second[0]["thread_id"]
    assert "continues" not in first[0]["run"]
    assert second[0]["run"]["continues"] == first[0]["run_id"]
    assert [run[-1]["end"] for run in (first, second)] == ["complete", "complete"]
    for run in (first, second):
        assert (run[0]["run"]["provider_name"], run[0]["run"].get("model_name", model)) == (provider, model)
    calls, forecast = (agent_turn(run) for run in (first, second))
    words = "" if sdk == "cohere" else "Let me look. "
    assert [words, FORECAST] == [said(calls), said(forecast)] == [text for text, _ in heard]
    made = [
        part for message in calls["messages"] for part in message.get("parts", ()) if part["part_kind"] == "tool-call"
    ]
    given = [
        part
        for message in forecast["messages"]
        for part in message.get("parts", ())
        if part["part_kind"] == "tool-return"
    ]
    ids = [part["tool_call_id"] for part in made]
    assert [(part["tool_name"], args(part)) for part in made] == [("weather", call.arguments) for call in (PARIS, ROME)]
    assert [part["tool_call_id"] for part in given] == ids
    assert [(part["tool_name"], part["content"]) for part in given] == [
        ("weather", f"It rains in {call.city}.") for call in (PARIS, ROME)
    ]
    assert sdk == "ollama" or ids == [PARIS.id, ROME.id]
    for turn, answer in zip((calls, forecast), CASES["tools"], strict=True):
        (response,) = [message for message in turn["messages"] if message["message_type"] == "response"]
        assert (response["provider_name"], response["model_name"]) == (provider, model)
        used = turn["total_usage"]
        assert (used["input_tokens"], used["output_tokens"]) == (READ, answer.said)
        assert used.get("cache_read_tokens", 0) == (0 if sdk in ("ollama", "mistral") else CACHED)


def args(part: dict[str, Any]) -> Any:
    return json.loads(part["args"]) if isinstance(part["args"], str) else part["args"]


def agent_turn(run: list[dict[str, Any]]) -> dict[str, Any]:
    records, refused = assemble(DIALECTS[run[0]["dialect"]], run)
    assert refused == []
    if "continues" not in run[0]["run"]:
        assert QUESTION in json.dumps(records[0]["turn"], ensure_ascii=False)
    turn: dict[str, Any] = records[-1]["turn"]
    assert turn["completion_status"] == "complete"
    return turn
