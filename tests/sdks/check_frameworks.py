"""Frameworks with one line of ours, real ones before a scripted server: what is assembled is what each has itself.

Part of `make test-sdks`; no broker is needed, since what can't be sent is in the spool.
"""

import shutil
from pathlib import Path

import httpx
import pytest

from pipeline.devbroker.ports import free_ports
from tests.sdks.python_sdks import HERE, run, server
from tests.sdks.python_sdks import environment as python_of
from tests.sdks.recordings import assembled, by_run, recorded, turns
from tests.sdks.scripted import CASES
from tests.support.spools import away
from tests.support.workers import environment

HELPERS = {"google-adk": "google_adk_helper_recorder.py", "langgraph": "langchain_helper_recorder.py"}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sdk", HELPERS)
def test_what_is_assembled_is_what_the_framework_made(sdk: str, case: str) -> None:
    runs = [found for name, found in recorded(sdk, HELPERS[sdk]).items() if name.endswith(f": {case}")]
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
    runs = {found[0]["run"].get("external_id"): found for found in by_run(settings).values()}
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


@pytest.mark.parametrize("command", ["api_server", "web"])
def test_adk_serves_agents_with_our_plugin_and_no_line_of_theirs(command: str, tmp_path: Path) -> None:
    settings, (port,) = away(tmp_path), free_ports(1)
    agents = shutil.copytree(HERE / "google_adk_agents", tmp_path / "agents")
    adk = [python_of("google-adk").with_name("adk"), command, "--extra_plugins", "turnmill.AdkPlugin"]
    told = {"PYTHONPATH": str(HERE.parents[1]), **environment(settings)}
    with server([*adk, "--port", str(port), agents], port, told), httpx.Client(timeout=30) as http:
        address = f"http://127.0.0.1:{port}"
        http.post(f"{address}/apps/weather/users/u/sessions/s1", json={}).raise_for_status()
        asked = {"role": "user", "parts": [{"text": "How is the weather?"}]}
        of = {"appName": "weather", "userId": "u", "sessionId": "s1"}
        http.post(f"{address}/run", json={**of, "newMessage": asked}).raise_for_status()
    [records] = by_run(settings).values()
    assert (records[0]["run"]["external_id"], records[0]["agent_id"]) == ("weather:u:s1", "weather")
    (user, agent), refused = turns(records)
    assert refused == []
    assert "How is the weather?" in str(user)
    assert "It rains." in str(agent)
    assert agent["completion_status"] == "complete"
