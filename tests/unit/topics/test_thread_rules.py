"""One broken document for each rule: where the finding is, how severe, and that the sound document has none."""

import copy
from typing import Any

import pytest

from topics.thread_rules import check, moment

THREAD_ID = "6f1d6f5e-6f0a-5c0b-9d51-7d3a2b0c4e11"


def sound() -> dict[str, Any]:
    """A thread with a user turn, a complete turn with a tool cycle, and an interrupted turn of another agent."""
    return {
        "version": "0.0.4",
        "thread_id": THREAD_ID,
        "created_at": "2026-01-20T10:00:00Z",
        "updated_at": "2026-01-20T10:02:00.5+01:00",
        "agents": {
            name: {"agent_id": name, "agent_name": name.title(), "created_at": "2026-01-20T10:00:00Z"}
            for name in ("planner", "weather")
        },
        "turns": [
            {
                "turn_type": "user",
                "submitted_at": "2026-01-20T10:00:00Z",
                "parts": [{"part_kind": "user-prompt", "content": ["hi", {"kind": "cache-point"}]}],
                "client_metadata": {"app.screen": "main", "x:y": 1},
            },
            {
                "turn_type": "agent",
                "agent_id": "planner",
                "started_at": "2026-01-20T10:00:00Z",
                "completed_at": "2026-01-20T10:00:05Z",
                "completion_status": "complete",
                "messages": [
                    {
                        "message_type": "response",
                        "timestamp": "2026-01-20T10:00:01Z",
                        "agent_id": "planner",
                        "finish_reason": "tool_call",
                        "usage": {"input_tokens": 5, "cache_read_tokens": 2},
                        "parts": [
                            {"part_kind": "thinking", "content": "hm"},
                            {"part_kind": "tool-call", "tool_name": "get", "tool_call_id": "c1", "args": {"a": 1}},
                            {"part_kind": "custom:badge", "anything": [1]},
                        ],
                    },
                    {
                        "message_type": "request",
                        "timestamp": "2026-01-20T10:00:02Z",
                        "agent_id": "planner",
                        "parts": [
                            {
                                "part_kind": "tool-return",
                                "tool_name": "get",
                                "tool_call_id": "c1",
                                "status": "success",
                                "content_ref": {"uri": "s3://bucket/key", "size_bytes": 200_000},
                            }
                        ],
                    },
                    {
                        "message_type": "system",
                        "timestamp": "2026-01-20T10:00:03Z",
                        "event_type": "data-app-chart",
                        "event_data": {"points": []},
                    },
                    {
                        "message_type": "response",
                        "timestamp": "2026-01-20T10:00:04Z",
                        "agent_id": "planner",
                        "finish_reason": "tool_call",
                        "parts": [{"part_kind": "tool-call", "tool_name": "ask", "tool_call_id": "c2", "args": None}],
                    },
                ],
            },
            {
                "turn_type": "agent",
                "agent_id": "weather",
                "started_at": "2026-01-20T10:00:06Z",
                "completion_status": "interrupted",
                "interruption": {"reason": "timeout", "interrupted_at": "2026-01-20T10:00:08Z"},
                "messages": [
                    {
                        "message_type": "response",
                        "timestamp": "2026-01-20T10:00:07Z",
                        "agent_id": "weather",
                        "parts": [{"part_kind": "text", "content": "Sun"}],
                    }
                ],
            },
        ],
        "relationships": {"links": [{"thread_id": THREAD_ID, "relation": "spawned_from"}]},
    }


def at(document: dict[str, Any], path: tuple[str | int, ...]) -> Any:
    found: Any = document
    for step in path:
        found = found[step]
    return found


def changed(*path: str | int, to: Any) -> dict[str, Any]:
    document = sound()
    at(document, path[:-1])[path[-1]] = to
    return document


def without(*path: str | int) -> dict[str, Any]:
    document = sound()
    del at(document, path[:-1])[path[-1]]
    return document


TURN = ("turns", 1)
MESSAGES = (*TURN, "messages")
CALL = (*MESSAGES, 0, "parts", 1)
RETURN = (*MESSAGES, 1, "parts", 0)
CUT = ("turns", 2)


def test_a_sound_thread_has_no_findings() -> None:
    assert check(sound()) == []


def test_only_the_end_of_a_complete_turn_may_hold_an_open_call() -> None:
    document = sound()
    document["turns"][1]["messages"].append(document["turns"][1]["messages"][0] | {"timestamp": "2026-01-20T10:00:05Z"})
    assert [(f.rule, f.path) for f in check(document)] == [("cycles", "turns[1].messages[3].parts[0]")]


@pytest.mark.parametrize(
    ("document", "rule", "severity", "path"),
    [
        (changed("created_at", to="20 January"), 1, "error", "created_at"),
        (changed("updated_at", to="2026-02-30T00:00:00Z"), 1, "error", "updated_at"),
        (changed("agents", "weather", "created_at", to="2026"), 1, "error", "agents.weather.created_at"),
        (changed("turns", 0, "submitted_at", to=""), 1, "error", "turns[0].submitted_at"),
        (changed(*CUT, "interruption", "interrupted_at", to="now"), 1, "error", "turns[2].interruption.interrupted_at"),
        (changed("created_at", to="2026-01-20T10:00:00"), 1, "warning", "created_at"),
        (changed(*RETURN, "tool_call_id", to="nope"), 2, "error", "turns[1].messages[1].parts[0].tool_call_id"),
        (changed(*RETURN, "tool_name", to="put"), 2, "warning", "turns[1].messages[1].parts[0].tool_name"),
        (
            changed(*RETURN, to={"part_kind": "retry-prompt", "content": "again", "tool_call_id": "x"}),
            2,
            "warning",
            "turns[1].messages[1].parts[0].tool_call_id",
        ),
        (changed(*TURN, "agent_id", to="ghost"), 3, "error", "turns[1].agent_id"),
        (changed(*MESSAGES, 0, "agent_id", to="ghost"), 3, "error", "turns[1].messages[0].agent_id"),
        (changed("agents", "weather", "agent_id", to="w"), 3, "warning", "agents.weather.agent_id"),
        (changed(*TURN, "completed_at", to="2026-01-20T09:59:59Z"), 4, "error", "turns[1].started_at"),
        (changed(*CUT, "started_at", to="2026-01-20T10:00:04Z"), 4, "warning", "turns[2].started_at"),
        (changed("turns", 0, "submitted_at", to="2026-01-20T10:00:01Z"), 4, "warning", "turns[1].started_at"),
        (changed(*MESSAGES, 1, "timestamp", to="2026-01-20T10:00:00Z"), 5, "error", "turns[1].messages[1].timestamp"),
        (changed(*MESSAGES, 2, "timestamp", to="2026-01-20T10:00:00Z"), 5, "warning", "turns[1].messages[2].timestamp"),
        (changed("turns", 0, "client_metadata", to={"bare": 1}), 6, "error", "turns[0].client_metadata.bare"),
        (changed("turns", 0, "client_metadata", to={"a b": 1}), 6, "error", 'turns[0].client_metadata["a b"]'),
        (
            changed(*RETURN, "content_ref", "uri", to="no scheme"),
            7,
            "error",
            "turns[1].messages[1].parts[0].content_ref.uri",
        ),
        (
            changed(*RETURN, "content_ref", "uri", to="s3:///key"),
            7,
            "error",
            "turns[1].messages[1].parts[0].content_ref.uri",
        ),
        (
            changed(*RETURN, "content_ref", "uri", to="file:///x"),
            7,
            "warning",
            "turns[1].messages[1].parts[0].content_ref.uri",
        ),
        (
            changed(*RETURN, "content_ref", "uri", to="ipfs://x"),
            7,
            "warning",
            "turns[1].messages[1].parts[0].content_ref.uri",
        ),
        (changed("relationships", "links", 0, "thread_id", to="t-1"), 8, "error", "relationships.links[0].thread_id"),
        (changed("thread_id", to=THREAD_ID.replace("-", "")), "schema", "error", "thread_id"),
        (without(*CUT, "interruption"), "interruption", "error", "turns[2].interruption"),
        (changed(*CUT, "interruption", "reason", to=""), "interruption", "error", "turns[2].interruption"),
        (changed(*CUT, "completed_at", to="2026-01-20T10:00:08Z"), "completed_at", "error", "turns[2].completed_at"),
        (
            changed(*TURN, "interruption", to=at(sound(), CUT)["interruption"]),
            "interruption",
            "warning",
            "turns[1].interruption",
        ),
        (without(*TURN, "completed_at"), "completed_at", "warning", "turns[1].completed_at"),
        (changed(*CUT, "messages", 0, "parts", to=[]), "cycles", "warning", "turns[2].messages[0].parts"),
        (without(*MESSAGES, 1), "cycles", "warning", "turns[1].messages[0].parts[1]"),
        (changed(*CALL, "args", to='{"a": 1}'), "tool-args", "error", "turns[1].messages[0].parts[1].args"),
        (
            changed("turns", 0, "parts", 0, to={"part_kind": "system-prompt", "content": "Be kind"}),
            "system-prompt",
            "error",
            "turns[0].parts[0].part_kind",
        ),
        (changed(*CALL, to={"part_kind": "file"}), "file", "error", "turns[1].messages[0].parts[1].content"),
        (
            changed(*MESSAGES, 0, "finish_reason", to="tool_calls"),
            "schema",
            "warning",
            "turns[1].messages[0].finish_reason",
        ),
        (changed(*RETURN, "status", to="fine"), "schema", "error", "turns[1].messages[1].parts[0].status"),
        (without(*CALL, "args"), "schema", "error", "turns[1].messages[0].parts[1].args"),
        (changed(*CALL, "part_kind", to=7), "schema", "error", "turns[1].messages[0].parts[1]"),
        (changed("turns", 0, "parts", 0, "content", 1, to=7), "schema", "error", "turns[0].parts[0].content[1]"),
        (changed("agents", "list", to={}), "schema", "error", "agents.list.agent_id"),
        (changed("version", to="0.0.5"), "schema", "error", "version"),
    ],
)
def test_each_rule_says_where(document: dict[str, Any], rule: int | str, severity: str, path: str) -> None:
    found = [(finding.rule, finding.severity, finding.path) for finding in check(document)]
    assert (rule, severity, path) in found
    assert all(finding.message for finding in check(document))


def test_turns_of_one_agent_must_not_overlap() -> None:
    document = sound()
    document["turns"][2]["agent_id"] = document["turns"][2]["messages"][0]["agent_id"] = "planner"
    document["turns"][2]["started_at"] = "2026-01-20T10:00:04Z"
    assert [(f.rule, f.severity, f.path) for f in check(document)] == [(4, "error", "turns[2].started_at")]
    assert "turns[1]" in check(document)[0].message


def test_a_turn_that_was_cut_off_does_not_make_the_next_one_an_error() -> None:
    document = sound()
    retry = copy.deepcopy(document["turns"][2])
    retry["started_at"] = "2026-01-20T10:00:07Z"
    document["turns"].append(retry)
    assert [(f.rule, f.severity, f.path) for f in check(document)] == [(4, "warning", "turns[3].started_at")]


def test_a_return_may_answer_a_call_of_an_earlier_turn_but_not_a_later_one() -> None:
    document = sound()
    answer = copy.deepcopy(document["turns"][1]["messages"][1])
    answer["timestamp"] = "2026-01-20T10:00:06Z"
    answer["agent_id"] = "weather"
    answer["parts"][0] |= {"tool_call_id": "c2", "tool_name": "ask"}
    document["turns"][2]["messages"].insert(0, answer)
    assert check(document) == []
    answer["parts"].append(dict(answer["parts"][0]))
    assert [(f.rule, f.severity) for f in check(document)] == [(2, "warning")]
    document["turns"][1]["messages"].pop()
    assert {(f.rule, f.severity) for f in check(document)} == {(2, "error")}


def test_an_open_call_in_an_interrupted_turn_is_an_error() -> None:
    document = sound()
    document["turns"][2]["messages"][0]["parts"] = [
        {"part_kind": "tool-call", "tool_name": "get", "tool_call_id": "c9", "args": {}}
    ]
    assert [(f.rule, f.severity, f.path) for f in check(document)] == [
        ("cycles", "error", "turns[2].messages[0].parts[0]")
    ]


def test_a_thread_of_0_0_3_is_read_as_such() -> None:
    document = sound()
    document["version"] = "0.0.3"
    del document["turns"][2], document["turns"][1]["completion_status"]
    assert check(document) == []
    del document["turns"][1]["completed_at"]
    assert [(f.rule, f.severity) for f in check(document)] == [("completed_at", "error")]
    document["turns"][1] |= {"completion_status": "interrupted"}
    assert ("version", "error") in [(f.rule, f.severity) for f in check(document)]


@pytest.mark.parametrize("value", [None, [], "text", 3, True])
def test_what_is_no_object_is_one_finding(value: Any) -> None:
    assert [(f.rule, f.path) for f in check(value)] == [("schema", "")]


@pytest.mark.parametrize(
    "text",
    ["2026-01-20T16:59:02.002Z", "2026-01-20t16:59:02z", "2026-01-20T17:59:02,002+01:00", "2026-01-20T16:59:02+0000"],
)
def test_forms_of_iso_8601(text: str) -> None:
    stamp = moment(text)
    assert stamp is not None
    assert stamp.replace(microsecond=0).isoformat() == "2026-01-20T16:59:02+00:00"


@pytest.mark.parametrize(
    "text",
    ["", "2026-01-20", "20.1.2026 16:59", "2026-13-20T16:59:02Z", "٢٠٢٦-01-20T16:59:02Z", "0001-01-01T00:00:00+23:00"],
)
def test_what_is_no_time(text: str) -> None:
    assert moment(text) is None


def test_messages_and_paths_can_be_printed_anywhere() -> None:
    document = changed("turns", 0, "client_metadata", to={"\ud800ö": 1})
    document["thread_id"] = "\udfff"
    document["agents"]["\ud800"] = {}
    findings = check(document)
    assert len(findings) >= 4
    assert all((finding.path + finding.message).isascii() for finding in findings)
