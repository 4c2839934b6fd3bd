"""Sessions that agents' programs have written: an import has what is in them, with nothing twice."""

import asyncio
import json
from base64 import b64decode
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pipeline.cli.histories.sessions import Printed
from pipeline.dialects import FORMATS
from pipeline.turns.branches import one_branch
from tests.sdks.proxied import (
    ANSWER,
    claude_code,
    clients,
    codex,
    gemini,
    opencode,
    said,
    speaks,
    with_gemini,
    with_opencode,
)
from tests.sdks.proxied import run as run_program
from tests.sdks.python_sdks import run
from tests.support.read_sessions import import_all
from tests.support.sessions import PIXEL, Claude, named, write
from tests.support.upstream import (
    Answering,
    Asked,
    chat_call,
    chat_chunks,
    gemini_events,
    message_call,
    playing,
    response_call,
)
from turnmill.identity import thread_uuid

SDK = "claude-agent-sdk"
QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}


def session() -> tuple[Claude, dict[str, Any]]:
    """A session with thoughts, pictures, calls side by side, a sub-agent, and an edit of its second prompt."""
    claude = Claude("one")
    claude.ask([{"type": "text", "text": "Which oven is this?"}, PICTURE])
    claude.add("progress", data={"type": "hook_progress"})
    thought = {"type": "thinking", "thinking": "Two places to look", "signature": "c2ln"}
    calls = [{"type": "tool_use", "id": f"t{n}", "name": "Task", "input": {"prompt": f"Place {n}"}} for n in (1, 2)]
    claude.say(thought, "I look.", calls[0], stop=None)
    first = claude.lines[-1]
    assert isinstance(first, dict)
    claude.say(calls[1], stop="tool_use")
    for line in claude.lines[-1:]:  # both calls are of one message
        assert isinstance(line, dict)
        line["message"]["id"] = first["message"]["id"]
        line["requestId"] = first["requestId"]
    claude.result("t1", "An oven", parentUuid=first["uuid"])
    claude.result("t2", [PICTURE])
    heard = claude.say("It is this one.")
    claude.add("system", subtype="turn_duration", durationMs=5)
    claude.ask("Heat it to 100 degrees")
    claude.say("It is at 100.")
    claude.last = heard["uuid"]
    claude.ask("Heat it to 200 degrees")
    claude.call("t3")
    claude.result("t3")
    claude.say("It is at 200.")
    claude.lines.append({"type": "ai-title", "aiTitle": "An oven", "sessionId": claude.session})
    return claude, heard


def imported(home: Path, source: str = "claude-code") -> dict[str, dict[str, Any]]:
    printed = Printed()
    with ThreadPoolExecutor(1) as pool:
        counts = pool.submit(asyncio.run, import_all(home, source, printed)).result()
    assert counts.broken == []
    return {document["thread_id"]: document for document in printed.documents()}


def blocks(messages: Iterable[dict[str, Any]]) -> list[Any]:
    """What was said, in order, whatever messages it is cut into; blocks without what only marks them."""
    found: list[Any] = []
    for message in messages:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            told = {key: value for key, value in block.items() if key not in ("cache_control", "is_error")}
            if isinstance(told.get("content"), str):
                told["content"] = [{"type": "text", "text": told["content"]}]
            found.append((message["role"], told))
    return found


def test_an_import_has_what_the_sdk_reads(tmp_path: Path) -> None:
    claude, heard = session()
    claude.write(tmp_path)
    child = claude.agent("a1")
    child.ask("Place 1")
    child.say("An oven")
    write(child.agent_file(tmp_path), child.lines)
    variables = {"CLAUDE_CONFIG_DIR": str(tmp_path)}
    fork = run(SDK, "session_reader.py", "fork", claude.session, heard["uuid"], "Bread", variables=variables)
    path = next(tmp_path.rglob(f"{fork}.jsonl"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    more = Claude("more", sessionId=fork)
    more.last = next(line["uuid"] for line in reversed(lines) if line["type"] == "assistant")
    baked = more.ask("Bake bread")
    more.say("Baked.")
    write(path, more.lines, "a")

    read = run(SDK, "session_reader.py", "read", variables=variables)
    assert read.keys() == {claude.session, fork}
    threads = imported(tmp_path)
    agent, _ = thread_uuid(f"{claude.session}/a1")
    assert threads.keys() == {claude.session, agent}, "a fork is a branch of its origin"
    write_messages = FORMATS["anthropic"].write
    main, document = read[claude.session], threads[claude.session]
    edited = next(turn for turn in reversed(document["turns"]) if turn["meta:run_id"] != baked["uuid"])
    assert blocks(write_messages(one_branch(document, edited["meta:run_id"]))) == blocks(main["messages"])
    assert blocks(write_messages(one_branch(document, baked["uuid"]))) == blocks(read[fork]["messages"])
    assert blocks(write_messages(threads[agent])) == blocks(main["agents"]["a1"])
    assert document["metadata"]["cwd"] == main["cwd"]
    assert document["metadata"]["git_branch"] == main["branch"]
    assert (main["title"], read[fork]["title"]) == ("An oven", "Bread")
    assert document["title"] in ("An oven", "Bread")


def called(call: str, tool: str, given: dict[str, str]) -> list[dict[str, Any]]:
    """A call of a tool, in a message of its own id, as the API has it."""
    start, *rest = message_call(call, tool, json.dumps(given))
    return [{**start, "message": {**start["message"], "id": f"msg_{call}"}}, *rest]


async def with_tools(asked: Asked, answer: Answering) -> None:
    """Have a command run, or a sub-agent work, before the answer."""
    path, body = asked.line.split()[1].partition("?")[0], asked.body.decode("utf-8", "replace")
    if path.endswith("/v1/messages") and "run a command" in body and "hi-there" not in body and '"tools"' in body:
        await answer.stream(*called("toolu_1", "Bash", {"command": "echo hi-$(echo there)"}))
    elif path.endswith("/v1/messages") and "ask an agent" in body and "the sub-task" not in body:
        given = {"description": "it", "prompt": "do the sub-task", "subagent_type": "general-purpose"}
        await answer.stream(*called("toolu_2", "Task", given))
    elif path.endswith("/responses") and "run a command" in body and "function_call_output" not in body:
        await answer.stream(*response_call("c1", "exec_command", json.dumps({"cmd": "echo hi-there"})))
    elif path.endswith(":streamGenerateContent") and "run a command" in body and "functionResponse" not in body:
        await answer.stream(gemini_call("c1", "list_directory", {"dir_path": "."}))
    elif path.endswith("/chat/completions") and '"tools"' in body and '"role":"tool"' not in body:
        tool = "task" if "ask an agent" in body else "bash"
        given = {
            "description": "it",
            "prompt": "do the sub-task",
            "subagent_type": "general",
            "command": "echo hi-there",
        }
        asks = tool == "task" or "run a command" in body
        await answer.stream(*(chat_call("c1", tool, json.dumps(given)) if asks else chat_chunks(ANSWER)), done=True)
    else:
        await speaks(asked, answer)


def gemini_call(call: str, tool: str, given: dict[str, str]) -> dict[str, Any]:
    (whole,) = gemini_events("I look.")
    (candidate,) = whole["candidates"]
    asked = {"functionCall": {"id": call, "name": tool, "args": given}}
    said = [{"text": "**Where**\nIn the folder", "thought": True}, *candidate["content"]["parts"], asked]
    return {**whole, "candidates": [{**candidate, "content": {"role": "model", "parts": said}}]}


async def test_sessions_that_claude_code_has_written(tmp_path: Path) -> None:
    program = claude_code()
    asked = ("--model", "claude-x", "--allowedTools", "Bash,Task")
    async with playing(with_tools) as upstream:
        more = {"ANTHROPIC_BASE_URL": upstream.url, **QUIET}
        await run_program(tmp_path, upstream.url, program, "-p", "run a command", *asked, **more)
        await run_program(tmp_path, upstream.url, program, "-p", "And again?", *asked, "--continue", **more)
        forked = ("--continue", "--fork-session")
        await run_program(tmp_path, upstream.url, program, "-p", "ask an agent", *asked, *forked, **more)
    home = tmp_path / ".claude"
    read = run(SDK, "session_reader.py", "read", variables={"CLAUDE_CONFIG_DIR": str(home)})
    threads = imported(home)
    assert len(read) == 2
    main = next(document for name, document in threads.items() if name in read)
    fork = next(found for name, found in read.items() if name not in threads)
    assert len(threads) == 2, "of the session and of the sub-agent: the fork is a branch"
    assert blocks(FORMATS["anthropic"].write(one_branch(main))) == blocks(fork["messages"])
    spoken = [turn for turn in main["turns"] if turn["turn_type"] == "agent"]
    assert [said(turn) for turn in spoken] == [ANSWER] * 3
    assert {turn["completion_status"] for turn in spoken} == {"complete"}
    assert [turn["total_usage"]["output_tokens"] for turn in spoken] == [2, 1, 2]
    (agent,) = (document for name, document in threads.items() if name not in read)
    assert [link["thread_id"] for link in agent["relationships"]["links"]], "it names the session"
    assert said(agent["turns"][1]) == ANSWER


async def test_sessions_that_codex_has_written(tmp_path: Path) -> None:
    async with playing(with_tools) as upstream:
        provider = f'{{name="x",base_url="{upstream.url}/v1",env_key="OPENAI_API_KEY",wire_api="responses"}}'
        settings = ("--skip-git-repo-check", "-c", 'model_provider="x"', "-c", f"model_providers.x={provider}")
        settings = (*settings, "-c", 'model="gpt-5"')
        free = "--dangerously-bypass-approvals-and-sandbox"
        await run_program(tmp_path, upstream.url, codex(), "exec", *settings, free, "run a command")
        await run_program(tmp_path, upstream.url, codex(), "exec", "resume", "--last", *settings, "And again?")
    (document,) = imported(tmp_path / ".codex" / "sessions", "codex").values()
    first, second = [turn for turn in document["turns"] if turn["turn_type"] == "agent"]
    assert [turn["parts"][0]["content"] for turn in document["turns"] if turn["turn_type"] == "user"] == [
        "run a command",
        "And again?",
    ]
    assert [(said(turn), turn["completion_status"]) for turn in (first, second)] == [(ANSWER, "complete")] * 2
    assert [turn["total_usage"]["total_tokens"] for turn in (first, second)] == [22, 11]
    results = [part for m in first["messages"] for part in m.get("parts", ()) if part["part_kind"] == "tool-return"]
    assert "hi-there" in results[0]["content"]


async def test_sessions_that_gemini_cli_has_written(tmp_path: Path) -> None:
    program = gemini()
    asked = ("-m", "gemini-2.5-flash", "-p")
    async with playing(with_tools) as upstream:
        more = {**with_gemini(tmp_path, upstream.url), "GEMINI_CLI_TRUST_WORKSPACE": "true"}
        await run_program(tmp_path, upstream.url, program, *asked, "run a command", **more)
        await run_program(tmp_path, upstream.url, program, "--resume", "latest", *asked, "And again?", **more)
    (document,) = imported(tmp_path / ".gemini" / "tmp", "gemini-cli").values()
    first, second = [turn for turn in document["turns"] if turn["turn_type"] == "agent"]
    assert [turn["parts"][0]["content"] for turn in document["turns"] if turn["turn_type"] == "user"] == [
        "run a command",
        "And again?",
    ]
    assert [(said(turn), turn["completion_status"]) for turn in (first, second)] == [
        (f"I look.{ANSWER}", "complete"),
        (ANSWER, "complete"),
    ]
    kinds = [part["part_kind"] for message in first["messages"] for part in message.get("parts", ())]
    assert kinds == ["thinking", "text", "tool-call", "tool-return", "text"]
    (answer,) = gemini_events(ANSWER)
    total = answer["usageMetadata"]["totalTokenCount"]
    assert [turn["total_usage"]["total_tokens"] for turn in (first, second)] == [2 * total, total]


async def with_copilots_tools(asked: Asked, answer: Answering) -> None:
    """The same for Copilot CLI, with usage."""
    path, body = asked.line.split()[1].partition("?")[0], asked.body.decode("utf-8", "replace")
    if not path.endswith("/chat/completions"):
        await speaks(asked, answer)
        return
    chunks = chat_chunks(ANSWER)
    if "run a command" in body and "hi-there" not in body:
        chunks = chat_call("c1", "bash", json.dumps({"command": "echo hi-$(echo there)", "description": "it"}))
    elif "ask an agent" in body and "the sub-task" not in body:
        given = {"description": "it", "prompt": "do the sub-task", "agent_type": "general-purpose", "name": "one"}
        chunks = chat_call("c2", "task", json.dumps(given))
    counts = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
    await answer.stream(*chunks, {**chunks[-1], "choices": [], "usage": counts}, done=True)


async def test_sessions_that_copilot_cli_has_written(tmp_path: Path) -> None:
    program = clients() / "node_modules" / ".bin" / "copilot"
    (tmp_path / "pixel.png").write_bytes(b64decode(PIXEL))
    async with playing(with_copilots_tools) as upstream:
        more = {"COPILOT_PROVIDER_BASE_URL": f"{upstream.url}/v1", "COPILOT_MODEL": "gpt-5", "COPILOT_OFFLINE": "true"}
        asked = ("--session-id", named("one"), "--allow-all", "-p")
        await run_program(tmp_path, upstream.url, program, *asked, "run a command", **more)
        await run_program(tmp_path, upstream.url, program, *asked, "And this?", "--attachment", "pixel.png", **more)
        await run_program(tmp_path, upstream.url, program, *asked, "ask an agent", **more)
    documents = imported(tmp_path / ".copilot" / "session-state", "copilot-cli")
    main = documents.pop(named("one"))
    assert (main["title"], main["metadata"]["cwd"]) == ("run a command", str(tmp_path))
    words = [turn["parts"][0]["content"] for turn in main["turns"] if turn["turn_type"] == "user"]
    assert (words[0], words[2]) == ("run a command", "ask an agent")
    assert (words[1][0], words[1][1]["media_type"]) == ("And this?", "image/png")
    spoken = [turn for turn in main["turns"] if turn["turn_type"] == "agent"]
    assert [(said(turn), turn["completion_status"]) for turn in spoken] == [(ANSWER, "complete")] * 3
    assert [turn["total_usage"]["input_tokens"] for turn in spoken] == [18, 9, 18]
    results = [part for m in spoken[0]["messages"] for part in m.get("parts", ()) if part["part_kind"] == "tool-return"]
    assert "hi-there" in results[0]["content"]
    (agent,) = documents.values()
    assert [link["thread_id"] for link in agent["relationships"]["links"]] == [named("one")]
    assert [turn["turn_type"] for turn in agent["turns"]] == ["user", "agent"]
    assert (said(agent["turns"][1]), agent["turns"][1]["total_usage"]["output_tokens"]) == (ANSWER, 2)


async def test_sessions_that_opencode_has_written(tmp_path: Path) -> None:
    program = opencode()
    asked = ("run", "--model", "x/gpt-5")
    async with playing(with_tools) as upstream:
        more = with_opencode(upstream.url)
        await run_program(tmp_path, upstream.url, program, *asked, "run a command", **more)
        await run_program(tmp_path, upstream.url, program, *asked, "--continue", "And again?", **more)
        await run_program(tmp_path, upstream.url, program, *asked, "--continue", "--fork", "And in a fork?", **more)
        await run_program(tmp_path, upstream.url, program, *asked, "ask an agent", **more)
    place = tmp_path / ".local" / "share" / "opencode"
    before = (place / "opencode.db").read_bytes()
    main, spawning, agent = imported(place, "opencode").values()
    assert (place / "opencode.db").read_bytes() == before
    prompts = [turn["parts"][0]["content"].strip('"') for turn in main["turns"] if turn["turn_type"] == "user"]
    assert prompts == ["run a command", "And again?", "And in a fork?"]
    spoken = [turn for turn in main["turns"] if turn["turn_type"] == "agent"]
    assert [(said(turn), turn["completion_status"]) for turn in spoken] == [(ANSWER, "complete")] * 3
    kinds = [part["part_kind"] for message in spoken[0]["messages"] for part in message.get("parts", ())]
    assert kinds == ["tool-call", "tool-return", "text"]
    assert "hi-there" in str(spoken[0]["messages"][1])
    assert said(spawning["turns"][1]) == ANSWER
    assert [link["thread_id"] for link in agent["relationships"]["links"]] == [spawning["thread_id"]]
    assert said(agent["turns"][1]) == ANSWER
