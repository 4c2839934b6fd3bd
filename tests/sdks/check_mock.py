"""The SDKs of providers, run again before `turnmill mock`: they hear what they heard, and publish the same turns.

SDKs for Python and Node, against a scripted upstream and then against the mock of what was captured. Part of `make
test-sdks`; no broker is needed, since what can't be sent is in the spool.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.assembly.offline import assemble
from pipeline.cli.mock.calls import Call, as_recorded, calls_of, frozen, thawed
from pipeline.cli.mock.matching import Tape
from pipeline.cli.mock.serving import Mock
from pipeline.dialects import DIALECTS
from pipeline.settings import Settings
from pipeline.turns.canonical import turn_hash
from pipeline.turns.thread_document import thread_document
from tests.sdks.check_proxy import CALLS, CITIES
from tests.sdks.proxied import ANSWER, KEY, WITHIN, clients, speaks
from tests.sdks.python_sdks import HERE, environment
from tests.sdks.recordings import by_run
from tests.support.places import ROOT
from tests.support.spools import away
from tests.support.upstream import Answering, Asked, gemini_events, playing
from tests.support.workers import environment as variables

NODE = ("ai-responses", "ai-chat", "ai-messages")
PYTHON = ("responses", "kept", "chat", "chat_whole", "messages", "gemini", "gemini_whole")


async def provider(asked: Asked, answer: Answering) -> None:
    """Ask for the weather of two cities, one after the other, then answer."""
    path = asked.line.split()[1].partition("?")[0]
    before = asked.json.get("previous_response_id")  # the server keeps the history
    told = asked.body.decode().count("It is sunny in ")
    answered = told if before is None else 1 + [f"resp_call_{city}" for city in CITIES].index(before)
    if not asked.json.get("tools") or (answered == len(CITIES) and "gemini" not in path):
        await speaks(asked, answer)
    elif "gemini" not in path:
        call = next(call for end, call in CALLS.items() if path.endswith(end))
        arguments = json.dumps({"city": CITIES[answered]})
        events = call(f"call_{CITIES[answered]}", "weather", arguments)
        if "response" in events[0]:  # an id for all of its events
            events[0]["response"] = {**events[0]["response"], "id": events[-1]["response"]["id"]}
        await answer.stream(*events, done=path.endswith("completions"))
    else:
        (event,) = gemini_events(ANSWER)
        if answered < len(CITIES):
            call = {"name": "weather", "args": {"city": CITIES[answered]}}
            event["candidates"][0]["content"]["parts"] = [{"functionCall": call}]
        await (answer.stream(event) if path.endswith(":streamGenerateContent") else answer.whole(event))


async def spoken(home: Path, url: str, program: tuple[str | Path, ...]) -> tuple[dict[str, Any], Settings]:
    """What a program printed under `turnmill run` with its providers at this address; what it has published."""
    settings = away(home, capture_hosts="127.0.0.1=test")
    version = "/v1" if "ai-messages" in program else ""
    addresses = {"OPENAI_BASE_URL": f"{url}/v1", "ANTHROPIC_BASE_URL": url + version, "GOOGLE_GEMINI_BASE_URL": url}
    keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), KEY)
    own = {**variables(settings), **addresses, **keys, "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    python = program[0] if str(program[0]).endswith("python") else sys.executable
    process = await asyncio.create_subprocess_exec(
        *map(str, (python, "-m", "turnmill", "run", "--", *program)), env=own, cwd=ROOT, stdout=-1, stderr=-1
    )
    out, problems = await asyncio.wait_for(process.communicate(), WITHIN)
    assert process.returncode == 0, problems.decode()
    return json.loads(out.decode().splitlines()[-1]), settings


def stored(settings: Settings) -> tuple[list[Call], list[Call], list[str]]:
    """The calls of what was published, rebuilt and as recorded; the hashes of the agent's turns."""
    runs = by_run(settings)
    made = [one for run in runs.values() for one in assemble(DIALECTS[run[0]["dialect"]], run, keep_requests=True)[0]]
    document = thread_document(made[0]["thread_id"], made)
    bodies = {name: body for one in made for name, body in one.get("requests", {}).items()}
    rebuilt = calls_of(document, {one["turn_id"]: one for one in made}, bodies)
    recorded = as_recorded(rebuilt, {one["hash"] for one in made}, runs, lambda event: event)
    turns = [turn for turn in document["turns"] if turn["turn_type"] == "agent"]
    return rebuilt, recorded, [turn_hash({**turn, "agent_id": "a"}) for turn in turns]


def command(sdk: str) -> tuple[str | Path, ...]:
    if sdk in PYTHON:
        return environment("providers"), HERE / "mock_program.py", sdk
    return "node", clients() / "speak.mjs", sdk, "steps"


@pytest.mark.parametrize("sdk", [*PYTHON, *NODE])
async def test_an_sdk_hears_again_what_it_heard(sdk: str, tmp_path: Path) -> None:
    async with playing(provider) as upstream:
        said, settings = await spoken(tmp_path / "before", upstream.url, command(sdk))
    assert said == {**said, "text": ANSWER}, said
    rebuilt, recorded, hashes = stored(settings)
    assert len(recorded) == (1 if sdk == "chat_whole" else 3)
    assert {call.whole.recorded or call.stream.recorded for call in recorded} == {True}
    for name, calls in {"recorded": recorded, "rebuilt": rebuilt, "frozen": thawed(frozen(recorded), "it")}.items():
        tape = Tape(calls, strict=True)
        async with Mock(tape).serving() as url:
            again, settings = await spoken(tmp_path / name, url, command(sdk))
        assert again == said, name
        assert tape.unused == []
        assert stored(settings)[2] == hashes, name


@pytest.mark.parametrize("sdk", ["responses", "messages", "gemini", "ai-chat", "ai-messages"])
async def test_an_sdk_shows_how_its_request_differs(sdk: str, tmp_path: Path) -> None:
    async with playing(provider) as upstream:
        _, settings = await spoken(tmp_path / "before", upstream.url, command(sdk))
    calls, _, _ = stored(settings)
    member = "contents" if sdk == "gemini" else "input" if sdk == "responses" else "messages"
    for call in calls:
        call.request[member][0].update({"parts": [{"text": "Rain?"}]} if sdk == "gemini" else {"content": "Rain?"})
    async with Mock(Tape(calls)).serving() as url:
        said, _ = await spoken(tmp_path / "again", url, command(sdk))
    assert said["status"] == 400
    assert "Rain?" in said["problem"]
