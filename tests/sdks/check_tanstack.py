"""TanStack AI's own stream of a conversation of two calls to a model, with two tools between, is what it said."""

import json
import subprocess
from pathlib import Path

from tests.support import npm
from tests.support.assembled import assembled

SOURCES = Path(__file__).with_name("tanstack")


def test_a_conversation_of_two_calls_is_right() -> None:
    home = npm.installed(SOURCES, "sdks/tanstack")
    done = subprocess.run(["node", home / "chat.mjs"], capture_output=True, text=True, check=True, timeout=60)
    got = assembled("ag-ui", [json.loads(line) for line in done.stdout.splitlines()])
    assert not got.refused
    (turn,) = got.agent_turns
    calls, results, answer = turn["messages"]
    assert turn["completion_status"] == "complete"
    assert [(part["tool_call_id"], part["args"]) for part in calls["parts"]] == [
        ("call_1", {"city": "Bern"}),
        ("call_2", {"city": "Rome"}),
    ]
    assert [(part["tool_call_id"], json.loads(part["content"])["city"]) for part in results["parts"]] == [
        ("call_1", "Bern"),
        ("call_2", "Rome"),
    ]
    assert [part["content"] for part in answer["parts"]] == ["Both are sunny today."]
    assert (calls["finish_reason"], answer["finish_reason"]) == ("tool_call", "stop")
    used = [(message["usage"]["input_tokens"], message["usage"]["output_tokens"]) for message in (calls, answer)]
    assert (used, turn["total_usage"]["input_tokens"]) == ([(40, 8), (20, 10)], 60)
