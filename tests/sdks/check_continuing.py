"""Conversations that servers keep, and answers in several calls: each is one thread, equal to the SDK's own history.

The real packages (anthropic 2.14, google-genai 3.6.1, @anthropic-ai/sdk 1.14, @ai-sdk/google 4.0.121, Claude Code) are
captured in their process and by the gateway's proxy, before a scripted provider. Part of `make test-sdks`; no broker is
needed.
"""

import asyncio
import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS, FORMATS
from pipeline.settings import Settings
from pipeline.turns.branches import one_branch
from pipeline.turns.thread_document import thread_document
from tests.sdks.keeping_provider import KeepingProvider
from tests.sdks.proxied import KEY, WITHIN, proxy, run
from tests.sdks.python_sdks import HERE, environment
from tests.sdks.recordings import by_run
from tests.support import npm
from tests.support.places import ROOT
from tests.support.spools import away
from tests.support.upstream import playing
from tests.support.workers import environment as variables
from topics.turn_record import TurnRecord

Fields = dict[str, Any]


async def test_python_sdks_captured_in_their_process(tmp_path: Path) -> None:
    provider = KeepingProvider()
    settings = away(tmp_path, capture_hosts="127.0.0.1=test")
    python = environment("continuing")
    async with playing(provider.play) as upstream:
        program = (str(python), str(HERE / "continuing_program.py"), upstream.url)
        process = await asyncio.create_subprocess_exec(
            *(str(python), "-m", "turnmill", "run", "--", *program),
            env={**variables(settings), "PYTHONPATH": str(ROOT)},
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await asyncio.wait_for(process.communicate(), 4 * WITHIN)
    assert process.returncode == 0
    histories = json.loads(out.decode().splitlines()[-1])
    documents = threads(settings)
    assert documents.keys() == {plain(history)[0][1] for history in histories.values()}, "a thread for each of them"
    for name, history in histories.items():
        said = plain(history)
        assert told(documents[said[0][1]]) == said, name
        if name.endswith("runner"):
            check_tools(documents[said[0][1]])
        if name.endswith("chat"):
            check_answers(documents[said[0][1]])
    assert sum("continuationToken" in body for body in provider.asked) == 6
    assert sum((body.get("thread") or {}).get("type") == "continue" for body in provider.asked) > 10


@pytest.mark.parametrize("case", ["tool runner", "broken thread", "ai sdk"])
async def test_javascript_sdks_behind_the_proxy(tmp_path: Path, case: str) -> None:
    provider = KeepingProvider()
    home = npm.installed(HERE / "continuing", "sdks/continuing-node")
    async with proxy(tmp_path, provider.play) as (url, settings):
        out = await run(tmp_path, url, "node", home / "continue.mjs", case)
    said = plain(json.loads(out.splitlines()[-1]))
    (document,) = threads(settings).values()
    assert told(document) == said
    if case == "tool runner":
        check_tools(document)
    if case == "ai sdk":
        check_answers(document)
    continued = [body for body in provider.asked if "continuationToken" in body or "previous_message_id" in str(body)]
    assert continued


async def test_claude_code_behind_the_proxy(tmp_path: Path) -> None:
    """The prompts are the user's words, and what it asks on its own is beside the conversation."""
    provider = KeepingProvider()
    program = next(
        environment("claude-agent-sdk").parents[1].glob("lib/*/site-packages/claude_agent_sdk/_bundled/claude")
    )
    options = (
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
        "--model",
        "claude-opus-4-8",
    )
    said = ["One", "Two", "Three"]
    async with proxy(tmp_path, provider.play) as (url, settings):
        process = await asyncio.create_subprocess_exec(
            *(program, "-p", *options),
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "ANTHROPIC_BASE_URL": f"{url}/proxy/anthropic",
                "ANTHROPIC_API_KEY": KEY,
                "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "1",
                "DISABLE_AUTOUPDATER": "1",
            },
            cwd=tmp_path,
            stdin=-1,
            stdout=-1,
            limit=2**24,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        begin = {"subtype": "initialize", "promptSuggestions": True}
        await _tell(process.stdin, {"type": "control_request", "request_id": "1", "request": begin})
        for number, words in enumerate(said):
            message = {"role": "user", "content": words}
            await _tell(process.stdin, {"type": "user", "message": message, "parent_tool_use_id": None})
            await asyncio.wait_for(_until(process.stdout, "prompt_suggestion" if number else "result"), WITHIN)
        process.stdin.close()
        await asyncio.wait_for(process.communicate(), WITHIN)
    (document,) = threads(settings).values()
    turns = document["turns"]
    assert [part["content"] for turn in turns if turn["turn_type"] == "user" for part in turn["parts"]] == said
    assert [role for role, _ in told(document)] == ["user", "assistant"] * len(said)
    assert [answer.endswith(words) for (_, answer), words in zip(told(document)[1::2], said, strict=True)] == [True] * 3
    purposes = [message.get("meta:purpose") for turn in turns for message in turn.get("messages", ())]
    assert purposes.count("suggestion") == len(said) - 1


async def _tell(stdin: asyncio.StreamWriter, value: Fields) -> None:
    stdin.write(json.dumps(value).encode() + b"\n")
    await stdin.drain()


async def _until(stdout: asyncio.StreamReader, kind: str) -> None:
    async for line in stdout:
        if json.loads(line).get("type") == kind:
            return


def threads(settings: Settings) -> dict[str, Fields]:
    """The newest branch of each thread, by its first words."""
    records: dict[str, list[TurnRecord]] = defaultdict(list)
    for found in by_run(settings).values():
        turns, refused = assemble(DIALECTS[found[0]["dialect"]], found, keep_requests=True)
        assert refused == []
        records[found[0]["thread_id"]] += turns
    documents = [one_branch(thread_document(name, turns)) for name, turns in records.items()]
    named = {told(document)[0][1]: document for document in documents}
    assert len(named) == len(documents)
    return named


def told(document: Fields) -> list[list[str]]:
    return plain(FORMATS["anthropic"].write(document))


def plain(messages: list[Fields]) -> list[list[str]]:
    """Roles with their texts, calls and results; messages of one role in a row are one, as the API takes them."""
    joined: list[list[str]] = []
    for message in messages:
        role = {"model": "assistant"}.get(message["role"], message["role"])
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        said = "".join(_plain(block) for block in blocks)
        if joined and joined[-1][0] == role:
            joined[-1][1] += said
        else:
            joined.append([role, said])
    return joined


def _plain(block: Fields) -> str:
    match block["type"]:
        case "text":
            return str(block["text"])
        case "tool_use":
            return json.dumps([block["id"], block["name"], block["input"]])
    content = block["content"]
    text = content if isinstance(content, str) else "".join(each["text"] for each in content)
    return json.dumps([block["tool_use_id"], text])


def check_tools(document: Fields) -> None:
    """The result has the name of its call, which an earlier request had; the thread's prompt is every call's."""
    parts = [part for turn in document["turns"] for each in turn.get("messages", ()) for part in each.get("parts", ())]
    assert [part["tool_name"] for part in parts if part["part_kind"] == "tool-return"] == ["weather"]


def check_answers(document: Fields) -> None:
    """An answer is one response, with the tokens of both of its calls."""
    responses = [
        message
        for turn in document["turns"]
        for message in turn.get("messages", ())
        if message["message_type"] == "response"
    ]
    assert [part["content"] for part in responses[0]["parts"]] == ["One, two, three."]
    assert responses[0]["usage"]["total_tokens"] == 55
    assert {turn["completion_status"] for turn in document["turns"] if turn["turn_type"] == "agent"} == {"complete"}
