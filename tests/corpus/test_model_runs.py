"""Runs of several calls, as SDKs made them of a scripted server's answers (`tests/sdks/model_corpus.py`)."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.dialects.recognition import recognise
from tests.support.assembled import Assembled, assembled

RUNS = Path(__file__).with_name("model_runs")
FILES = sorted(RUNS.glob("*/*.jsonl"))
FAILED = "failed"  # a finish that is none: the SDK says nothing of it


def said(response: dict[str, Any]) -> dict[str, Any]:
    """A response as the SDKs' programs tell it."""
    parts, usage = response["parts"], response.get("usage", {})
    texts = {kind: "".join(p["content"] for p in parts if p["part_kind"] == kind) for kind in ("text", "thinking")}
    calls = [{"name": p["tool_name"], "args": p["args"]} for p in parts if p["part_kind"] == "tool-call"]
    return {**texts, "calls": calls, "tokens": [usage.get("input_tokens"), usage.get("output_tokens")]}


def run_of(path: Path) -> tuple[Assembled, list[dict[str, Any]]]:
    events = [json.loads(line) for line in path.read_bytes().splitlines()]
    calls = json.loads(path.with_suffix(".expect.json").read_bytes())["calls"]
    return assembled(path.parent.name, events, end="disconnected"), calls


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_run_is_what_its_sdk_made_of_it(path: Path) -> None:
    run, calls = run_of(path)
    whole = [call for call in calls if call["finish"] not in (None, FAILED) and not call["error"]]
    responses = [message for message in run.messages("response") if "meta:purpose" not in message]
    assert [said(response) for response in responses] == [
        {key: call[key] for key in said(responses[0])} for call in whole
    ]
    assert run.refused == []
    assert run.agent_turns[-1]["completion_status"] == ("complete" if calls[-1] in whole else "interrupted")


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_each_call_of_a_whole_run_has_its_result(path: Path) -> None:
    run, _ = run_of(path)
    asked = [p["tool_call_id"] for m in run.messages("response") for p in m["parts"] if p["part_kind"] == "tool-call"]
    returned = [
        (p["tool_call_id"], p["tool_name"])
        for m in run.messages("request")
        for p in m["parts"]
        if p["part_kind"] == "tool-return"
    ]
    assert returned == [(call_id, "tide") for call_id in asked]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_its_wire_is_recognised(path: Path) -> None:
    events = [line for line in path.read_bytes().splitlines() if b'"turnmill.request"' not in line]
    dialect = recognise(b"\n".join(events))
    assert dialect is not None
    assert dialect.name == path.parent.name


@pytest.mark.parametrize("path", sorted(RUNS.glob("*/*-then-again.jsonl")), ids=lambda path: path.parent.name)
def test_what_a_call_had_shown_that_broke_off_is_beside_the_answer(path: Path) -> None:
    run, calls = run_of(path)
    key = "meta:partial" if path.parent.name == "mistral" else "meta:retracted"  # there, other words are asked next
    (shown,) = run.agent_turns[-1][key]["messages"]
    assert [part["content"] for part in shown["parts"]] == [call["text"] for call in calls if call["error"]]
