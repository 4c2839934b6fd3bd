"""0.0.3 <-> 0.0.4, and the forms of the mapping document's example."""

import copy
from typing import Any

import pytest

from topics.thread_rules import check
from topics.thread_versions import downgrade, repeat_user_prompt, upgrade
from turnmill.errors import InvalidRecord

TIMES = ("2026-01-20T10:00:00Z", "2026-01-20T10:00:01Z", "2026-01-20T10:00:02Z", "2026-01-20T10:00:03Z")


def example() -> dict[str, Any]:
    """0.0.3, in the form of the mapping document's example: `tool_calls`, and the prompt said twice."""
    prompt = {"part_kind": "user-prompt", "content": "Weather in Paris?"}
    return {
        "version": "0.0.3",
        "thread_id": "6f1d6f5e-6f0a-5c0b-9d51-7d3a2b0c4e11",
        "created_at": TIMES[0],
        "updated_at": TIMES[3],
        "agents": {"w": {"agent_id": "w", "agent_name": "Weather", "created_at": TIMES[0]}},
        "turns": [
            {"turn_type": "user", "submitted_at": TIMES[0], "parts": [prompt]},
            {
                "turn_type": "agent",
                "agent_id": "w",
                "started_at": TIMES[0],
                "completed_at": TIMES[3],
                "messages": [
                    {"message_type": "request", "timestamp": TIMES[0], "agent_id": "w", "parts": [dict(prompt)]},
                    {
                        "message_type": "response",
                        "timestamp": TIMES[1],
                        "agent_id": "w",
                        "finish_reason": "tool_calls",
                        "parts": [{"part_kind": "tool-call", "tool_name": "get", "tool_call_id": "c", "args": {}}],
                    },
                ],
            },
        ],
    }


def test_upgrade_reads_the_examples_forms() -> None:
    given = example()
    kept = copy.deepcopy(given)
    new = upgrade(given)
    turn = new["turns"][1]
    assert given == kept
    assert new["version"] == "0.0.4"
    assert turn["completion_status"] == "complete"
    assert [m["message_type"] for m in turn["messages"]] == ["response"]
    assert turn["messages"][0]["finish_reason"] == "tool_call"
    assert check(new) == []
    assert upgrade(new) == new


def test_there_and_back() -> None:
    new = upgrade(example())
    old = downgrade(new)
    assert check(old) == []
    assert "completion_status" not in old["turns"][1]
    assert upgrade(old) == new
    assert downgrade(old) == old


def test_downgrade_drops_interrupted_turns() -> None:
    new = upgrade(example())
    cut = {key: value for key, value in new["turns"][1].items() if key != "completed_at"}
    cut |= {"completion_status": "interrupted", "interruption": {"reason": "error", "interrupted_at": TIMES[3]}}
    new["turns"].append(cut)
    assert [turn["turn_type"] for turn in downgrade(new)["turns"]] == ["user", "agent"]


def test_downgrade_gives_the_completion_time_that_0_0_3_requires() -> None:
    new = upgrade(example())
    del new["turns"][1]["completed_at"]
    assert downgrade(new)["turns"][1]["completed_at"] == TIMES[1]
    new["turns"][1]["messages"] = []
    assert downgrade(new)["turns"][1]["completed_at"] == TIMES[0]


def test_the_prompt_is_repeated_once_and_taken_away_again() -> None:
    new = upgrade(example())
    repeated = repeat_user_prompt(new)
    assert repeated["turns"][1]["messages"][0] == example()["turns"][1]["messages"][0]
    assert check(repeated) == []
    assert repeat_user_prompt(repeated) == repeated
    assert upgrade(repeated) == new


def test_only_the_turn_behind_the_user_repeats_the_prompt() -> None:
    new = upgrade(example())
    new["turns"].append(new["turns"][1])
    assert [len(turn["messages"]) for turn in repeat_user_prompt(new)["turns"][1:]] == [2, 1]


@pytest.mark.parametrize(
    ("repeated", "left"),
    [
        ([{"part_kind": "user-prompt", "content": ["Weather in Paris?"]}], None),
        ([{"part_kind": "user-prompt", "content": "Weather in Paris?", "timestamp": "later"}], None),
        (
            [
                {"part_kind": "user-prompt", "content": "Weather in Paris?"},
                {"part_kind": "user-prompt", "content": "Now!"},
            ],
            [{"part_kind": "user-prompt", "content": "Now!"}],
        ),
        ([{"part_kind": "user-prompt", "content": "Rome?"}], [{"part_kind": "user-prompt", "content": "Rome?"}]),
        (
            [{"part_kind": "user-prompt", "content": "Weather in Paris?", "meta:lang": "en"}],
            [{"part_kind": "user-prompt", "content": "Weather in Paris?", "meta:lang": "en"}],
        ),
    ],
)
def test_what_a_first_request_says_beyond_the_prompt_stays(repeated: list[Any], left: list[Any] | None) -> None:
    given = example()
    given["turns"][1]["messages"][0]["parts"] = repeated
    messages = upgrade(given)["turns"][1]["messages"]
    assert (messages[0]["parts"] if messages[0]["message_type"] == "request" else None) == left


def test_a_first_request_with_fields_of_its_own_stays_without_the_prompt() -> None:
    given = example()
    given["turns"][1]["messages"][0]["instructions"] = "Be brief."
    first = upgrade(given)["turns"][1]["messages"][0]
    assert (first["parts"], first["instructions"]) == ([], "Be brief.")


@pytest.mark.parametrize("document", [None, [], "x", {}, {"version": "0.0.5"}, {"version": ["0.0.3"]}])
def test_other_documents_are_refused(document: Any) -> None:
    for change in (upgrade, downgrade, repeat_user_prompt):
        with pytest.raises(InvalidRecord):
            change(document)
