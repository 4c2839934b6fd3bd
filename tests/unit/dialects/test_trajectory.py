"""Trajectories validate as their own library does, and say what was said."""

from typing import Any

import pytest
from atif import Trajectory

from pipeline.dialects.trajectory import atif
from tests.unit.dialects.test_training import SYSTEM, THREAD, TOOL, conversation
from topics import json_text


def test_a_thread_is_a_trajectory() -> None:
    document, bodies = conversation()
    [made] = atif(document, bodies)
    read = Trajectory.model_validate(json_text.loads(json_text.dumps(made)))
    assert [step.source for step in read.steps] == ["system", "user", "agent", "agent", "user", "user", "agent"]
    assert (read.session_id, read.agent.tool_definitions) == (THREAD, [TOOL])
    assert read.steps[0].message == SYSTEM["content"]
    called = read.steps[2]
    assert called.tool_calls is not None
    assert called.observation is not None
    assert [(one.function_name, one.arguments) for one in called.tool_calls] == [("weather", {"city": "Paris"})]
    assert [(one.source_call_id, one.content) for one in called.observation.results] == [("c1", "72F")]
    assert [step.message for step in read.steps if step.source == "agent"] == ["", "Warm.", "Hot."]
    assert [one["turn_id"] for one in made["extra"]["turns"]] == [turn["meta:turn_id"] for turn in document["turns"]]


def test_a_new_system_prompt_is_a_step() -> None:
    document, bodies = conversation()
    document["turns"][-1]["messages"][0]["meta:request"] = {"sha256": "new"}
    [made] = atif(document, {**bodies, "new": {"instructions": "be kind"}})
    assert [step["message"] for step in made["steps"] if step["source"] == "system"][-1] == "be kind"
    Trajectory.model_validate(made)


@pytest.mark.parametrize("args", [None, "no JSON", ["a list"], {"a": 1}])
def test_what_is_odd_validates(args: Any) -> None:
    document, bodies = conversation()
    agent = next(turn for turn in document["turns"] if turn["turn_type"] == "agent")
    agent["messages"][0]["parts"] = [
        {"part_kind": "thinking", "content": "Hm."},
        {"part_kind": "builtin-tool-call", "tool_name": "search", "tool_call_id": "s", "args": args},
        {"part_kind": "builtin-tool-return", "tool_name": "search", "tool_call_id": "s", "content": {"found": 1}},
        {"part_kind": "text", "content": "So."},
    ]
    picture = {"kind": "binary", "data": "AAAA", "media_type": "image/png"}
    document["turns"][0]["parts"] = [{"part_kind": "user-prompt", "content": ["Look:", picture, {"kind": "odd"}]}]
    read = Trajectory.model_validate(next(atif(document, bodies)))
    assert isinstance(read.steps[1].message, list)
    assert [piece.type for piece in read.steps[1].message] == ["text", "image", "text"]
    observed = read.steps[2].observation
    assert observed is not None
    assert [one.source_call_id for one in observed.results] == ["s", None]  # the result of a call that is gone


def test_a_thread_without_agent_turns_is_a_trajectory() -> None:
    document, _ = conversation()
    Trajectory.model_validate(next(atif({**document, "turns": document["turns"][:1]}, {})))
