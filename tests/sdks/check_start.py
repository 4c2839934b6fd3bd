"""The pages for a start whose programs are no model's SDK under `turnmill run`: their programs, run as they are."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from pipeline.assembly.offline import assemble
from pipeline.cli.histories.sessions import Printed
from pipeline.devbroker.ports import free_ports
from pipeline.dialects import DIALECTS
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import answered_live
from pipeline.stores.turns import write_turns
from tests.sdks.proxied import (
    ANSWER,
    KEY,
    Done,
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
from tests.sdks.python_sdks import environment, server
from tests.sdks.recordings import by_run, turns
from tests.support.places import ROOT
from tests.support.read_sessions import import_all
from tests.support.scripted_upstream import TEXT, upstream
from tests.support.spools import away, spooled
from tests.support.upstream import playing
from tests.support.workers import environment as variables
from topics.thread_key import ThreadKey
from turnmill.identity import thread_uuid

PAGES = ROOT / "docs" / "start"
QUESTION = "What's the weather in Paris?"
COMMAND = "turnmill run -- python agent.py"
CAPTURED = sorted(page.stem for page in PAGES.glob("*.md") if COMMAND in page.read_text())
# Pages whose last program has one line of ours -> the environment that has what it imports.
HELPED = {
    "claude-agent": "claude-agent-sdk",
    "langchain": "langgraph",
    "openai-agents": "openai-agents",
    "strands": "strands",
}
MODELS = {"bedrock": "model-wires", "ollama": "model-wires"}
FRAMEWORKS = {"langchain": "langgraph", "openai-agents": "openai-agents", "pydantic-ai": "openai-and-pydantic-ai"}
OTHERS = ("ag-ui", "claude-code", "codex", "gemini-cli", "google-adk", "mastra", "node", "opencode")
# Pages of programs that are no Python -> a program's name, and where it is.
TYPED = {
    "claude-code": ("claude", claude_code),
    "codex": ("codex", codex),
    "gemini-cli": ("gemini", gemini),
    "opencode": ("opencode", opencode),
}
# Lines of a page that a test leaves out: it has the wheel, no broker, and reads what was published.
SHORT = 30  # lines of a page, or of each of its ways
APART = ("pip install", "turnmill up", "TURNMILL_GATEWAY_PROXY=", "turnmill threads list", "uvicorn")


def text(page: str) -> str:
    found = (PAGES / f"{page}.md").read_text()
    assert len([line for line in found.splitlines() if line]) < SHORT
    return found


def programs(page: str) -> list[str]:
    """The Python programs of a page, each in a short section of its own."""
    found = (PAGES / f"{page}.md").read_text()
    assert all(len(way.splitlines()) <= SHORT for way in found.split("\n## "))
    return [program.partition("```")[0] for program in found.split("```python\n")[1:]]


def block(page: str, language: str) -> str:
    """What stands in the page's last block of this language: the first one of a shell starts Turnmill."""
    found = re.findall(rf"^```{language}\n(.*?)^```", text(page), re.DOTALL | re.MULTILINE)
    assert len(found) == (2 if language == "sh" else 1)
    assert language != "sh" or re.search(r"^turnmill dev ", found[0], re.MULTILINE)
    last: str = found[-1]
    return last


def shell(page: str) -> str:
    """What the page lets a user type, as far as it is about the agent."""
    lines = [line for line in block(page, "sh").splitlines() if not line.startswith(APART)]
    return "\n".join(lines).replace(" && turnmill threads list", "")


def test_each_page_is_run() -> None:
    pages = {page.stem for page in PAGES.glob("*.md")}
    assert pages == {"README", *CAPTURED, *HELPED, *OTHERS}
    listed = re.findall(r"\]\((\S+?)\.md\)", (PAGES / "README.md").read_text())
    assert pages - {"README"} <= set(listed)


def told(address: str, page: str, settings: Settings) -> dict[str, str]:
    """Variables of a program that publishes with these settings, its SDK pointed to the scripted provider."""
    base = f"{address}/plain/{page}"
    return {
        **variables(settings),
        "PYTHONPATH": str(ROOT),
        **dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), "key"),
        "OPENAI_BASE_URL": f"{base}/v1",
        "ANTHROPIC_BASE_URL": base,
        "GOOGLE_GEMINI_BASE_URL": base,
        "OLLAMA_HOST": base,
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": base,
        "AWS_DEFAULT_REGION": "us-east-1",
        **dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "key"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


def printed(command: Sequence[str | Path], folder: Path, told: dict[str, str]) -> str:
    """What a program of the page prints, started in this folder."""
    done = subprocess.run(
        command, env={**os.environ, **told}, cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def answered(settings: Settings) -> list[dict[str, Any]]:
    """The records of the one run, in which the question has its answer."""
    records = spooled(settings)
    (user, agent), refused = turns(records)
    assert refused == []
    assert records[-1]["end"] == "complete"
    assert user["parts"][0]["content"] in (QUESTION, [QUESTION])
    assert agent["completion_status"] == "complete"
    parts = [part for message in agent["messages"] for part in message.get("parts", ())]
    assert [part["content"] for part in parts if "content" in part] == ["".join(TEXT)]
    return records


@pytest.mark.parametrize("page", CAPTURED)
def test_without_a_line_of_code(page: str, tmp_path: Path) -> None:
    """The first program of a page, started as it says, where a framework's own events are not published twice."""
    program = programs(page)[0]
    settings = away(tmp_path, capture_hosts="127.0.0.1=test")
    python = environment((FRAMEWORKS | MODELS).get(page, "providers"))
    with upstream() as address:
        base = f"{address}/plain/{page}"
        program = program.replace("Mistral()", f"Mistral('key', server_url='{base}')")  # it reads no variable for that
        (tmp_path / "agent.py").write_text(program)
        more = {**told(address, page, settings), "OPENAI_AGENTS_DISABLE_TRACING": "1"}
        out = printed([python, "-m", "turnmill", "run", "--", python, "agent.py"], tmp_path, more)
    assert out == "".join(TEXT)
    assert answered(settings)[0]["agent_id"] == "agent"


@pytest.mark.parametrize("page", HELPED)
def test_with_one_line_of_code(page: str, tmp_path: Path) -> None:
    """The last program of a page, started by Python alone."""
    (tmp_path / "agent.py").write_text(programs(page)[-1])
    settings = away(tmp_path)
    with upstream() as address:
        more = {**told(address, page, settings), "CLAUDE_CONFIG_DIR": str(tmp_path)}
        out = printed([environment(HELPED[page]), "agent.py"], tmp_path, more)
    assert out == "".join(TEXT)
    records = answered(settings)
    assert records[0]["run"]["external_id"] == "chat-42"
    assert len({record["run_id"] for record in records}) == 1


def test_google_adk(tmp_path: Path) -> None:
    settings = away(tmp_path)
    (tmp_path / "agent.py").write_text(block("google-adk", "python"))
    assert shell("google-adk").startswith("python agent.py")
    with upstream() as address:
        out = printed([environment("google-adk"), "agent.py"], tmp_path, told(address, "google-adk", settings))
    assert "".join(TEXT) in out
    assert answered(settings)[0]["agent_id"] == "weather"


def test_ag_ui(tmp_path: Path) -> None:
    settings, (port,) = away(tmp_path), free_ports(1)
    (tmp_path / "agent.py").write_text(block("ag-ui", "python"))
    assert "uvicorn agent:app " in block("ag-ui", "sh")
    python = environment("pydantic-ai-2.68.0")
    command = [python, "-m", "uvicorn", "agent:app", "--app-dir", tmp_path, "--port", str(port)]
    asked = {"threadId": "chat-42", "runId": "r1", "messages": [{"id": "q", "role": "user", "content": QUESTION}]}
    body = {**asked, "state": {}, "tools": [], "context": [], "forwardedProps": {}}
    with upstream() as address, server(command, port, told(address, "ag-ui", settings)):
        answer = httpx.post(f"http://127.0.0.1:{port}/", json=body, timeout=60, trust_env=False)
    assert "RUN_FINISHED" in answer.text
    first = answered(settings)[0]
    assert (first["run"]["external_id"], first["run_id"], first["agent_id"]) == ("chat-42", "r1", "weather")


def test_mastra(tmp_path: Path) -> None:
    """Its agent plays the chunks that a real one has streamed."""
    recorded = ROOT / "tests" / "corpus" / "wires" / "mastra" / "text.jsonl"
    package = tmp_path / "node_modules" / "@mastra" / "core"
    package.mkdir(parents=True)
    chunks = [json.loads(line) for line in recorded.read_text().splitlines()]
    stream = f"ReadableStream.from({json.dumps(chunks)})"
    (package / "agent.mjs").write_text(f"export class Agent {{ stream() {{ return {{ fullStream: {stream} }} }} }}")
    (package / "package.json").write_text('{"exports": {"./agent": "./agent.mjs"}}')
    settings, (port,) = away(tmp_path / "turnmill"), free_ports(1)
    (tmp_path / "agent.mjs").write_text(block("mastra", "js").replace(":8080", f":{port}"))
    command = [sys.executable, "-m", "pipeline", "gateway"]
    more = {**variables(settings), "TURNMILL_GATEWAY_PORT": str(port), "PYTHONPATH": str(ROOT)}
    with server(command, port, more):
        out = printed(["node", "agent.mjs"], tmp_path, {})
    assert "complete" in out
    (user, agent), refused = turns(spooled(settings))
    assert (refused, user["parts"][0]["content"], agent["agent_id"]) == ([], QUESTION, "weather")
    assert said(agent) == "It is sunny."


def questions(said: Iterable[dict[str, Any]]) -> list[str]:
    """The words of the users' turns among these."""
    return [turn["parts"][0]["content"] for turn in said if turn["turn_type"] == "user"]


class Again(Printed):
    """An import into a store that has threads already; its documents are those of the runs that the store hasn't."""

    def __init__(self, store: ThreadStore) -> None:
        super().__init__()
        self.store = store

    async def answered(self, thread: str) -> list[int]:
        return await answered_live(self.store, ThreadKey(thread_uuid(thread)[0]))


async def imported_again(settings: Settings, home: Path, source: str) -> list[str]:
    """Store what was published, import the program's sessions, and return the questions that the store hadn't."""
    async with await ThreadStore.open(f"sqlite:///{home / 'threads.db'}") as store:
        for records in by_run(settings).values():
            await write_turns(store, assemble(DIALECTS[records[0]["dialect"]], records)[0])
        again = Again(store)
        assert (await import_all(home, source, again)).files
    return questions(turn for document in again.documents() for turn in document["turns"])


@pytest.mark.parametrize("page", ["claude-code", "codex", "gemini-cli", "node", "opencode"])
async def test_what_is_no_python(page: str, tmp_path: Path) -> None:
    programs, settings, typed = tmp_path / "bin", away(tmp_path / "turnmill"), shell(page)
    printing = page in ("gemini-cli", "opencode")
    assert typed.startswith("turnmill run --tee-stdout -- " if printing else "turnmill run -- ")
    programs.mkdir()
    if page in TYPED:
        name, path = TYPED[page]
        (programs / name).symlink_to(path())
    (programs / "turnmill").symlink_to(Path(sys.executable).with_name("turnmill"))
    if page == "node":
        (tmp_path / "agent.mjs").write_text(block(page, "js"))
        (tmp_path / "node_modules").symlink_to(clients() / "node_modules")
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q", tmp_path], check=True)
    async with playing(speaks) as provider:
        more = {
            **variables(settings),
            "HOME": str(tmp_path),
            "PATH": f"{programs}:{os.environ['PATH']}",
            **dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY"), KEY),
            "OPENAI_BASE_URL": f"{provider.url}/v1",
            "ANTHROPIC_BASE_URL": provider.url,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            **with_gemini(tmp_path, provider.url),
            **with_opencode(provider.url),
        }
        out = await asyncio.to_thread(printed, ["bash", "-ec", typed], tmp_path, more)
    done = Done(out, settings)
    assert ANSWER in done.out
    assert ANSWER in [said(turn) for turn in done.turns() if turn["completion_status"] == "complete"]
    if printing:  # opencode prints no question, as its page says
        published = (turn for run in by_run(settings).values() for turn in turns(run)[0])
        assert questions(published) == ([] if page == "opencode" else [QUESTION])
    if page in TYPED:
        new = await imported_again(settings, tmp_path, page)
        assert len(new) == (page == "opencode")
