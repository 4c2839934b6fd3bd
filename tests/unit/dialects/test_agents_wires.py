"""What the recordings of agents' wires don't have: servers' events, retries, sessions that are told again."""

from typing import Any
from uuid import UUID

import pytest

from pipeline.dialects import DIALECTS
from tests.support.assembled import START, Assembled, assembled

Events = list[dict[str, Any]]


def texts(found: Assembled, key: str = "messages") -> list[str]:
    held = [
        turn[key] if key == "messages" else turn.get(key, {"messages": []})["messages"] for turn in found.agent_turns
    ]
    parts = [part for messages in held for message in messages for part in message.get("parts", ())]
    return [part["content"] for part in parts if part["part_kind"] == "text"]


# ---- Codex's app server

IDS = {"threadId": "t", "turnId": "u"}


def codex(method: str, **params: Any) -> dict[str, Any]:
    return {"method": method, "params": {**IDS, **params}}


def used(total: int, last: int) -> dict[str, Any]:
    counts = {"inputTokens": last, "cachedInputTokens": 4, "outputTokens": 3, "reasoningOutputTokens": 1}
    return codex("thread/tokenUsage/updated", tokenUsage={"total": {"inputTokens": total}, "last": counts})


COMMAND = {"type": "commandExecution", "id": "call_1", "command": "echo Brest", "status": "inProgress"}
SERVER: Events = [
    codex("turn/started", turn={"id": "u"}),
    codex("item/completed", item={"type": "userMessage", "id": "i0", "content": [{"type": "text", "text": "Tides?"}]}),
    codex("item/started", item={"type": "reasoning", "id": "i1", "summary": [], "content": []}),
    codex("item/reasoning/summaryTextDelta", itemId="i1", delta="Two po"),
    codex("item/completed", item={"type": "reasoning", "id": "i1", "summary": ["Two ports."], "content": []}),
    codex("item/started", item=COMMAND),
    codex(
        "item/completed",
        item={**COMMAND, "status": "failed", "aggregatedOutput": "no\n", "exitCode": 1, "durationMs": 9},
    ),
    used(20, 20),
    used(20, 20),
    codex("item/agentMessage/delta", itemId="i2", delta="Hi"),
    codex("error", error={"message": "Reconnecting... 1/5"}, willRetry=True),
    codex("item/agentMessage/delta", itemId="i3", delta="High"),
    codex("item/completed", item={"type": "agentMessage", "id": "i3", "text": "High."}),
    used(50, 30),
]


def test_the_app_server_of_codex() -> None:
    found = assembled("codex", [*SERVER, codex("turn/completed", turn={"id": "u", "status": "completed"})])
    assert not found.refused
    (user,) = found.user_turns
    assert user["parts"] == [{"part_kind": "user-prompt", "content": "Tides?"}]
    thought, call = found.parts("response")[:2]
    assert (thought["content"], call["args"]) == ("Two ports.", {"command": "echo Brest"})
    (result,) = found.parts("request")
    assert (result["status"], result["content"], result["meta:codex"]) == ("error", "no\n", {"exit_code": 1})
    assert texts(found) == ["High."]
    assert texts(found, "meta:retracted") == ["Hi"]
    (turn,) = found.agent_turns
    usage = turn["total_usage"]
    assert (usage["input_tokens"], usage["cache_read_tokens"], usage["output_tokens"]) == (50, 8, 6)


@pytest.mark.parametrize(("status", "reason"), [("interrupted", "user_cancelled"), ("failed", "error")])
def test_a_turn_of_the_app_server_that_ends_otherwise(status: str, reason: str) -> None:
    end = codex("turn/completed", turn={"id": "u", "status": status, "error": {"message": "it broke"}})
    (turn,) = assembled("codex", [*SERVER, end]).agent_turns
    assert turn["interruption"]["reason"] == reason
    assert turn["interruption"]["detail"] == "it broke"


def test_codex_tells_a_sum_over_the_thread_and_each_turn_has_its_part() -> None:
    said = {"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": "Hi"}}
    ends = [{"type": "turn.completed", "usage": {"input_tokens": n, "output_tokens": n // 10}} for n in (310, 500)]
    first, second = assembled("codex", [said, ends[0], {"type": "turn.started"}, said, ends[1]]).agent_turns
    assert [turn["total_usage"]["input_tokens"] for turn in (first, second)] == [310, 190]


@pytest.mark.parametrize(("minutes", "known"), [(0, True), (5, False)])
def test_the_sum_of_a_thread_of_codex_that_began_before_the_run_is_no_usage_of_the_turn(
    minutes: int, *, known: bool
) -> None:
    name = str(UUID(int=((START - 60_000 * minutes) << 80) | (7 << 76) | (2 << 62)))
    said = {"type": "item.completed", "item": {"id": "item_1", "type": "agent_message", "text": "Hi"}}
    end = {"type": "turn.completed", "usage": {"input_tokens": 810, "output_tokens": 102}}
    (turn,) = assembled("codex", [{"type": "thread.started", "thread_id": name}, said, end]).agent_turns
    assert (turn.get("total_usage") or {}).get("input_tokens") == (810 if known else None)
    kept = None if known else {"thread_usage": {"input_tokens": 810, "output_tokens": 102, "total_tokens": 912}}
    assert turn.get("meta:codex") == kept


def test_a_response_whose_calls_have_results_was_whole_when_the_program_was_killed() -> None:
    item = {"id": "item_1", "type": "command_execution", "command": "echo Brest", "aggregated_output": "Brest\n"}
    (turn,) = assembled("codex", [{"type": "item.completed", "item": {**item, "status": "completed"}}]).agent_turns
    assert turn["completion_status"] == "interrupted"
    assert [message["message_type"] for message in turn["messages"]] == ["response", "request"]


def test_a_tool_of_mcp_has_its_own_name() -> None:
    item = {"id": "item_1", "type": "mcp_tool_call", "server": "s", "tool": "tide", "arguments": {"port": "Brest"}}
    done = {"type": "item.completed", "item": {**item, "error": {"message": "no"}}}
    found = assembled("codex", [done, {"type": "turn.completed"}])
    (call,) = found.parts("response")
    assert (call["tool_name"], call["args"], call["meta:codex"]) == ("tide", {"port": "Brest"}, {"server": "s"})
    assert found.parts("request")[0]["status"] == "error"


# ---- opencode's server

SES = {"sessionID": "s"}


def part(key: str, kind: str, message: str = "m2", **rest: Any) -> dict[str, Any]:
    told = {"id": key, "type": kind, "messageID": message, **SES, **rest}
    return {"type": "message.part.updated", "properties": {"part": told}}


def info(**rest: Any) -> dict[str, Any]:
    return {"type": "message.updated", "properties": {"info": {**SES, **rest}}}


def delta(text: str) -> dict[str, Any]:
    return {"type": "message.part.delta", "properties": {**SES, "partID": "p2", "field": "text", "delta": text}}


TOKENS = {"input": 56, "output": 28, "reasoning": 5, "cache": {"read": 64, "write": 0}}
FINISH = part("p9", "step-finish", reason="stop", tokens=TOKENS, cost=0.5)
OPENCODE: Events = [
    {"type": "server.connected", "properties": {}},
    info(id="m1", role="user"),
    part("p0", "text", "m1", text="Tides?"),
    info(id="m2", role="assistant", modelID="own-x", providerID="fake"),
    part("p1", "step-start"),
    part("p2", "text", text="", time={"start": 1}),
    delta("On"),
    delta("e"),
    part("p3", "step-start"),
    part("p4", "text", text="", time={"start": 1}),
    {"type": "message.part.updated", "properties": {"part": {**SES, "id": "q", "type": "text", "sessionID": "other"}}},
    part("p4", "text", text="High.", time={"start": 1, "end": 2}),
    part("p4", "text", text="High.", time={"start": 1, "end": 2}),
    part("p5", "tool", callID="c1", tool="bash", state={"status": "running", "input": {"command": "ls"}}),
    part("p5", "tool", callID="c1", tool="bash", state={"status": "error", "input": {"command": "ls"}, "error": "no"}),
    FINISH,
    FINISH,
    {"type": "session.idle", "properties": SES},
    {"type": "session.updated", "properties": {"info": {"id": "s", "title": "Tides"}}},
]


def test_the_server_of_opencode() -> None:
    found = assembled("opencode", OPENCODE)
    assert not found.refused
    (turn,) = found.agent_turns
    assert turn["completion_status"] == "complete"
    assert found.user_turns[0]["parts"] == [{"part_kind": "user-prompt", "content": "Tides?"}]
    (response,) = found.messages("response")
    assert (response["model_name"], response["provider_name"]) == ("own-x", "fake")
    assert texts(found) == ["High."]
    assert texts(found, "meta:retracted") == ["One"]
    assert found.parts("request")[0]["content"] == "no"
    usage = turn["total_usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["thinking_tokens"]) == (120, 33, 5)
    assert found.document["title"] == "Tides"


@pytest.mark.parametrize(("name", "reason"), [("MessageAbortedError", "user_cancelled"), ("APIError", "error")])
def test_an_answer_of_opencode_that_fails(name: str, reason: str) -> None:
    failed = info(id="m2", role="assistant", error={"name": name, "data": {"message": "it broke"}})
    found = assembled("opencode", [*OPENCODE[:8], failed, OPENCODE[-2]])
    (turn,) = found.agent_turns
    assert turn["interruption"]["reason"] == reason
    assert texts(found, "meta:partial") == ["One"]


# ---- the Agent Client Protocol


def acp(name: str, **rest: Any) -> dict[str, Any]:
    update = {"sessionUpdate": name, **rest}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}


def chunk(text: str, **rest: Any) -> dict[str, Any]:
    return acp("agent_message_chunk", content={"type": "text", "text": text}, **rest)


def asked(text: str, number: int = 2) -> dict[str, Any]:
    params = {"sessionId": "s", "prompt": [{"type": "text", "text": text}]}
    return {"jsonrpc": "2.0", "id": number, "method": "session/prompt", "params": params}


def stopped(**result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "end_turn", **result}}


def test_a_session_that_is_loaded_is_not_told_twice() -> None:
    load = {"jsonrpc": "2.0", "id": 1, "method": "session/load", "params": {"sessionId": "s"}}
    before = [acp("user_message_chunk", content={"type": "text", "text": "Before?"}), chunk("Earlier.")]
    loaded = {"jsonrpc": "2.0", "id": 1, "result": {"modes": None}}
    found = assembled("acp", [load, *before, loaded, asked("Now?"), chunk("Later."), stopped()])
    assert texts(found) == ["Later."]
    assert [turn["parts"][0]["content"] for turn in found.user_turns] == ["Now?"]


def test_what_comes_without_an_id_is_the_programs_once_others_have_ids() -> None:
    found = assembled("acp", [asked("?"), chunk("Warning!"), chunk("Hi", messageId="m1"), chunk("Again"), stopped()])
    assert texts(found) == ["Hi"]
    assert [message["event_data"]["content"] for message in found.messages("system")] == ["Warning!", "Again"]
    assert texts(assembled("acp", [asked("?"), chunk("Hi"), chunk(" you"), stopped()])) == ["Hi you"]


@pytest.mark.parametrize("words", [["ha ", "ha "], ["One two ", "One two ", "One t"], ["One ", "two "]])
def test_words_that_repeat_themselves_stay_in_an_answer_that_succeeds(words: list[str]) -> None:
    usage = {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}
    assert texts(assembled("acp", [asked("?"), *map(chunk, words), stopped(usage=usage)])) == ["".join(words)]


@pytest.mark.parametrize(
    ("words", "kept", "taken"),
    [
        (["One ", "One ", "One "], "One ", "One One "),
        (["One two ", "One two ", "One t"], "One t", "One two One two "),
        (["One ", "two "], "One two ", ""),
    ],
)
def test_of_an_answer_that_failed_again_and_again_the_last_try_stays(words: list[str], kept: str, taken: str) -> None:
    failed = {"jsonrpc": "2.0", "id": 2, "error": {"code": -32603, "message": "broke"}}
    for batches in ([[asked("?"), *map(chunk, words), failed]], [[asked("?")], *([chunk(w)] for w in words), [failed]]):
        found = assembled("acp", *batches)
        assert (texts(found, "meta:partial"), "".join(texts(found, "meta:retracted"))) == ([kept], taken)


def test_a_title_is_all_that_some_agents_say_of_a_call() -> None:
    call = acp("tool_call", toolCallId="c", title="echo Brest", kind="execute", status="in_progress", content=[])
    done = acp("tool_call_update", toolCallId="c", status="completed", content=[])
    found = assembled("acp", [asked("?"), call, done, stopped()])
    (part,) = found.parts("response")
    assert (part["tool_name"], part["args"]) == ("execute", {"title": "echo Brest"})


# ---- A2A


def a2a(kind: str, **told: Any) -> dict[str, Any]:
    return {kind: {"taskId": "t", "contextId": "c", **told}}


ARTIFACT = {"artifactId": "a", "parts": [{"text": "Brest: high."}]}
MESSAGES = [{"messageId": "u1", "role": "ROLE_USER", "parts": [{"text": "Tides?"}]}]
WORKING = {"state": "TASK_STATE_WORKING"}


def test_a_stream_that_goes_on_with_a_task_begins_with_all_that_it_has() -> None:
    so_far = a2a("task", id="t", status=WORKING, history=MESSAGES, artifacts=[ARTIFACT])
    more = a2a("artifactUpdate", artifact={"artifactId": "a", "parts": [{"text": " Calais: low."}]}, append=True)
    done = a2a("statusUpdate", status={"state": "TASK_STATE_COMPLETED"})
    found = assembled("a2a", [a2a("task", id="t", status=WORKING, history=MESSAGES), so_far, so_far, more, done, done])
    assert texts(found) == ["Brest: high. Calais: low."]
    assert len(found.user_turns) == len(found.agent_turns) == 1
    assert "meta:retracted" not in found.agent_turns[0]


def test_the_words_for_a_task_that_goes_on_are_in_the_request() -> None:
    message = {"messageId": "u2", "taskId": "t", "role": "ROLE_USER", "parts": [{"text": "Calais"}]}
    done = a2a("statusUpdate", status={"state": "TASK_STATE_COMPLETED"})
    for body in ({"method": "SendStreamingMessage", "params": {"message": message}}, {"message": message}):
        found = assembled("a2a", [a2a("artifactUpdate", artifact=ARTIFACT), done], run={"request": body})
        assert [turn["parts"][0]["content"] for turn in found.user_turns] == ["Calais"]


def test_a_publisher_alone_completes_none_of_these_runs() -> None:
    for name, event in (("acp", chunk("Hi")), ("a2a", a2a("artifactUpdate", artifact=ARTIFACT)), ("codex", SERVER[9])):
        (turn,) = assembled(name, [event], end="complete").agent_turns
        assert turn["completion_status"] == "interrupted"
        assert DIALECTS[name].ended(event, None) is None


# ---- Results of calls that an earlier run made


def update(**fields: Any) -> dict[str, Any]:
    told = {"sessionUpdate": "tool_call_update", "toolCallId": "c1", "status": "completed", **fields}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": told}}


def artifact(**data: Any) -> dict[str, Any]:
    return {"artifactUpdate": {"taskId": "t", "artifact": {"artifactId": "a", "parts": [{"data": data}]}}}


@pytest.mark.parametrize(
    ("dialect", "event", "name"),
    [
        ("gemini-cli", {"type": "tool_result", "tool_id": "c1", "status": "success", "output": "high"}, ""),
        ("a2a", artifact(id="c1", name="tide", response="high"), "tide"),
        ("acp", update(rawOutput="high"), ""),
    ],
)
def test_a_result_without_its_call_is_kept_once(dialect: str, event: dict[str, Any], name: str) -> None:
    found = assembled(dialect, [event, event])
    assert found.refused == []
    (part,) = found.parts("request")
    assert (part["tool_name"], part["tool_call_id"], part["content"]) == (name, "c1", "high")
    assert found.parts("response") == []
