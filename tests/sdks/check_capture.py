"""The SDKs of providers, unchanged, alone and with us: they see the same, and what they said is published.

Part of `make test-sdks`; no broker is needed, since what can't be sent is in the spool.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

from pipeline.settings import Settings
from tests.sdks.python_sdks import HERE, environment
from tests.sdks.recordings import by_run, turns
from tests.support.places import ROOT
from tests.support.scripted_upstream import TEXT, upstream
from tests.support.spools import away
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
REQUEST, ERROR, LEFT_OUT = "turnmill.request", "turnmill.error", "turnmill.left_out"


def test_the_sdks_see_the_same_and_are_heard(tmp_path: Path) -> None:
    python = environment("providers")
    homes = {name: away(tmp_path / name, capture_hosts="127.0.0.1=test") for name in ("alone", "run", "client")}
    program = (str(python), str(HERE / "capture_program.py"))
    with upstream() as address:
        commands = {
            "alone": (*program, address),
            "run": (str(python), "-m", "turnmill", "run", "--", *program, address),
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
        check(published(homes[name]), alone)


def published(settings: Settings) -> dict[str, list[dict[str, Any]]]:
    """The records of each run, by the words of the user; each of them is one run."""
    found = {}
    for run in by_run(settings).values():
        (user, *_), _ = turns(run)
        name = user["parts"][0]["content"]
        assert name not in found, "all attempts are one run"
        found[name] = run
    return found


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
        if case == "large" and events[-1].get("type", events[-1].get("object")) == LEFT_OUT:
            # On a busy machine the queue is full before all of the 100 MB has come, and the thread says that.
            assert 0 < events[-1]["bytes"] <= 100_000_243
            assert "no room" in events[-1]["reason"]
            assert agent["completion_status"] == "interrupted"
            continue
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
