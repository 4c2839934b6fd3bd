"""Sessions of Claude Code as the Agent SDK's own reader finds them: an import has the same messages and titles."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pipeline.cli.session_files import SOURCES, files_of
from pipeline.cli.session_import import Import
from pipeline.cli.sessions import Printed
from pipeline.dialects import FORMATS
from pipeline.turns.branches import one_branch
from tests.sdks.python_sdks import run
from tests.support.sessions import PIXEL, Claude, write
from turnmill.identity import thread_uuid

SDK = "claude-agent-sdk"
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


def imported(home: Path) -> dict[str, dict[str, Any]]:
    printed = Printed()
    reading = Import(SOURCES["claude-code"], printed)

    async def read() -> None:
        for path in files_of(SOURCES["claude-code"], [home]):
            file = reading.open(path)
            await reading.read(file, lambda _: None)
            reading.close(file)

    asyncio.run(read())
    assert reading.counts.broken == []
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
