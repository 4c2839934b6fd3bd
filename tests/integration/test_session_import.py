"""Sessions of programs, imported through the broker: stored as they are, once, and as they grow."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import read_thread
from pipeline.turns.canonical import turn_hash
from tests.support.sessions import Claude, Codex, Copilot, Opencode, write
from tests.support.upstream import chat_chunks
from tests.support.waiting import PATIENCE
from tests.support.workers import WorkerProcess, environment, wait_until_stored
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid
from turnmill.publish.publisher import Publisher


def variables(settings: Settings, home: Path) -> dict[str, str]:
    """A home folder of its own: nobody's own sessions are read."""
    return environment(
        settings,
        HOME=str(home),
        CLAUDE_CONFIG_DIR=str(home),
        CODEX_HOME=str(home),
        GEMINI_CLI_HOME=str(home),
        COPILOT_HOME=str(home),
        XDG_DATA_HOME=str(home),
    )


async def turnmill(settings: Settings, home: Path, *arguments: str, status: int = 0) -> tuple[str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pipeline", *arguments),
        env=variables(settings, home),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, said = await process.communicate()
    assert process.returncode == status, said.decode()
    return out.decode(), said.decode()


def conversation(began: datetime | None = None) -> tuple[Claude, Claude]:
    claude = Claude("one")
    claude.began = began or claude.began
    claude.ask("Find the oven")
    claude.call("t1", "Task", subagent_type="finder")
    child = claude.agent("a1")
    child.ask("Where is it?")
    child.say("In the kitchen.")
    claude.result("t1", "In the kitchen.")
    heated = claude.say("It is in the kitchen.")
    claude.lines.append({"type": "ai-title", "aiTitle": "The oven", "sessionId": claude.session})
    claude.ask("Bake bread")
    claude.say("Baked.")
    claude.last = heated["uuid"]
    claude.ask("Bake cake")
    claude.call("t2")
    return claude, child


async def threads(settings: Settings, *names: str) -> list[dict[str, Any]]:
    async with await ThreadStore.open(settings.store_url) as store:
        found = [await read_thread(store, ThreadKey(name)) for name in names]
        return [one for one in found if one is not None]


def content(document: dict[str, Any]) -> list[Any]:
    return [(turn_hash(turn), turn.get("total_usage")) for turn in document["turns"]]


async def test_sessions_are_stored_as_they_are_printed_and_once(applied_settings: Settings, tmp_path: Path) -> None:
    settings = applied_settings.model_copy(update={"terminal_grace": 0.2})
    claude, child = conversation()
    claude.write(tmp_path)
    write(child.agent_file(tmp_path), child.lines)
    codex = Codex("two")
    codex.ask("t-1", "List")
    codex.call("c1")
    codex.say("a.txt")
    codex.done("t-1")
    codex.write(tmp_path)
    worker = WorkerProcess(settings).start()
    try:
        _, said = await turnmill(settings, tmp_path, "import", "--from", "claude-code")
        assert "nothing leaves this machine" in said
        assert "Claude Code: 2 files, 4 new runs, 0 stored before" in said
        await turnmill(settings, tmp_path, "import", "--from", "codex")
        await wait_until_stored(settings, 10, [worker])
        _, said = await turnmill(settings, tmp_path, "import", "--from", "claude-code")
        assert "0 new runs, 4 stored before" in said
        printed = [
            json.loads(line)
            for source in ("claude-code", "codex")
            for line in (await turnmill(settings, tmp_path, "import", "--from", source, "--print"))[0].splitlines()
        ]
        stored = await threads(settings, *(one["thread_id"] for one in printed))
        assert len(stored) == 3
        for one, other in zip(stored, printed, strict=True):
            assert content(one) == content(other)
            assert (one.get("title"), one["metadata"]) == (other.get("title"), other["metadata"])
            assert one.get("relationships") == other.get("relationships")
        (main,) = await threads(settings, claude.session)
        assert main["title"] == "The oven"
        assert main["turns"][-1]["completion_status"] == "interrupted", "it was over when it was imported"

        claude.result("t2")
        claude.say("Baked.")
        claude.write(tmp_path)
        _, said = await turnmill(settings, tmp_path, "import", "--from", "claude-code")
        assert "1 new run, 3 stored before" in said
        await wait_until_stored(settings, 11, [worker])
        (main,) = await threads(settings, claude.session)
        assert main["turns"][-1]["messages"][-1]["parts"][0]["content"] == "Baked."
        assert main["turns"][-1]["meta:branch"]["follows"] == main["turns"][-2]["meta:branch"]["run"]
        out, _ = await turnmill(settings, tmp_path, "dlq", "list", "--json")
        assert out == ""
    finally:
        worker.end()


async def test_what_was_captured_is_not_stored_again(applied_settings: Settings, tmp_path: Path) -> None:
    settings = applied_settings.model_copy(update={"terminal_grace": 0.2})
    claude, child = conversation()
    claude.write(tmp_path)
    write(child.agent_file(tmp_path), child.lines)
    first = int(claude.began.timestamp() * 1000)
    asking = {"request": {"model": "gpt-5", "messages": [{"role": "user", "content": "Find the oven"}]}}
    worker = WorkerProcess(settings).start()
    try:
        async with (
            Publisher(settings) as publisher,
            publisher.run(thread_id=claude.session, agent_id="claude", dialect="openai-chat", info=asking) as run,
        ):
            for chunk in chat_chunks("In the kitchen."):
                await run.send(chunk, at=first + 1_500)
        await wait_until_stored(settings, 2, [worker])
        _, said = await turnmill(settings, tmp_path, "import", "--from", "claude-code")
        assert "Claude Code: 2 files, 2 new runs, 2 stored before" in said
        await wait_until_stored(settings, 6, [worker])
        (main,) = await threads(settings, claude.session)
        asked = [turn["parts"][0]["content"] for turn in main["turns"] if turn["turn_type"] == "user"]
        assert asked == ["Find the oven", "Bake bread", "Bake cake"]
    finally:
        worker.end()


async def test_the_database_of_opencode_is_stored_once_and_as_it_grows(
    applied_settings: Settings, tmp_path: Path
) -> None:
    settings = applied_settings.model_copy(update={"idle_timeout": 2.0, "terminal_grace": 0.2})
    opencode, child = Opencode("one"), Opencode("two", parent="ses_one")
    opencode.ask("Find the oven")
    opencode.answer("I look.", opencode.call("c1"), finish="tool-calls")
    child.ask("Where is it?")
    child.answer("In the kitchen.")
    opencode.write(tmp_path)
    child.write(tmp_path)
    worker = WorkerProcess(settings).start()
    try:
        _, said = await turnmill(settings, tmp_path, "import", "--from", "opencode")
        assert "opencode: 1 file, 2 new runs, 0 stored before" in said
        await wait_until_stored(settings, 4, [worker])
        opencode.answer("It is in the kitchen.")
        opencode.ask("Bake bread")
        opencode.answer("Baked.")
        opencode.write(tmp_path)
        _, said = await turnmill(settings, tmp_path, "import", "--from", "opencode")
        assert "2 new runs, 1 stored before" in said
        await wait_until_stored(settings, 7, [worker])
        _, said = await turnmill(settings, tmp_path, "import", "--from", "opencode")
        assert "0 new runs" in said
        main, spawned = await threads(settings, *(thread_uuid(one.session)[0] for one in (opencode, child)))
        assert (main["title"], main["metadata"]["cwd"]) == ("A listing", "/home/ada/oven")
        assert [turn.get("completion_status") for turn in main["turns"]] == [
            *(None, "interrupted"),  # nobody went on with it
            "complete",
            *(None, "complete"),
        ]
        assert main["turns"][2]["meta:run_id"] == f"{main['turns'][1]['meta:run_id']}+9"
        assert [turn["total_usage"]["input_tokens"] for turn in main["turns"] if "total_usage" in turn] == [100] * 3
        assert spawned["relationships"]["links"][0]["thread_id"] == main["thread_id"]
        assert (await turnmill(settings, tmp_path, "dlq", "list", "--json"))[0] == ""
    finally:
        worker.end()


@asynccontextmanager
async def following(
    settings: Settings, home: Path, source: str = "claude-code"
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pipeline", "import", "--from", source, "--follow"),
        env=variables(settings, home),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            while b"stored before" not in (line := await process.stderr.readline()):
                assert line, "it ended"
        yield process
    finally:
        process.kill()
        await process.wait()


async def test_files_that_grow_are_followed(applied_settings: Settings, tmp_path: Path) -> None:
    settings = applied_settings.model_copy(update={"terminal_grace": 0.2})
    claude, child = conversation(datetime.now(UTC))  # now: a run of an hour ago would be over
    claude.write(tmp_path)
    write(child.agent_file(tmp_path), child.lines)
    worker = WorkerProcess(settings).start()
    try:
        async with following(settings, tmp_path):
            claude.result("t2")
            claude.say("Baked.")
            claude.write(tmp_path)
            other = Claude("later")
            other.ask("Hello")
            other.say("Hi.")
            other.write(tmp_path)
            await wait_until_stored(settings, 10, [worker])
        main, later = await threads(settings, claude.session, other.session)
        assert main["turns"][-1]["completion_status"] == "complete"
        assert len(main["turns"]) == 6, "the open run went on"
        assert [turn["turn_type"] for turn in later["turns"]] == ["user", "agent"]
    finally:
        worker.end()


async def test_sessions_leave_this_machine_only_where_that_is_said(settings: Settings, tmp_path: Path) -> None:
    away = settings.model_copy(update={"brokers": "kafka.example.com:9092"})
    Claude("one").write(tmp_path)
    _, said = await turnmill(away, tmp_path, "import", "--from", "claude-code", status=2)
    assert "kafka.example.com:9092: say --elsewhere if that is meant" in said


async def test_sessions_of_copilot_cli_are_stored_once_and_followed(applied_settings: Settings, tmp_path: Path) -> None:
    settings = applied_settings.model_copy(update={"idle_timeout": 2.0, "terminal_grace": 0.2})
    copilot = Copilot("one")
    copilot.ask("Find the oven")
    copilot.say("", call="c1")
    copilot.add("subagent.started", {"toolCallId": "c1", "agentName": "finder"}, "a1")
    copilot.ask("Where is it?", "a1")
    copilot.say("In the kitchen.", "a1")
    copilot.add("subagent.completed", {"toolCallId": "c1"}, "a1")
    copilot.result("c1")
    copilot.say("It is in the kitchen.")
    copilot.write(tmp_path)
    worker = WorkerProcess(settings).start()
    try:
        async with following(settings, tmp_path, "copilot-cli"):
            await wait_until_stored(settings, 4, [worker])
            copilot.lines = []
            copilot.add("session.shutdown", {"shutdownType": "routine"})
            copilot.add("session.resume", {"eventCount": 20})
            copilot.ask("Bake bread")
            copilot.say("Baked.")
            copilot.write(tmp_path, "a")
            await wait_until_stored(settings, 6, [worker])
        _, said = await turnmill(settings, tmp_path, "import", "--from", "copilot-cli")
        assert "0 new runs, 3 stored before" in said
        out, _ = await turnmill(settings, tmp_path, "import", "--from", "copilot-cli", "--print")
        printed = [json.loads(line) for line in out.splitlines()]
        stored = await threads(settings, *(one["thread_id"] for one in printed))
        assert [content(one) for one in stored] == [content(one) for one in printed]
        assert [one.get("relationships") for one in stored] == [one.get("relationships") for one in printed]
        assert {turn["completion_status"] for one in stored for turn in one["turns"] if "messages" in turn} == {
            "complete"
        }
        out, _ = await turnmill(settings, tmp_path, "dlq", "list", "--json")
        assert out == ""
    finally:
        worker.end()
