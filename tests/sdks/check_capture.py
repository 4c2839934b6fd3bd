"""The SDKs of providers, unchanged, alone and with us: they see the same, and what they said is published.

Part of `make test-sdks`; no broker is needed, since what can't be sent is in the spool.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from tests.sdks.python_sdks import HERE, environment
from tests.support.places import ROOT
from tests.support.scripted_upstream import TEXT, upstream
from tests.support.spools import away, spooled
from tests.support.workers import environment as variables

ENDS = {
    "plain": "complete",
    "encoded": "complete",
    "retried": "complete",
    "down": "error",
    "refused": "error",
    "stalled": "disconnected",
    "reset": "disconnected",
    "cut": "disconnected",
    "large": "error",
}
DIALECT = {
    "openai-responses": "openai-responses",
    "openai-chat": "openai-chat",
    "openai-async": "openai-chat",
    "anthropic": "anthropic",
    "mistral": "openai-chat",
    "google-genai": "gemini",
}
REQUEST, ERROR = "threadmill.request", "threadmill.error"


def test_the_sdks_see_the_same_and_are_heard(tmp_path: Path) -> None:
    python = environment("providers")
    homes = {name: away(tmp_path / name, capture_hosts="127.0.0.1=test") for name in ("alone", "run", "client")}
    program = (str(python), str(HERE / "capture_program.py"))
    with upstream() as address:
        commands = {
            "alone": (*program, address),
            "run": (str(python), "-m", "pipeline", "run", "--", *program, address),
            "client": (*program, address, "client"),
        }
        started = {
            name: subprocess.Popen(
                command, env={**variables(homes[name]), "PYTHONPATH": str(ROOT)}, text=True, stdout=subprocess.PIPE
            )
            for name, command in commands.items()
        }
        outputs = {name: process.communicate(timeout=600)[0] for name, process in started.items()}
    assert [process.returncode for process in started.values()] == [0, 0, 0]
    alone, run, client = (json.loads(outputs[name].splitlines()[-1]) for name in commands)
    assert alone["openai-chat large whole"] == {"pieces": [100_000_000]}
    assert run == alone
    assert client == alone
    for name in ("run", "client"):
        check(published(spooled(homes[name])), alone)


def published(records: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The records of each run, by the words of the user; each of them is one run."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        runs.setdefault(record["run_id"], []).append(record)
    found = {}
    for run in runs.values():
        (user, *_), _ = turns(run)
        name = user["parts"][0]["content"]
        assert name not in found, "all attempts are one run"
        found[name] = run
    return found


def turns(run: list[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    found, refused = assemble(DIALECTS[run[0]["dialect"]], run)
    return [record["turn"] for record in found if record["turn"]], refused


def check(runs: dict[str, list[dict[str, Any]]], seen: dict[str, Any]) -> None:
    assert runs.keys() == seen.keys()
    assert "very-secret" not in json.dumps(runs)
    for name, run in runs.items():
        sdk, case, _ = name.split()
        (_, agent), refused = turns(run)
        assert refused == [], name
        # On a busy machine the head of an answer that stalls may come too late, too.
        ends = {ENDS[case], *(["error"] if case == "stalled" else [])}
        assert (run[0]["dialect"], run[-1]["end"] in ends) == (DIALECT[sdk], True), name
        events = [event for record in run for event in record["events"]]
        kinds = [kind for event in events if (kind := event.get("type", event.get("object"))) in (REQUEST, ERROR)]
        attempts = kinds.count(REQUEST)
        assert kinds == [REQUEST, *[ERROR, REQUEST] * (attempts - 1), *([ERROR] if ENDS[case] != "complete" else [])], (
            name
        )
        assert attempts > 1 if case in ("retried", "down") else attempts >= 1, name
        texts = [part["content"] for said in agent["messages"] for part in said.get("parts", ()) if "content" in part]
        if ENDS[case] == "complete":
            assert agent["completion_status"] == "complete"
            assert texts == ["".join(TEXT)], name
        else:
            assert agent["completion_status"] == "interrupted"
        if case == "large":
            assert "100,000,243 bytes" in events[-1]["body"]


FRAMEWORKS = {"langchain": "langgraph", "openai-agents": "openai-agents", "pydantic-ai": "openai-and-pydantic-ai"}
COMMAND = "threadmill run -- python agent.py"
START = sorted(page for page in (ROOT / "docs" / "start").glob("*.md") if COMMAND in page.read_text())


@pytest.mark.parametrize("page", START, ids=lambda page: page.stem)
def test_the_pages_for_a_start(page: Path, tmp_path: Path) -> None:
    """The program of a page, with the SDK pointed to the scripted provider, and started as the page says."""
    text = page.read_text()
    for way in text.split("\n## "):
        assert len(way.splitlines()) < 20
    program = text.partition("```python\n")[2].partition("```")[0]
    settings = away(tmp_path, capture_hosts="127.0.0.1=test")
    python = environment(FRAMEWORKS.get(page.stem, "providers"))
    with upstream() as address:
        base = f"{address}/plain/{page.stem}"
        program = program.replace("Mistral()", f"Mistral('key', server_url='{base}')")  # it reads no variable for that
        (tmp_path / "agent.py").write_text(program)
        told = {
            "OPENAI_BASE_URL": f"{base}/v1",
            "ANTHROPIC_BASE_URL": base,
            "GOOGLE_GEMINI_BASE_URL": base,
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
            "PYTHONPATH": str(ROOT),
            **dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), "key"),
        }
        done = subprocess.run(
            [python, "-m", "pipeline", "run", "--", python, "agent.py"],
            env={**os.environ, **variables(settings), **told},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert (done.returncode, done.stdout.strip()) == (0, "".join(TEXT)), done.stderr
    records = spooled(settings)
    assert (records[0]["agent_id"], records[-1]["end"]) == ("agent", "complete")
    (user, agent), refused = turns(records)
    assert refused == []
    assert user["parts"][0]["content"] == "What's the weather in Paris?"
    assert agent["completion_status"] == "complete"
