"""Two calls and their results in one run, told by requests in each wire's form: one thread, each result once."""

from typing import Any

import pytest

from tests.bench.samples import bedrock, cohere, gemini_interactions, mistral, ollama, openai_realtime
from tests.support.assembled import assembled

BREST, CALAIS = {"port": "Brest"}, {"port": "Calais"}
PORTS = {"c1": BREST, "c2": CALAIS}
LINE = {"model": "m", "created_at": "2026-01-20T17:09:59.123456789Z"}
TOKENS = {"tokens": {"input_tokens": 5.0, "output_tokens": 2.0}}


def request(body: dict[str, Any], kind: str = "type") -> dict[str, Any]:
    return {kind: "turnmill.request", "request": body}


def functions(*, as_text: bool) -> list[dict[str, Any]]:
    """The calls as Cohere and Ollama have them, the second without ids."""
    if not as_text:
        return [{"function": {"name": "tide", "arguments": args}} for args in (BREST, CALAIS)]
    texts = {"c1": '{"port": "Brest"}', "c2": '{"port": "Calais"}'}
    return [
        {"id": key, "type": "function", "function": {"name": "tide", "arguments": text}} for key, text in texts.items()
    ]


def of_bedrock() -> list[dict[str, Any]]:
    asked = {"role": "user", "content": [{"text": "Tides?"}]}
    uses = [{"toolUse": {"toolUseId": key, "name": "tide", "input": port}} for key, port in PORTS.items()]
    results = [
        {"toolResult": {"toolUseId": "c2", "content": [{"text": "2 m"}]}},
        {"toolResult": {"toolUseId": "c1", "content": [{"json": {"height": 7}}]}},
    ]
    said = {"role": "assistant", "content": uses}
    return [
        request({"modelId": "m", "messages": [asked]}),
        {"output": {"message": said}, "stopReason": "tool_use", "usage": {"inputTokens": 5, "outputTokens": 2}},
        request({"modelId": "m", "messages": [asked, said, {"role": "user", "content": results}]}),
        *bedrock.answer(["High."]),
        {"metadata": {"usage": {"inputTokens": 12, "outputTokens": 1}}},
    ]


def of_cohere() -> list[dict[str, Any]]:
    asked = {"role": "user", "content": "Tides?"}
    said = {"role": "assistant", "tool_calls": functions(as_text=True)}
    results = [
        {"role": "tool", "tool_call_id": "c2", "content": "2 m"},
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": [{"type": "document", "document": {"data": {"height": 7}}}],
        },
    ]
    return [
        request({"model": "m", "messages": [asked]}),
        {"id": "a", "finish_reason": "TOOL_CALL", "message": said, "usage": TOKENS},
        request({"model": "m", "messages": [asked, said, *results]}),
        *cohere.answer(["High."]),
    ]


def of_gemini_interactions() -> list[dict[str, Any]]:
    calls = [{"type": "function_call", "id": key, "name": "tide", "arguments": port} for key, port in PORTS.items()]
    results = [
        {"type": "function_result", "call_id": "c2", "name": "tide", "result": "2 m"},
        {"type": "function_result", "call_id": "c1", "name": "tide", "result": {"height": 7}},
    ]
    usage = {"total_input_tokens": 5, "total_output_tokens": 2}
    answer = {"id": "i1", "object": "interaction", "status": "requires_action", "model": "m"}
    return [
        request({"model": "m", "input": "Tides?"}, "event_type"),
        {**answer, "outputs": calls, "usage": usage},
        request({"model": "m", "previous_interaction_id": "i1", "input": results}, "event_type"),
        *gemini_interactions.answer(["High."]),
    ]


def of_mistral() -> list[dict[str, Any]]:
    call = {"type": "function.call.delta", "id": "f", "model": "m", "name": "tide"}
    results = [
        {"type": "function.result", "tool_call_id": "c2", "result": "2 m"},
        {"type": "function.result", "tool_call_id": "c1", "result": {"height": 7}},
    ]
    return [
        request({"inputs": "Tides?", "model": "m"}),
        {"type": "conversation.response.started", "conversation_id": "conv_1"},
        {**call, "output_index": 0, "tool_call_id": "c1", "arguments": '{"port": "Brest"}'},
        {**call, "output_index": 1, "tool_call_id": "c2", "arguments": '{"port": "Calais"}'},
        {"type": "conversation.response.done", "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
        request({"conversation_id": "conv_1", "inputs": results}),
        *mistral.answer(["High."]),
    ]


def of_ollama() -> list[dict[str, Any]]:
    asked = {"role": "user", "content": "Tides?"}
    moon = {"function": {"name": "moon", "arguments": {}}}
    said = {"role": "assistant", "content": "", "tool_calls": [*functions(as_text=False), moon]}
    results = [("moon", "full"), ("tide", "7 m"), ("tide", "2 m")]
    told = [{"role": "tool", "tool_name": name, "content": content} for name, content in results]
    return [
        request({"model": "m", "messages": [asked]}),
        {**LINE, "message": said, "done": True, "done_reason": "stop", "prompt_eval_count": 5, "eval_count": 2},
        request({"model": "m", "messages": [asked, said, *told]}),
        *ollama.answer(["High."]),
    ]


def of_realtime() -> list[dict[str, Any]]:
    def item(key: str, **fields: Any) -> dict[str, Any]:
        return {"type": "conversation.item.added", "event_id": key, "item": {"id": key, **fields}}

    texts = {"c1": '{"port": "Brest"}', "c2": '{"port": "Calais"}'}
    call = {"type": "function_call", "name": "tide"}
    calls = [{**call, "id": f"i{key}", "call_id": key, "arguments": text} for key, text in texts.items()]
    usage = {"input_tokens": 5, "output_tokens": 2}
    done = {"id": "r1", "status": "completed", "output": calls, "usage": usage}
    return [
        item("u", type="message", role="user", content=[{"type": "input_text", "text": "Tides?"}]),
        {"type": "response.created", "event_id": "e1", "response": {"id": "r1", "status": "in_progress"}},
        {"type": "response.done", "event_id": "e2", "response": done},
        item("o2", type="function_call_output", call_id="c2", output="2 m"),
        item("o1", type="function_call_output", call_id="c1", output="7 m"),
        *openai_realtime.answer(["High."]),
    ]


RUNS: dict[str, tuple[list[dict[str, Any]], list[tuple[str, str, Any]]]] = {
    "bedrock": (of_bedrock(), [("c2", "tide", "2 m"), ("c1", "tide", {"height": 7})]),
    "cohere": (of_cohere(), [("c2", "tide", "2 m"), ("c1", "tide", {"height": 7})]),
    "gemini-interactions": (of_gemini_interactions(), [("c2", "tide", "2 m"), ("c1", "tide", {"height": 7})]),
    "mistral": (of_mistral(), [("c2", "tide", "2 m"), ("c1", "tide", {"height": 7})]),
    "ollama": (of_ollama(), [("call_2", "moon", "full"), ("call_0", "tide", "7 m"), ("call_1", "tide", "2 m")]),
    "openai-realtime": (of_realtime(), [("c2", "tide", "2 m"), ("c1", "tide", "7 m")]),
}


@pytest.mark.parametrize("dialect", RUNS)
def test_calls_and_their_results_are_one_thread(dialect: str) -> None:
    events, results = RUNS[dialect]
    run = assembled(dialect, events)
    assert run.refused == []
    assert [turn["turn_type"] for turn in run.turns] == ["user", "agent"]
    assert [part["content"] for part in run.user_turns[0]["parts"]] == ["Tides?"]
    calls = [part for part in run.parts("response") if part["part_kind"] == "tool-call"]
    assert [part["args"] for part in calls][:2] == [BREST, CALAIS]
    returns = [part for part in run.parts("request") if part["part_kind"] == "tool-return"]
    assert [(part["tool_call_id"], part["tool_name"], part["content"]) for part in returns] == results
    assert [part["content"] for part in run.parts("response") if part["part_kind"] == "text"] == ["High."]
    assert run.agent_turns[0]["completion_status"] == "complete"
    assert run.agent_turns[0]["total_usage"]["input_tokens"] == 17


@pytest.mark.parametrize(
    ("dialect", "event"),
    [
        ("bedrock", {"heartbeat": {"type": "message_stop"}}),
        ("gemini-interactions", {"event_type": "interaction.heartbeat", "type": "message_stop"}),
    ],
)
def test_an_unknown_event_is_not_what_a_field_of_it_says(dialect: str, event: dict[str, Any]) -> None:
    samples = {"bedrock": bedrock, "gemini-interactions": gemini_interactions}
    first, *rest = samples[dialect].answer(["Hel", "lo"])
    run = assembled(dialect, [first, event, *rest])
    assert run.refused == []
    assert [part["content"] for part in run.parts("response")] == ["Hello"]
    assert [message["event_type"] for message in run.messages("system")] == [
        f"data-app-{event.get('event_type') or next(iter(event))}"
    ]


def test_a_response_that_is_none_does_not_take_the_words_before_it() -> None:
    content = [{"type": "input_text", "text": "Tides?"}]
    item = {"id": "u", "type": "message", "role": "user", "content": content}
    run = assembled(
        "openai-realtime",
        [
            {"type": "conversation.item.added", "event_id": "e1", "item": item},
            {"type": "response.created", "event_id": "e2", "response": "none"},
            *openai_realtime.answer(["High."]),
        ],
    )
    assert len(run.refused) == 1
    assert [part["content"] for part in run.user_turns[0]["parts"]] == ["Tides?"]
