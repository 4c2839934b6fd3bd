import hashlib
from typing import Any

import pytest
import rfc8785

from pipeline.assembly.limits import Limits
from pipeline.assembly.offline import assemble
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.dialects import DIALECTS
from pipeline.turns.path_rules import PathRule, parse
from pipeline.turns.redaction import Redaction
from pipeline.turns.requests import digest, named_in, prompt_of, with_bodies, without_messages
from pipeline.worker.assemble.redaction_rules import rules_of
from tests.support.chat_chunks import chunk
from topics import json_text
from topics.turn_record import TurnRecord, encode

BASE = {"v": 1, "thread_id": "0b0c4a3e-6a53-4a9e-9d0f-0d8f4c9d1a11", "run_id": "r", "agent_id": "a", "seq": 0, "ts": 1}
USER = {"role": "user", "content": "Weather?"}
SYSTEM = {"role": "system", "content": "be brief"}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


def turns(dialect: str, *events: Any, keep: bool = True, **run: Any) -> list[TurnRecord]:
    envelope = {**BASE, "dialect": dialect, "events": list(events), "run": run, "end": "complete"}
    return assemble(DIALECTS[dialect], [envelope], keep_requests=keep)[0]


def asked(records: list[TurnRecord]) -> list[Any]:
    """The bodies behind the responses, in their order."""
    bodies = {name: body for record in records for name, body in record.get("requests", {}).items()}
    messages = [message for record in records for message in (record["turn"] or {}).get("messages", ())]
    return [bodies[one["meta:request"]["sha256"]] if "meta:request" in one else None
            for one in messages if one["message_type"] == "response"]  # fmt: skip


def chat(**body: Any) -> dict[str, Any]:
    return {"object": "turnmill.request", "request": {"model": "m", **body}}


ANSWERS: dict[str, list[Any]] = {
    "openai-chat": [chunk({"content": "72F."}), chunk({}, "stop")],
    "openai-responses": [
        {"type": "response.created", "response": {"id": "r1", "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": {"type": "message", "id": "m", "role":
         "assistant", "content": [{"type": "output_text", "text": "72F.", "annotations": []}]}},
        {"type": "response.completed", "response": {"id": "r1", "status": "completed", "output": []}},
    ],
    "anthropic": [
        {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "model": "m"}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "72F."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ],
    "gemini": [
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "72F."}]}, "finishReason": "STOP"}]},
    ],
}  # fmt: skip
BODIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "openai-chat": ({"messages": [USER]}, {"model": "m", "tools": TOOLS, "temperature": 0.0, "metadata": {"n": "1"}}),
    "openai-responses": (
        {"input": "Weather?"},
        {"model": "m", "instructions": "be brief", "previous_response_id": "r0", "tools": TOOLS},
    ),
    "anthropic": ({"messages": [USER]}, {"model": "m", "system": "be brief", "max_tokens": 10, "tools": []}),
    "gemini": (
        {"contents": [{"role": "user", "parts": [{"text": "Weather?"}]}]},
        {"systemInstruction": {"parts": [{"text": "be brief"}]}, "generationConfig": {"temperature": 0.5}},
    ),
}


@pytest.mark.parametrize("dialect", BODIES)
def test_a_model_wires_request_is_there_without_its_messages(dialect: str) -> None:
    messages, rest = BODIES[dialect]
    key = "object" if dialect == "openai-chat" else "type"
    event = {key: "turnmill.request", "request": {**messages, **rest}}
    assert asked(turns(dialect, event, *ANSWERS[dialect])) == [rest]
    assert asked(turns(dialect, *ANSWERS[dialect], request={**messages, **rest})) == [rest]


def test_each_call_of_a_run_has_its_own() -> None:
    called = {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]}
    result = {"role": "tool", "tool_call_id": "a", "content": "72F"}
    call = chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]})
    got = turns(
        "openai-chat",
        chat(messages=[SYSTEM, USER], tools=TOOLS),
        call,
        chunk({}, "tool_calls"),
        chat(messages=[SYSTEM, USER, called, result], tool_choice="none"),
        *ANSWERS["openai-chat"],
    )
    assert asked(got) == [
        {"model": "m", "messages": [SYSTEM], "tools": TOOLS},
        {"model": "m", "messages": [SYSTEM], "tool_choice": "none"},
    ]


def test_of_other_wires_the_first_response_has_the_runs_own() -> None:
    step = [
        {"type": "start-step"},
        {"type": "text-start", "id": "1"},
        {"type": "text-delta", "id": "1", "delta": "hi"},
        {"type": "text-end", "id": "1"},
        {"type": "finish-step"},
    ]
    body = {"messages": [{"role": "user", "parts": []}], "model": "m", "user": "u1"}
    got = turns("vercel-ai", {"type": "start"}, *step, *step, {"type": "finish"}, request=body)
    assert asked(got) == [{"model": "m", "user": "u1"}, None]


def test_claude_codes_init_is_what_was_asked() -> None:
    init = {"type": "system", "subtype": "init", "session_id": "s", "uuid": "u", "model": "m", "tools": ["Bash"]}
    said = {"type": "assistant", "session_id": "s", "uuid": "v", "message": {"id": "m1", "role": "assistant",
            "model": "m", "content": [{"type": "text", "text": "hi"}]}}  # fmt: skip
    [body] = asked(turns("claude-code", init, said, {"type": "result", "subtype": "success", "session_id": "s"}))
    assert body == {"model": "m", "tools": ["Bash"]}


def test_without_the_setting_nothing_of_it_is_there() -> None:
    got = turns("openai-chat", chat(messages=[SYSTEM, USER]), *ANSWERS["openai-chat"], keep=False)
    assert b"meta:request" not in b"".join(map(encode, got))
    assert all("requests" not in record for record in got)


def test_it_changes_no_canonical_hash() -> None:
    events = [chat(messages=[SYSTEM, USER]), *ANSWERS["openai-chat"]]
    with_it, without = turns("openai-chat", *events), turns("openai-chat", *events, keep=False)
    assert [one["hash"] for one in with_it] == [one["hash"] for one in without]


def test_the_name_is_the_hash_of_rfc_8785_json() -> None:
    body = {"b": 1.0, "a": ["é", {"z": 1e21, "y": None}]}
    assert digest(body) == hashlib.sha256(rfc8785.dumps(body)).hexdigest()


def test_credentials_of_tool_servers_are_always_masked() -> None:
    tools = [{"type": "mcp", "server_url": "https://x/mcp", "authorization": "secret-1", "headers": {"X": "secret-2"}}]
    servers = [{"type": "url", "name": "s", "authorization_token": "secret-3"}]
    got = turns("openai-chat", chat(messages=[USER], tools=tools, mcp_servers=servers), *ANSWERS["openai-chat"])
    assert b"secret" not in b"".join(map(encode, got))
    [body] = asked(got)
    assert body["tools"][0] == {**tools[0], "authorization": "***", "headers": {"X": "***"}}


def test_rules_apply_to_it_and_its_name_is_that_of_what_is_stored() -> None:
    system = {"role": "system", "content": "write to ann@example.org"}
    redaction = Redaction(rules_of("email"))
    got = [redaction.record(one) for one in turns("openai-chat", chat(messages=[system]), *ANSWERS["openai-chat"])]
    assert b"ann@example" not in b"".join(map(encode, got))
    [body] = asked(got)
    [record] = [one for one in got if "requests" in one]
    assert list(record["requests"]) == [digest(body)]


def test_paths_begin_at_a_body() -> None:
    redaction = Redaction([PathRule("u", parse("$.metadata.user"), "…"), PathRule("all", parse("$..pin"), "…")])
    tools = [{"type": "mcp", "pin": "p1", "note": {"pin": "p2"}}]
    asking = chat(messages=[USER], tools=tools, metadata={"user": "ann", "n": "1"})
    got = [redaction.record(one) for one in turns("openai-chat", asking, *ANSWERS["openai-chat"])]
    [body] = asked(got)
    assert body["metadata"]["user"] != "ann"
    assert body["metadata"]["n"] == "1"
    assert b"p2" not in b"".join(map(encode, got))
    assert redaction.counts == {"u": 1, "all": 2}


def test_text_that_utf_8_cannot_hold_is_mended() -> None:
    [body] = asked(turns("openai-chat", chat(messages=[USER], user="\ud800", seed=2**70), *ANSWERS["openai-chat"]))
    assert (body["user"], body["seed"]) == ("�", str(2**70))


@pytest.mark.parametrize("body", [None, 1, "text", [1], {}, {"messages": 1}])
def test_bodies_may_be_any_json(body: Any) -> None:
    assert without_messages(body, "openai-chat") is None


def test_equal_members_of_two_requests_are_held_once() -> None:
    before = without_messages({"tools": TOOLS, "metadata": {"n": 1}}, "anthropic")
    after = without_messages({"tools": [{**TOOLS[0]}], "metadata": {"n": 2}}, "anthropic", before)
    assert before is not None
    assert after is not None
    assert after["tools"] is before["tools"]
    assert after["metadata"] == {"n": 2}


def test_a_document_has_the_bodies_that_it_names() -> None:
    message = {"message_type": "response", "meta:request": {"sha256": "a"}}
    document = {"turns": [{"messages": [message, {"meta:request": 1}]}, {"parts": []}]}
    assert named_in(document) == ["a"]
    assert with_bodies(document, {"a": {"model": "m"}, "b": {}})["meta:requests"] == {"a": {"model": "m"}}


def test_where_a_record_is_too_large_what_was_said_goes_before_what_was_asked() -> None:
    body = chat(messages=[SYSTEM, USER], tools=["t" * 1_200_000])
    events = [body, *ANSWERS["openai-chat"]]
    core = Partition(
        DIALECTS, Limits(keep_requests=True, record_bytes=2_000_000), 0, fits=lambda one: len(encode(one)) < 1_000_000
    )
    envelope = {**BASE, "dialect": "openai-chat", "events": events, "end": "complete"}
    core.feed([StoredRecord(json_text.dumps(envelope).encode(), 0, 1)])
    core.tick(10_000_000)
    [turn] = [one for one in core.out.turns if one["turn"] and one["turn"]["turn_type"] == "agent"]
    [response] = turn["turn"]["messages"]
    assert response["parts"] == [{"part_kind": "text", "content": "72F."}]
    assert "meta:request" in response
    assert "requests" not in turn


def test_a_prompt_is_named_by_system_prompt_and_tools_alone() -> None:
    body = {"model": "m", "tools": TOOLS, "messages": [SYSTEM], "metadata": {"n": 1}}
    assert (
        prompt_of(body)
        == prompt_of({**body, "model": "n", "metadata": {"n": 2}})
        == digest({"messages": [SYSTEM], "tools": TOOLS})
    )
    assert prompt_of({**body, "tools": [*TOOLS, *TOOLS]}) != prompt_of(body)
    assert prompt_of({"request": {"systemInstruction": "s"}}) == prompt_of({"systemInstruction": "s"})
    assert [prompt_of(one) for one in ({"model": "m"}, {"tools": []}, None)] == [None] * 3
