"""Threads, whatever wire they came over -> messages that Pydantic AI takes."""

from typing import Any

import pytest

from pipeline.dialects.pydantic_ai.formats import messages
from pipeline.dialects.pydantic_ai.keys import EXACT

Fields = dict[str, Any]

AT = "2026-01-20T10:00:00.000Z"


def user(*parts: Fields, **fields: Any) -> Fields:
    return {"turn_type": "user", "submitted_at": AT, "parts": list(parts), **fields}


def agent(*found: Fields, agent_id: str = "writer", **fields: Any) -> Fields:
    return {"turn_type": "agent", "agent_id": agent_id, "started_at": AT, "messages": list(found), **fields}


def response(*parts: Fields, **fields: Any) -> Fields:
    return {"message_type": "response", "timestamp": AT, "agent_id": "writer", "parts": list(parts), **fields}


def request(*parts: Fields, **fields: Any) -> Fields:
    return {"message_type": "request", "timestamp": AT, "agent_id": "writer", "parts": list(parts), **fields}


def system(event_type: str) -> Fields:
    return {"message_type": "system", "timestamp": AT, "event_type": event_type, "event_data": {}}


def prompt(content: Any) -> Fields:
    return {"part_kind": "user-prompt", "content": content}


def text(content: str, **fields: Any) -> Fields:
    return {"part_kind": "text", "content": content, **fields}


def answer(status: str, content: Any, **fields: Any) -> Fields:
    identity = {"part_kind": "tool-return", "tool_name": "f", "tool_call_id": "c"}
    return {**identity, "status": status, "content": content, **fields}


def export(*turns: Fields, **options: Any) -> list[Fields]:
    agents = {name: {"agent_id": name, "agent_name": name.title(), "created_at": AT} for name in ("writer", "critic")}
    return messages({"version": "0.0.4", "agents": agents, "turns": list(turns)}, **options)


def exported(part: Fields, of: str = "response", **options: Any) -> list[Fields]:
    """What becomes of one part."""
    message = response(part) if of == "response" else request(part)
    found: list[Fields] = [part for message in export(agent(message), **options) for part in message["parts"]]
    return found


# ---- turns


def test_a_conversation() -> None:
    said = response(text("yo"), model_name="m", provider_name="p", provider_response_id="r", finish_reason="tool_calls")
    turns = [user(prompt("hi"), client_metadata={"app:x": 1}), agent(system("error"), said)]
    assert export(*turns) == [
        {"kind": "request", "timestamp": AT, "parts": [{**prompt("hi"), "timestamp": AT}]},
        {
            "kind": "response",
            "timestamp": AT,
            "parts": [text("yo")],
            "model_name": "m",
            "provider_name": "p",
            "provider_response_id": "r",
            "finish_reason": "tool_call",
        },
    ]


def test_a_repeated_prompt_is_not_doubled() -> None:
    found = export(user(prompt("hi")), agent(request(prompt("hi")), response(text("yo"))))
    assert [message["kind"] for message in found] == ["request", "response"]


def test_what_a_users_turn_may_hold() -> None:
    image = {"part_kind": "file", "content": {"content_type": "image/png", "url": "https://x.test/a.png"}}
    inline = {"part_kind": "file", "content": {"content_type": "image/png", "url": "data:image/png;base64,+/8="}}
    found = export(user(text("look"), image, inline, {"part_kind": "custom:card"}))[0]["parts"]
    assert [part["content"] for part in found] == [
        "look",
        [{"kind": "image-url", "url": "https://x.test/a.png", "media_type": "image/png"}],
        [{"kind": "binary", "data": "-_8=", "media_type": "image/png"}],
    ]


def test_the_sdks_own_fields_come_back() -> None:
    exact = {"timestamp": "2026-01-20T10:00:00.000001Z", "run_id": "r1", "instructions": "Be brief."}
    nothing = {"timestamp": None, "finish_reason": None, "model_name": None}
    said = response(text("yo"), finish_reason="stop", model_name="m", **{EXACT: nothing})
    first, second = export(user(prompt("hi"), **{EXACT: exact}), agent(said))
    assert {key: first[key] for key in exact} == exact
    assert second == {"kind": "response", "parts": [text("yo")]}


def test_a_first_request_is_one_message_again() -> None:
    rest = request(answer("success", 1), **{EXACT: {"run_id": "r1"}, "meta:user_prompt_at": [1]})
    first, _ = export(user(prompt("and now?")), agent(rest, response(text("done"))))
    assert [part["part_kind"] for part in first["parts"]] == ["tool-return", "user-prompt"]
    assert first["run_id"] == "r1"


# ---- agents


def test_other_agents_are_quoted_by_name_and_text() -> None:
    called = {"part_kind": "tool-call", "tool_name": "f", "tool_call_id": "c", "args": {}}
    turns = [
        user(prompt("hi")),
        agent(response(text("let me see"), called), request(answer("success", 1)), response(text("done"))),
        agent(response(text("well done")), agent_id="critic"),
        agent(response(called), request(answer("success", 1)), agent_id="critic"),
    ]
    mine = export(*turns, viewing_agent="writer")
    assert [message["kind"] for message in mine] == ["request", "response", "request", "response", "request"]
    assert mine[-1]["parts"] == [{**prompt(["Critic:", "well done"]), "timestamp": AT}]
    theirs = export(*turns, viewing_agent="critic")
    assert [message["kind"] for message in theirs] == ["request", "request", "response", "response", "request"]
    assert theirs[1]["parts"][0]["content"] == ["Writer:", "done"]
    assert len(export(*turns)) == 7


# ---- parts


def test_thinking() -> None:
    thought = {"part_kind": "thinking", "thinking_id": "t", "signature": "s", "provider_name": "p", "meta:vercel": {}}
    assert exported(thought) == [
        {"part_kind": "thinking", "content": "", "id": "t", "signature": "s", "provider_name": "p"}
    ]


@pytest.mark.parametrize(
    ("fields", "args"),
    [
        ({"args": {"a": 1}}, {"a": 1}),
        ({"args": [1]}, "[1]"),
        ({"args": 7}, "7"),
        ({"args": None}, None),
        ({"args": {"INVALID_JSON": '{"a"'}}, '{"a"'),
        ({"args": {}, "meta:args": "none"}, None),
        ({"args": {}, "meta:args": "empty"}, ""),
        ({"args": {"a": "é"}, "meta:args": "spaced-ascii"}, '{"a": "\\u00e9"}'),
        ({"args": {"a": 1}, "meta:args": "text", "meta:args_text": "{ }"}, "{ }"),
        ({"args": {"a": 1}, "meta:args": "of a later version"}, {"a": 1}),
    ],
)
def test_arguments(fields: Fields, args: Any) -> None:
    part = {"part_kind": "tool-call", "tool_name": "f", "tool_call_id": "c", **fields}
    assert exported(part)[0]["args"] == args


@pytest.mark.parametrize(
    ("part", "fields"),
    [
        (answer("success", 1), {"content": 1}),
        (answer("success", None), {"content": None}),
        (answer("error", "no"), {"content": "no", "outcome": "failed"}),
        (answer("error", "no", outcome="denied"), {"content": "no", "outcome": "denied"}),
        (
            answer("validation_error", "no"),
            {"content": "no", "outcome": "retried", "retry": {"cause": "validation_error"}},
        ),
    ],
)
def test_results(part: Fields, fields: Fields) -> None:
    identity = {"part_kind": "tool-return", "tool_name": "f", "tool_call_id": "c", "timestamp": AT}
    assert exported(part, "request") == [{**identity, **fields}]


def test_a_result_that_is_kept_elsewhere_says_where() -> None:
    reference = {"uri": "s3://b/k"}
    part = {"part_kind": "tool-return", "tool_name": "f", "tool_call_id": "c", "status": "success"}
    assert exported({**part, "content_ref": reference}, "request")[0]["content"] == {"content_ref": reference}


def test_validation_errors_get_all_that_pydantic_wants() -> None:
    part = {"part_kind": "retry-prompt", "tool_name": "f", "content": [{"field": "x", "message": "too long"}, "odd"]}
    assert exported(part, "request")[0]["content"] == [
        {"type": "value_error", "loc": ["x"], "msg": "too long", "input": None},
        {"type": "value_error", "loc": [], "msg": "odd", "input": None},
    ]


def test_what_pydantic_ai_has_no_place_for_is_left_out() -> None:
    by_address = {"part_kind": "file", "content": {"content_type": "image/png", "url": "https://x.test/a.png"}}
    assert exported(by_address) == []
    assert exported({"part_kind": "custom:card"}) == []
    assert exported({"part_kind": "custom:card"}, "request") == []
    assert exported({"part_kind": "file", "content_ref": {"uri": "s3://b/k"}}) == []
    assert exported(prompt(["a", {"kind": "custom"}, 7]), "request")[0]["content"] == ["a"]


def test_files_by_value() -> None:
    url = {"part_kind": "file", "content": {"url": "data:image/png;base64,+/8="}}
    value = {"part_kind": "file", "content": {"data": "+/8=", "media_type": "image/png"}}
    expected = {"kind": "binary", "data": "-_8=", "media_type": "image/png"}
    assert [exported(part)[0]["content"] for part in (url, value)] == [expected, expected]


def test_usage_of_other_wires() -> None:
    counts = {"input_tokens": 9.0, "thinking_tokens": 2, "total_tokens": 12, "cost": {"total": 0.5}, "tps": 3}
    said = response(text("a"), usage=counts)
    assert export(agent(said))[0]["usage"] == {"input_tokens": 9, "output_reasoning_tokens": 2, "cost": "0.5"}
    own = {"input_tokens": 9, "thinking_tokens": 2, "details": {"reasoning_tokens": 2, "x": 1}}
    said = response(text("a"), usage=own, **{EXACT: {}})
    assert export(agent(said))[0]["usage"] == {"input_tokens": 9, "details": {"reasoning_tokens": 2, "x": 1}}


# ---- older releases


@pytest.mark.parametrize("version", ["", "latest", "2.x", "1.107.10rc1", "v2"])
def test_a_version_is_numbers(version: str) -> None:
    with pytest.raises(ValueError, match=r"such as 2\.68"):
        export(for_version=version)


@pytest.mark.parametrize(("version", "kinds"), [("2.60", "tool-return"), ("2.59.9", "retry-prompt")])
def test_retries_of_tools(version: str, kinds: str) -> None:
    details = {"type": "missing", "loc": ["x"], "msg": "needed", "input": {}}
    part = answer("validation_error", [details], outcome="retried", retry={"cause": "validation_error"})
    found = exported(part, "request", for_version=version)[0]
    assert (found["part_kind"], found["content"]) == (kinds, [details])
    data = exported(answer("validation_error", {"no": "details"}), "request", for_version=version)[0]["content"]
    assert data == ({"no": "details"} if kinds == "tool-return" else '{"no": "details"}')


def test_retries_without_a_tool() -> None:
    part = {"part_kind": "retry-feedback", "content": "again", "retry": {"cause": "model_retry"}, "timestamp": AT}
    assert exported(part, "request", for_version="2.68") == [part]
    assert exported(part, "request", for_version="1.107.10") == [
        {"part_kind": "retry-prompt", "content": "again", "timestamp": AT}
    ]


def test_kinds_of_newer_releases() -> None:
    compaction = {"part_kind": "compaction", "content": "so far"}
    speech = {"part_kind": "speech", "speaker": "assistant", "transcript": "hello"}
    delta = {"part_kind": "tool-availability-delta", "added": []}
    assert exported(compaction, for_version="1.107") == [compaction]
    assert exported(compaction, for_version="1.20") == []
    assert exported(compaction, "request", for_version="1.107") == []
    assert exported(compaction, "request") == [compaction]
    assert exported(speech, for_version="2.40") == [speech]
    assert exported(speech, for_version="1.107") == [text("hello")]
    assert exported(speech, "request", for_version="1.107") == [prompt("hello")]
    assert exported(delta, "request") == [delta]
    assert exported(delta, "request", for_version="1.107") == []


def test_contents_of_newer_releases() -> None:
    contents = [
        "a",
        {"kind": "text-content", "content": "b"},
        {"kind": "structured-content", "value": {"c": 1}},
        {"kind": "uploaded-file", "file_id": "f", "provider_name": "p"},
        {"kind": "cache-point"},
    ]
    kept = {
        version: exported(prompt(contents), "request", for_version=version)[0]["content"]
        for version in ("2.68", "1.107", "1.20")
    }
    assert kept["2.68"] == contents
    assert kept["1.107"] == [*contents[:2], '{"c": 1}', *contents[3:]]
    assert kept["1.20"] == ["a", "b", '{"c": 1}', contents[4]]


def test_values_of_newer_releases() -> None:
    part = answer("error", "cut", outcome="interrupted", tool_kind="search")
    old = exported(part, "request", for_version="1.107")[0]
    assert (old["outcome"], "tool_kind" in old) == ("failed", False)
    new = exported(part, "request")[0]
    assert (new["outcome"], new["tool_kind"]) == ("interrupted", "search")
    said = response(text("a"), **{EXACT: {"state": "suspended"}})
    assert export(agent(said), for_version="1.107")[0]["state"] == "incomplete"
    assert export(agent(said))[0]["state"] == "suspended"
