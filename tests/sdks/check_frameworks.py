"""Frameworks with one line of ours, real ones before a scripted server: what is assembled is what each has itself.

Part of `make test-sdks`; no broker is needed, since what can't be sent is in the spool.
"""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.sdks.check_capture import turns
from tests.sdks.check_recording import assembled, by_run
from tests.sdks.python_sdks import environment as python
from tests.sdks.python_sdks import run
from tests.sdks.scripted import CASES
from tests.support.places import ROOT
from tests.support.scripted_upstream import TEXT, upstream
from tests.support.spools import away, spooled
from tests.support.workers import environment

HELPERS = {
    "google-adk": "google_adk_helper_recorder.py",
    "langgraph": "langchain_helper_recorder.py",
}


@cache
def recorded(sdk: str) -> dict[str, tuple[dict[str, Any], list[dict[str, Any]]]]:
    """By the name of a run: what the SDK made of it, and the records that were published."""
    with TemporaryDirectory() as folder:
        settings = away(Path(folder))
        made = run(sdk, HELPERS[sdk], variables=environment(settings))
        records = by_run(settings)
    assert records.keys() == made.keys()
    return {name: (made[name], records[name]) for name in made}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sdk", HELPERS)
def test_what_is_assembled_is_what_the_framework_made(sdk: str, case: str) -> None:
    runs = [found for name, found in recorded(sdk).items() if name.endswith(f": {case}")]
    assert runs
    for truth, records in runs:
        assembled(truth, records)


ENDS = {
    "app:u:whole": "complete",
    "app:u:refused": "error",
    "app:u:left behind its answer": "complete",
    "app:u:left before": "aborted",
    "app:u:cancelled": "aborted",
    "app:u:an agent as a tool": "complete",
}


def test_how_runs_of_adk_end_and_agents_in_tools(tmp_path: Path) -> None:
    settings = away(tmp_path)
    run("google-adk", "google_adk_ends.py", variables=environment(settings))
    records: dict[str, list[dict[str, Any]]] = {}
    for record in spooled(settings):
        records.setdefault(record["run_id"], []).append(record)
    runs = {found[0]["run"].get("external_id"): found for found in records.values()}
    inner = runs.pop(None)  # its session has an id of ADK's own
    assert {name: found[-1]["end"] for name, found in runs.items()} == ENDS
    outer = runs["app:u:an agent as a tool"]
    parent = {name: inner[0]["run"][name] for name in ("parent_run_id", "parent_thread_id")}
    assert parent == {"parent_run_id": outer[0]["run_id"], "parent_thread_id": "app:u:an agent as a tool"}
    assert (inner[0]["agent_id"], outer[0]["agent_id"], inner[-1]["end"]) == ("forecast", "weather", "complete")
    for found in (inner, *runs.values()):
        (user, agent), refused = turns(found)
        assert refused == []
        assert (user["turn_type"], agent["turn_type"]) == ("user", "agent")
        assert (agent["completion_status"] == "complete") == (found[-1]["end"] == "complete")
    assert "The scripted model refuses." in str(turns(runs["app:u:refused"])[0])


PAGES = {"claude-agent": "claude-agent-sdk", "langchain": "langgraph", "openai-agents": "openai-agents"}


@pytest.mark.parametrize("page", PAGES)
def test_the_one_line_of_the_pages_for_a_start(page: str, tmp_path: Path) -> None:
    """The last program of a page, started by Python alone, with the SDK pointed to the scripted provider."""
    text = (ROOT / "docs" / "start" / f"{page}.md").read_text()
    assert all(len(way.splitlines()) < 20 for way in text.split("\n## "))
    *_, program = text.split("```python\n")
    (tmp_path / "agent.py").write_text(program.partition("```")[0])
    settings = away(tmp_path)
    with upstream() as address:
        told = {
            "OPENAI_BASE_URL": f"{address}/plain/{page}/v1",
            "OPENAI_API_KEY": "key",
            "ANTHROPIC_BASE_URL": f"{address}/plain/{page}",
            "ANTHROPIC_API_KEY": "key",
            "CLAUDE_CONFIG_DIR": str(tmp_path),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "PYTHONPATH": str(ROOT),
        }
        done = subprocess.run(
            [python(PAGES[page]), "agent.py"],
            env={**os.environ, **environment(settings), **told},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert (done.returncode, done.stdout.strip()) == (0, "".join(TEXT)), done.stderr
    records = spooled(settings)
    assert (records[0]["run"]["external_id"], records[-1]["end"]) == ("chat-42", "complete")
    assert len({record["run_id"] for record in records}) == 1
    (user, agent), refused = turns(records)
    assert refused == []
    assert user["parts"][0]["content"] == "What's the weather in Paris?"
    assert agent["completion_status"] == "complete"
    assert [part["content"] for said in agent["messages"] for part in said.get("parts", ())] == ["".join(TEXT)]
