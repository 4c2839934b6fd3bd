"""Sessions as Claude Code, Codex, Gemini CLI, Copilot CLI and opencode write them to a disk, made by the tests."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

Line = dict[str, Any]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def named(name: str) -> str:
    """A UUID, the same for the same name."""
    return str(uuid5(NAMESPACE_URL, name))


def write(path: Path, lines: Iterable[Line | str], mode: str = "w") -> Path:
    """Write lines, those that are no objects as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open(mode) as file:
        file.writelines(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    return path


class Claude:
    """Lines of a session of Claude Code, each a second after the one before, and below it."""

    def __init__(self, name: str, **fields: Any) -> None:
        self.session = named(name)
        self.fields: Line = {"isSidechain": False, "userType": "external", "cwd": "/home/ada/oven"}
        self.fields |= {"sessionId": self.session, "version": "2.1.0", "gitBranch": "main", **fields}
        self.lines: list[Line | str] = []
        self.last: str | None = None
        self.began = datetime(2026, 1, 20, 10, tzinfo=UTC)
        self._second = 0
        self._agent = fields.get("agentId")

    @property
    def file(self) -> str:
        return f"projects/-home-ada-oven/{self.session}.jsonl"

    def add(self, kind: str, **fields: Any) -> Line:
        """Add a line of the tree; its uuid is made of the session and its number."""
        self._second += 1
        uuid = named(f"{self.session}/{self._agent}/{self._second}")
        at = f"{self.began + timedelta(seconds=self._second):%Y-%m-%dT%H:%M:%S}.000Z"
        line = {"parentUuid": self.last, **self.fields, "type": kind, "uuid": uuid, "timestamp": at, **fields}
        self.lines.append(line)
        self.last = uuid
        return line

    def ask(self, content: Any, **fields: Any) -> Line:
        return self.add("user", message={"role": "user", "content": content}, **fields)

    def say(self, *blocks: Line | str, stop: str | None = "end_turn", usage: Line | None = None, **fields: Any) -> Line:
        """Add a response: a line for each block, all with the same usage and only the last with a reason to stop."""
        name = f"msg_{named(f'{self.session}/{self._agent}/answer {self._second}')[:8]}"
        counts = {"input_tokens": 3, "cache_read_input_tokens": 100, "output_tokens": 20, **(usage or {})}
        line: Line = {}
        for number, one in enumerate(blocks):
            block = {"type": "text", "text": one} if isinstance(one, str) else one
            message = {"id": name, "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
            message |= {"content": [block], "usage": counts, "stop_sequence": None}
            message["stop_reason"] = stop if number == len(blocks) - 1 else None
            line = self.add("assistant", message=message, requestId=f"req_{name}", **fields)
        return line

    def call(self, call: str, tool: str = "Bash", stop: str | None = "tool_use", **args: Any) -> Line:
        return self.say({"type": "tool_use", "id": call, "name": tool, "input": args}, stop=stop)

    def result(self, call: str, content: Any = "done", **fields: Any) -> Line:
        block = {"type": "tool_result", "tool_use_id": call, "content": content}
        return self.ask([block], **{"toolUseResult": {"stdout": str(content)}, **fields})

    def write(self, home: Path, mode: str = "w") -> Path:
        return write(home / self.file, self.lines, mode)

    def agent(self, name: str) -> Claude:
        """A sub-agent with a file of its own."""
        child = Claude("", agentId=name, isSidechain=True)
        child.session = child.fields["sessionId"] = self.session
        return child

    def agent_file(self, home: Path) -> Path:
        return home / f"projects/-home-ada-oven/{self.session}/subagents/agent-{self.fields['agentId']}.jsonl"


class Codex:
    """Lines of a rollout of Codex, each a second after the one before."""

    def __init__(self, name: str, **meta: Any) -> None:
        self.session = named(name)
        self.lines: list[Line | str] = []
        self.total = 0
        git = {"branch": "main", "commit_hash": "abc"}
        known = {"id": self.session, "cwd": "/home/ada/oven", "cli_version": "0.60.0", "originator": "codex_cli_rs"}
        self.add("session_meta", {**known, "git": git, "instructions": "Be brief.", "model_provider": "openai", **meta})

    @property
    def file(self) -> str:
        return f"sessions/2026/01/20/rollout-2026-01-20T10-00-00-{self.session}.jsonl"

    def add(self, kind: str, payload: Line) -> None:
        second = len(self.lines)
        at = f"2026-01-20T10:{second // 60:02d}:{second % 60:02d}.000Z"
        self.lines.append({"timestamp": at, "type": kind, "payload": payload})

    def item(self, **item: Any) -> None:
        self.add("response_item", item)

    def event(self, kind: str, **fields: Any) -> None:
        self.add("event_msg", {"type": kind, **fields})

    def user(self, text: str, *more: Line) -> None:
        self.item(type="message", role="user", content=[{"type": "input_text", "text": text}, *more])

    def ask(self, turn: str | None, text: str, *more: Line) -> None:
        """What Codex writes when a turn begins."""
        if turn is not None:
            self.event("task_started", turn_id=turn, model_context_window=272_000)
        self.user("<environment_context>\n  <cwd>/home/ada/oven</cwd>\n</environment_context>")
        self.add("turn_context", {"cwd": "/home/ada/oven", "model": "gpt-5-codex", "effort": "high"})
        self.user(text, *more)
        self.event("user_message", message=text)

    def think(self, text: str) -> None:
        self.event("agent_reasoning", text=text)
        summary = [{"type": "summary_text", "text": text}]
        self.item(type="reasoning", summary=summary, content=None, encrypted_content="gAAAA")

    def call(self, call: str, output: str | None = "a.txt") -> None:
        self.item(type="function_call", name="shell", arguments='{"command":["ls"]}', call_id=call)
        self.count()
        if output is not None:
            self.item(type="function_call_output", call_id=call, output=output)

    def say(self, text: str) -> None:
        self.event("agent_message", message=text)
        self.item(type="message", role="assistant", content=[{"type": "output_text", "text": text}])
        self.count()

    def count(self) -> None:
        """The usage of a response, which comes again with the next note of rate limits."""
        self.total += 110
        total = {"input_tokens": self.total * 10 // 11, "output_tokens": self.total // 11, "total_tokens": self.total}
        last = {"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 10, "reasoning_output_tokens": 4}
        for _ in range(2):
            self.event(
                "token_count", info={"total_token_usage": total, "last_token_usage": last | {"total_tokens": 110}}
            )

    def done(self, turn: str) -> None:
        self.event("task_complete", turn_id=turn, last_agent_message="")

    def write(self, home: Path, mode: str = "w") -> Path:
        return write(home / self.file, self.lines, mode)


class Gemini:
    """Lines of a session of Gemini CLI, as its recorder appends them: a message again whenever there is more of it."""

    def __init__(self, name: str, **facts: Any) -> None:
        self.session = named(name)
        self.lines: list[Line | str] = []
        self.newest: Line = {}
        self._second = 0
        self._name = name
        self.lines.append({"sessionId": self.session, "projectHash": "abc", "startTime": self._at(), **facts})
        self.set(messages=[{"id": "context", "type": "user", "content": [{"text": "<session_context> here"}]}])

    def _at(self) -> str:
        self._second += 1
        return f"2026-01-20T10:{self._second // 60:02d}:{self._second % 60:02d}.000Z"

    @property
    def file(self) -> str:
        return f"tmp/oven/chats/session-2026-01-20T10-00-{self.session[:8]}.jsonl"

    def set(self, **facts: Any) -> None:
        self.lines.append({"$set": facts})

    def add(self, kind: str, content: Any, **fields: Any) -> Line:
        """Add a message; its id is made of the session and its number."""
        name = named(f"{self._name}/{len(self.lines)}")
        self.newest = {"id": name, "timestamp": self._at(), "type": kind, "content": content, **fields}
        self.lines.append(self.newest)
        self.set(lastUpdated=self.newest["timestamp"])
        return self.newest

    def ask(self, text: str, *more: Line) -> Line:
        return self.add("user", [{"text": text}, *more])

    def say(self, text: str, *thoughts: str) -> Line:
        thought = [{"subject": one, "description": f"{one} it is", "timestamp": self._at()} for one in thoughts]
        tokens = {"input": 100, "output": 20, "cached": 60, "thoughts": 5, "tool": 0, "total": 125}
        return self.add("gemini", text, thoughts=thought, tokens=tokens, model="gemini-3-pro")

    def call(self, call: str, result: Any = "a.txt", status: str = "success") -> None:
        """Write the newest message again, with a call and its result."""
        answer = [{"functionResponse": {"id": call, "name": "list", "response": {"output": result}}}]
        made = {"id": call, "name": "list", "args": {"path": "."}, "status": status, "timestamp": self._at()}
        calls = [*self.newest.get("toolCalls", ()), {**made, "result": answer if result is not None else None}]
        self.newest = {**self.newest, "toolCalls": calls}
        self.lines.append(self.newest)
        self.add("user", answer)
        self.newest = {**self.lines[-3]}  # type: ignore[dict-item]

    def write(self, home: Path, mode: str = "w") -> Path:
        return write(home / self.file, self.lines, mode)


class Copilot:
    """Lines of a session of Copilot CLI, each a second after the one before."""

    def __init__(self, name: str, **facts: Any) -> None:
        self.session = named(name)
        self.lines: list[Line | str] = []
        self.last: str | None = None
        self._second = 0
        place = {"cwd": "/home/ada/oven", "gitRoot": "/home/ada/oven", "branch": "main"}
        self.add(
            *("session.start", {"sessionId": self.session, "version": 1, "producer": "copilot-agent"}),
            **{"copilotVersion": "1.0.102", "selectedModel": "gpt-5.4", "context": place, **facts},
        )

    @property
    def file(self) -> str:
        return f"session-state/{self.session}/events.jsonl"

    def add(self, kind: str, data: Line | None = None, agent: str | None = None, **fields: Any) -> Line:
        """Add a line; its id is made of the session and its number."""
        self._second += 1
        at = f"2026-01-20T10:{self._second // 60:02d}:{self._second % 60:02d}.000Z"
        line: Line = {"type": kind, "data": {**(data or {}), **fields}, "id": named(f"{self.session}/{self._second}")}
        line |= {"timestamp": at, "parentId": self.last, **({"agentId": agent} if agent else {})}
        self.lines.append(line)
        self.last = line["id"]
        return line

    def ask(self, text: str, agent: str | None = None, **fields: Any) -> Line:
        sent = f"<current_datetime>now</current_datetime>\n\n{text}"
        asked = {"content": text, "transformedContent": sent, "delivery": "idle", **fields}
        line = self.add("user.message", asked, agent)
        self.add("system.message", {"role": "system", "content": "You are a program"}, agent)
        return line

    def say(self, text: str, agent: str | None = None, call: str | None = None, **fields: Any) -> Line:
        """Add a response with its usage; `call`: that of a tool, named by its id."""
        name = f"answer-{self._second}"
        counts = {"inputTokens": 100, "cacheReadTokens": 60, "outputTokens": 20, "reasoningTokens": 5, "cost": 1.0}
        finish = "tool_calls" if call else "stop"
        self.add("assistant.turn_start", {"turnId": "0"}, agent)
        self.add("session.usage_record", {"usage": {**counts, "apiCallId": name, "finishReason": finish}}, agent)
        made = [{"toolCallId": call, "name": "bash", "arguments": {"command": "ls"}, "type": "function"}]
        said = {"content": text, "toolRequests": made if call else [], "model": "gpt-5.4", "apiCallId": name}
        return self.add("assistant.message", {**said, **fields}, agent)

    def result(self, call: str, agent: str | None = None, **fields: Any) -> Line:
        self.add("tool.execution_start", {"toolCallId": call, "toolName": "bash"}, agent)
        done = {"toolCallId": call, "success": True, "result": {"content": "a.txt"}, **fields}
        return self.add("tool.execution_complete", done, agent)

    def write(self, home: Path, mode: str = "w") -> Path:
        return write(home / self.file, self.lines, mode)


class Opencode:
    """Sessions of opencode: `rows` are its messages with their parts, a moment after each other."""

    TABLES = """
        CREATE TABLE session (id text PRIMARY KEY, parent_id text, directory text, title text, version text,
            time_created integer, time_updated integer);
        CREATE TABLE message (id text PRIMARY KEY, session_id text, time_created integer, data text);
        CREATE TABLE part (id text PRIMARY KEY, message_id text, data text);
    """

    def __init__(self, name: str, parent: str | None = None, at: int = 1_768_903_200_000) -> None:
        self.session = f"ses_{name}"
        self.facts: Line = {"parent_id": parent, "directory": "/home/ada/oven", "title": "A listing"}
        self.rows: list[tuple[Line, list[Line]]] = []
        self.agent = "build" if parent is None else "general"
        self._name = name
        self._at = at

    def add(self, role: str, *parts: Line, **fields: Any) -> Line:
        self._at += 1_000
        number = len(self.rows)
        message = {"id": f"msg_{number:03}_{self._name}", "role": role, "time": {"created": self._at}, **fields}
        named = [{"id": f"prt_{number:03}_{place:03}_{self._name}", **part} for place, part in enumerate(parts)]
        self.rows.append((message, named))
        return message

    def ask(self, *parts: Line | str) -> Line:
        words = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
        return self.add("user", *words, agent=self.agent, model={"providerID": "openai", "modelID": "gpt-5"})

    def answer(self, *parts: Line | str, finish: str | None = "stop", **fields: Any) -> Line:
        """A response that is over; one whose `finish` is None is being written."""
        time = {"start": self._at + 1_100, "end": self._at + 1_200}
        said = [{"type": "text", "text": part, "time": time} if isinstance(part, str) else part for part in parts]
        tokens = {"total": 120, "input": 40, "output": 15, "reasoning": 5, "cache": {"read": 60, "write": 0}}
        step = [{"type": "step-finish", "reason": finish, "cost": 0.002, "tokens": tokens}] if finish else []
        own = {"providerID": "openai", "modelID": "gpt-5", **({"finish": finish} if finish else {}), **fields}
        message = self.add("assistant", {"type": "step-start"}, *said, *step, **own)
        if finish or fields.get("error"):
            message["time"]["completed"] = self._at + 500
        return message

    def call(self, call: str, status: str = "completed", **state: Any) -> Line:
        """A part with a call."""
        told: Line = {"status": status, "input": {"path": "."}, "time": {"start": self._at, "end": self._at + 50}}
        result = {"completed": {"output": "a.txt"}, "error": {"error": "no such file"}}.get(status, {})
        return {"type": "tool", "tool": "list", "callID": call, "state": {**told, **result, **state}}

    def write(self, home: Path) -> Path:
        """Write all of it into the database, again where it is there."""
        path = home / "opencode" / "opencode.db"
        path.parent.mkdir(parents=True, exist_ok=True)
        new = not path.exists()
        with closing(sqlite3.connect(path)) as database:
            if new:
                database.execute("PRAGMA journal_mode = wal")
                database.executescript(self.TABLES)
            began = self.rows[0][0]["time"]["created"] if self.rows else self._at
            facts = (self.session, *self.facts.values(), "1.18.33", began, self._at)
            database.execute("REPLACE INTO session VALUES (?, ?, ?, ?, ?, ?, ?)", facts)
            database.execute("DELETE FROM message WHERE session_id = ?", (self.session,))
            for message, parts in self.rows:
                created = message["time"]["created"]
                row = (message["id"], self.session, created, json.dumps({**message, "id": None}))
                database.execute("INSERT INTO message VALUES (?, ?, ?, ?)", row)
                for part in parts:
                    row = (part["id"], message["id"], json.dumps(part))
                    database.execute("REPLACE INTO part VALUES (?, ?, ?)", row)
            database.commit()
        return path

    def write_files(self, home: Path) -> Path:
        """Write it as versions before the database did."""
        storage = home / "opencode" / "storage"
        for message, parts in self.rows:
            write(storage / "message" / self.session / f"{message['id']}.json", [json.dumps(message)])
            for part in parts:
                write(storage / "part" / message["id"] / f"{part['id']}.json", [json.dumps(part)])
        info = {"id": self.session, "parentID": self.facts["parent_id"], "title": self.facts["title"], "version": "1.0"}
        return write(storage / "session" / "global" / f"{self.session}.json", [json.dumps(info)])
