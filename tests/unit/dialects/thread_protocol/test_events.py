"""ThreadProtocol objects as events."""

import copy
from typing import Any

import pytest

from tests.corpus.compare_pydantic import THREAD_ID, assembled_with_refusals
from topics.thread_rules import check

Event = dict[str, Any]

OTHER_ID = "6f1d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e12"
USER: Event = {
    "turn_type": "user",
    "submitted_at": "2026-01-20T16:58:00Z",
    "parts": [{"part_kind": "user-prompt", "content": "hi"}],
    "client_metadata": {"app:version": "3"},
}
MESSAGE: Event = {
    "message_type": "response",
    "timestamp": "2026-01-20T16:58:02Z",
    "agent_id": "writer",
    "parts": [{"part_kind": "text", "content": "yo"}, {"part_kind": "custom:card", "n": 1}],
}
AGENT: Event = {
    "turn_type": "agent",
    "agent_id": "writer",
    "started_at": "2026-01-20T16:58:01Z",
    "completed_at": "2026-01-20T16:58:03Z",
    "completion_status": "complete",
    "messages": [MESSAGE],
    "vendor": {"x": 1},
}


def thread(*events: Event, **envelope: Any) -> Event:
    document, refused = assembled_with_refusals(list(events), "thread-protocol", **envelope)
    assert not refused
    assert not [finding for finding in check(document) if finding.severity == "error"]
    return document


def refusal(event: Event) -> str:
    document, refused = assembled_with_refusals([event], "thread-protocol")
    assert len(refused) == 1
    assert document["turns"] == []
    return refused[0].detail


def without_ids(turn: Event) -> Event:
    return {key: value for key, value in turn.items() if key not in ("meta:turn_id", "meta:run_id")}


@pytest.mark.parametrize("spread", [False, True])
def test_turns_come_through_as_they_are(spread: bool) -> None:  # noqa: FBT001  # pytest passes it by name
    events = [
        {"type": kind, **turn} if spread else {"type": kind, "turn": turn}
        for kind, turn in (("user-turn", USER), ("agent-turn", AGENT))
    ]
    document = thread(*copy.deepcopy(events))
    assert [without_ids(turn) for turn in document["turns"]] == [USER, AGENT]
    assert list(document["agents"]) == ["writer"]


def test_a_turn_may_come_without_its_type() -> None:
    turn = {key: value for key, value in USER.items() if key != "turn_type"}
    assert thread({"type": "user-turn", "turn": turn})["turns"][0]["turn_type"] == "user"


def test_0_0_3_turns_are_complete_ones() -> None:
    turn = {key: value for key, value in AGENT.items() if key != "completion_status"}
    assert thread({"type": "agent-turn", "turn": turn})["turns"][0]["completion_status"] == "complete"


def test_an_interrupted_turn_stays_one() -> None:
    how = {"reason": "timeout", "interrupted_at": "2026-01-20T16:58:03Z"}
    turn = {**AGENT, "completion_status": "interrupted", "interruption": how}
    del turn["completed_at"]
    assert thread({"type": "agent-turn", "turn": turn})["turns"][0]["interruption"] == how


def test_the_mapping_documents_forms_are_read() -> None:
    first = {**MESSAGE, "message_type": "request", "timestamp": "2026-01-20T16:58:01Z", "parts": USER["parts"]}
    turn = {**AGENT, "messages": [first, {**MESSAGE, "finish_reason": "tool_calls"}]}
    document = thread({"type": "user-turn", "turn": USER}, {"type": "agent-turn", "turn": turn})
    assert document["turns"][1]["messages"] == [{**MESSAGE, "finish_reason": "tool_call"}]


def test_a_result_may_answer_an_earlier_turn() -> None:
    answer = {"part_kind": "tool-return", "tool_name": "f", "tool_call_id": "c", "status": "success", "content": 1}
    first = {**MESSAGE, "message_type": "request", "parts": [answer]}
    document, refused = assembled_with_refusals(
        [{"type": "agent-turn", "turn": {**AGENT, "messages": [first, MESSAGE]}}], "thread-protocol"
    )
    assert not refused
    assert document["turns"][0]["messages"][0]["parts"] == [answer]


def test_agents() -> None:
    config = {"agent_id": "writer", "agent_name": "Ann", "created_at": "2026-01-01T00:00:00Z", "config_ref": "s3://b/k"}
    document = thread({"type": "agent-config", "agent": config}, {"type": "agent-config", "agent_id": "other"})
    assert document["agents"]["writer"] == config
    assert document["agents"]["other"]["agent_name"] == "other"
    assert document["turns"] == []


def test_the_publishers_name_for_its_agent() -> None:
    event = {"type": "agent-turn", "turn": AGENT}
    document = thread(event, agent_id="writer", run={"agent_name": "Ann", "model_name": "m"})
    assert {"agent_name": "Ann", "model_name": "m"}.items() <= document["agents"]["writer"].items()
    config = {"agent_id": "writer", "agent_name": "Bob", "created_at": "2026-01-01T00:00:00Z"}
    document = thread({"type": "agent-config", "agent": config}, event, agent_id="writer", run={"agent_name": "Ann"})
    assert document["agents"]["writer"]["agent_name"] == "Bob"


def test_facts_of_the_thread() -> None:
    document = thread(
        {"type": "thread-metadata", "title": "First", "metadata": {"a": 1, "b": 1}},
        {"type": "thread-metadata", "title": "Second", "metadata": {"b": 2}},
        {"type": "thread-link", "link": {"thread_id": OTHER_ID, "relation": "referenced"}},
        {"type": "thread-link", "from": OTHER_ID, "thread_id": THREAD_ID, "relation": "spawned_from"},
    )
    assert document["title"] == "Second"
    assert document["metadata"] == {"a": 1, "b": 2}
    assert document["relationships"] == {"links": [{"thread_id": OTHER_ID, "relation": "referenced"}]}


@pytest.mark.parametrize(
    ("event", "detail"),
    [
        ({"type": "agent-turn", "turn": {**AGENT, "messages": [{**MESSAGE, "parts": [{"part_kind": "text"}]}]}},
         "turn.messages[0].parts[0].content: 'content' is required"),
        ({"type": "agent-turn", "turn": {**AGENT, "started_at": "soon"}}, "turn.started_at: "),
        ({"type": "agent-turn", "turn": {**AGENT, "agent_id": 7}}, "turn.agent_id: "),
        ({"type": "user-turn", "turn": {**USER, "client_metadata": {"version": 3}}}, "turn.client_metadata"),
        ({"type": "user-turn", "turn": AGENT}, "turn.turn_type: "),
        ({"type": "user-turn", "turn": "hi"}, "turn: an object is expected"),
        ({"type": "agent-config", "agent": {"agent_id": "a", "agent_name": 7}}, "agent.agent_name: "),
        ({"type": "agent-config", "agent": {}}, "'agent_id' is missing"),
        ({"type": "thread-metadata", "title": 7}, "title: "),
        ({"type": "thread-metadata", "metadata": []}, "metadata: "),
        ({"type": "thread-link", "link": {"thread_id": "no", "relation": "referenced"}}, "link.thread_id: "),
        ({"type": "thread-link", "link": {"thread_id": OTHER_ID, "relation": "x", "from": "no"}}, "link.from: "),
        ({"type": "agent-turns"}, "is none of user-turn, agent-turn, agent-config, thread-metadata, thread-link"),
    ],
)  # fmt: skip
def test_what_breaks_the_specification_is_refused_with_its_path(event: Event, detail: str) -> None:
    assert detail in refusal(event)
