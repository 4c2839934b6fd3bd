"""A real server of AG-UI, recorded there and then, and a real client: what is assembled is what the client holds."""

import json
from functools import cache
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from pipeline.devbroker.ports import free_ports
from pipeline.settings import Settings
from tests.sdks import node_sdks
from tests.sdks.python_sdks import HERE, run, server
from tests.sdks.python_sdks import environment as sdk_environment
from tests.sdks.recordings import assembled, by_thread
from tests.sdks.scripted import BAD_ENDS, CASES, QUESTION
from tests.support.places import ROOT
from tests.support.spools import away
from tests.support.workers import environment
from turnmill.identity import thread_uuid

PLAYED = [case for case, answers in CASES.items() if not any(answer.short for answer in answers)]


@cache
def recorded(way: str) -> dict[str, tuple[dict[str, Any], list[dict[str, Any]]]]:
    """By case: what the client makes of the stream, and the records that the server has published."""
    with TemporaryDirectory() as folder:
        settings = away(Path(folder))
        read = WAYS[way](settings, Path(folder))
        records = by_thread(settings)
    assert list(records) == PLAYED
    for case, found in read.items():
        assert (found["problem"] is None) == (case not in BAD_ENDS), (case, found["problem"])
    return {case: (truth(**read[case]), records[case]) for case in read}


def one_response(settings: Settings, folder: Path) -> dict[str, Any]:
    """The server publishes its response; the client reads what that was."""
    told = run("pydantic-ai-2.68.0", "ag_ui_recorder.py", variables=environment(settings))
    return dict(node_sdks.run("ag_ui_reads.mjs", told, folder))


def middleware(settings: Settings, folder: Path) -> dict[str, Any]:
    """The client and the server speak over HTTP. Nobody names a thread or a run but the client."""
    (port,) = free_ports(1)
    python = sdk_environment("pydantic-ai-2.68.0")
    with server([python, HERE / "ag_ui_server.py", str(port)], port, environment(settings, PYTHONPATH=str(ROOT))):
        url, asked = f"http://127.0.0.1:{port}/agent", [{"id": "question", "role": "user", "content": QUESTION}]
        requests = {case: {"threadId": case, "runId": case, "messages": asked} for case in PLAYED}
        given = {case: {"request": request, "url": url} for case, request in requests.items()}
        return dict(node_sdks.run("ag_ui_reads.mjs", given, folder))


WAYS = {"one response": one_response, "middleware": middleware}


def truth(messages: list[dict[str, Any]], problem: str | None) -> dict[str, Any]:
    """A client's messages behind the user's, as tests/corpus/compare_wires.py judges by them."""
    said = [part for message in messages[1:] for part in parts(message)]
    content = [(kind, [part for _, part in found]) for kind, found in groupby(said, lambda one: one[0])]
    whole, broken = (content, None) if problem is None else (None, content)
    known = {
        "dialect": "ag-ui",
        "complete": problem is None,
        "failed": None,
    }  # the response is whole: RUN_ERROR is in it
    return {**known, "content": whole, "at_most": broken, "tokens": None}


def parts(message: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    content = message.get("content")
    match message["role"]:
        case "tool":
            retried = '"outcome": "retried"' in message.get("encryptedValue", "")  # as Pydantic AI says it
            how = "error" if retried or message.get("error") else "success"
            return [("request", ["tool-return", message["toolCallId"], content, how])]
        case "reasoning":
            return [("response", ["thinking", content])]
    calls = [(call["function"], call["id"]) for call in message.get("toolCalls", ())]
    called = [["tool-call", f["name"], call_id, arguments(f["arguments"])] for f, call_id in calls]
    return [("response", part) for part in [*([["text", content]] if content else []), *called]]


def arguments(text: str) -> Any:
    """An object, or as much of its text as came."""
    try:
        return json.loads(text)
    except ValueError:
        return text


@pytest.mark.parametrize("case", PLAYED)
@pytest.mark.parametrize("way", WAYS)
def test_what_is_assembled_is_what_the_client_holds(way: str, case: str) -> None:
    said, records = recorded(way)[case]
    assert records[0]["thread_id"] == thread_uuid(case)[0]
    assembled(said, records)
