"""Wires that are another one's kin: what their streams leave out, what comes beside them, and calls that broke off."""

import json
from typing import Any
from zlib import crc32

import pytest

from pipeline.dialects import DIALECTS
from pipeline.dialects.recognition import recognise
from pipeline.dialects.shared_hash import CARRIERS
from pipeline.stores.costs.rows import usage_rows
from tests.support.assembled import assembled
from turnmill.wire.framing import decode, decoder_for

SONNET = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
ASKED = {"messages": [{"role": "user", "content": "When is high tide?"}]}
ODD: list[Any] = [
    None,
    1,
    [],
    {"messages": 5},
    {"messages": [{"content": [{"image": {}, "document": {}}]}]},
    {"messages": [{"role": "assistant", "content": 5, "tool_calls": [{"function": 5}]}]},
    {"messages": [{"tool_calls": [{"function": "x"}]}]},
    {"inputs": 5},
    {"input": 5},
    {"prompt": 5},
]


def request(body: Any) -> dict[str, Any]:
    return {"type": "turnmill.request", "request": body}


def converse(*behind: dict[str, Any], text: str = "At noon.") -> list[dict[str, Any]]:
    return [
        {"messageStart": {"role": "assistant"}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": text}}},
        {"messageStop": {"stopReason": "end_turn"}},
        *behind,
    ]


def metadata(**beside: Any) -> dict[str, Any]:
    return {"metadata": {"usage": {"inputTokens": 1_000, "outputTokens": 10, "totalTokens": 1_010}, **beside}}


def frame(payload: bytes, **headers: str) -> bytes:
    """A frame of AWS's event streams. `headers`: without their colon, with _ for -."""
    named = {f":{name.replace('_', '-')}".encode(): value.encode() for name, value in headers.items()}
    head = b"".join(
        bytes([len(name)]) + name + b"\x07" + len(value).to_bytes(2, "big") + value for name, value in named.items()
    )
    prelude = (16 + len(head) + len(payload)).to_bytes(4, "big") + len(head).to_bytes(4, "big")
    whole = prelude + crc32(prelude).to_bytes(4, "big") + head + payload
    return whole + crc32(whole).to_bytes(4, "big")


def of_event(kind: str, payload: Any) -> bytes:
    return frame(json.dumps(payload).encode(), message_type="event", event_type=kind)


def test_the_model_of_bedrock_is_that_of_the_request_and_has_the_price_of_its_region() -> None:
    run = assembled("bedrock", [request({"modelId": SONNET, **ASKED}), *converse(metadata())])
    assert run.messages("response")[0]["model_name"] == SONNET
    at_home, elsewhere = (
        usage_rows(assembled("bedrock", [request({"modelId": model, **ASKED}), *converse(metadata())]).records[-1])[0]
        for model in (SONNET.replace("eu.", "global."), SONNET)
    )
    assert (at_home["cost_nano_usd"], elsewhere["cost_nano_usd"]) == (3_150_000, 3_465_000)


def test_what_bedrock_tells_beside_the_tokens_is_kept() -> None:
    beside = {"serviceTier": {"type": "priority"}, "trace": {"guardrail": {"a": 1}}, "metrics": {"latencyMs": 5}}
    for events in (
        converse(metadata(**beside)),
        [
            {
                "output": {"message": {"role": "assistant", "content": [{"text": "At noon."}]}},
                "stopReason": "end_turn",
                **metadata()["metadata"],
                **beside,
                "ResponseMetadata": {"HTTPStatusCode": 200},
            }
        ],
    ):
        response = assembled("bedrock", events).messages("response")[0]
        assert response["usage"] == {"input_tokens": 1_000, "output_tokens": 10, "service_tier": "priority"}
        kept = {key: value for key, value in response["meta:anthropic"].items() if key != "stop_reason"}
        assert kept == {"trace": beside["trace"], "metrics": beside["metrics"]}


def test_a_frame_of_an_error_says_why() -> None:
    stream = of_event("messageStart", {"role": "assistant"}) + frame(
        b"", message_type="error", error_code="InternalFailure", error_message='The "server" broke off'
    )
    events = [item.event for item in decode(stream, DIALECTS["bedrock"].wire) if item.event]
    assert assembled("bedrock", events).agent_turns[0]["interruption"]["detail"] == 'The "server" broke off'


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_frames_may_come_in_any_pieces(size: int) -> None:
    stream = of_event("messageStart", {"role": "assistant"}) + of_event("messageStop", {"stopReason": "end_turn"})
    from_pieces = decode_pieces(stream, size)
    assert from_pieces == [{"messageStart": {"role": "assistant"}}, {"messageStop": {"stopReason": "end_turn"}}]


def decode_pieces(stream: bytes, size: int) -> list[Any]:
    decoder = decoder_for(DIALECTS["bedrock"].wire)
    framed = [item for at in range(0, len(stream), size) for item in decoder.feed(stream[at : at + size])]
    return [item.event for item in framed]


@pytest.mark.parametrize("at", [3, 20, -1])
def test_nothing_is_read_behind_a_frame_whose_checksum_is_wrong(at: int) -> None:
    good, bad = of_event("messageStart", {"role": "assistant"}), bytearray(of_event("messageStop", {"p": "x"}))
    bad[at] ^= 1
    framed = decode(good + bytes(bad) + good, DIALECTS["bedrock"].wire)
    assert [item.event is not None for item in framed] == [True, False]


def test_a_result_that_broke_off_is_not_that_of_the_next_call() -> None:
    start = {"toolResult": {"toolUseId": "s", "type": "nova_grounding_result", "status": "success"}}
    broken = [{"messageStart": {}}, {"contentBlockStart": {"contentBlockIndex": 0, "start": start}}]
    said = converse()
    said.insert(2, {"contentBlockStop": {"contentBlockIndex": 0}})
    run = assembled("bedrock", [request(ASKED), *broken, request(ASKED), *said])
    assert [part["part_kind"] for part in run.parts("response")] == ["text"]


def test_a_call_of_ollama_is_counted_from_the_start_of_its_answer() -> None:
    """One that broke off, and was tried again, is none of the conversation's."""
    call = {"function": {"name": "tide", "arguments": {"port": "Brest"}}}
    asks = {"message": {"role": "assistant", "content": "", "tool_calls": [call]}, "done": False}
    ends = {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}
    about = {"model": "own:1b", "created_at": "2026-11-01T00:00:00Z"}
    run = assembled("ollama", [request(ASKED), about | asks, request(ASKED), about | asks, about | ends])
    assert [part["tool_call_id"] for part in run.parts("response")] == ["call_0"]


@pytest.mark.parametrize("form", ["streamed", "whole"])
def test_cohere_tells_tokens_as_floats_and_names_no_model(form: str) -> None:
    usage = {"usage": {"tokens": {"input_tokens": 525.0, "output_tokens": 42.0}, "cached_tokens": 400.0}}
    source = {"start": 0, "end": 2, "text": "At", "sources": []}
    content = {"type": "text", "text": "At noon."}
    events: list[Any] = [
        {"id": "1", "type": "message-start", "delta": {"message": {"role": "assistant"}}},
        {"type": "content-start", "index": 0, "delta": {"message": {"content": content}}},
        {"type": "citation-start", "index": 0, "delta": {"message": {"citations": source}}},
        {"type": "message-end", "delta": {"finish_reason": "COMPLETE", **usage}},
    ]
    if form == "whole":
        message = {"role": "assistant", "content": [content], "citations": [source]}
        events = [{"id": "1", "finish_reason": "COMPLETE", "message": message, **usage}]
    response = assembled("cohere", [request({"model": "command-a", **ASKED}), *events]).messages("response")[0]
    assert response["usage"] == {"input_tokens": 525, "output_tokens": 42, "cache_read_tokens": 400}
    assert response["model_name"] == "command-a"
    assert response["parts"][0]["meta:anthropic"]["citations"] == [source]


WHOLE = {
    "object": "conversation.response",
    "conversation_id": "conv_1",
    "outputs": [
        {"type": "tool.execution", "id": "x", "name": "web_search", "arguments": '{"query": "tides"}', "info": {}},
        {"type": "message.output", "model": "own-medium", "content": [{"type": "text", "text": "Let me look."}]},
        {"type": "function.call", "tool_call_id": "t1", "name": "tide", "arguments": '{"port": "Brest"}'},
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}


def test_a_whole_answer_of_mistral() -> None:
    found = recognise(json.dumps(WHOLE).encode())
    assert found is not None
    assert found.name == "mistral"
    run = assembled("mistral", [request({"inputs": "When is high tide?"}), WHOLE])
    assert run.refused == []
    assert [(part["part_kind"], part.get("content") or part.get("args")) for part in run.parts("response")] == [
        ("builtin-tool-call", {"query": "tides"}),
        ("builtin-tool-return", None),
        ("text", "Let me look."),
        ("tool-call", {"port": "Brest"}),
    ]
    assert DIALECTS["mistral"].ended(WHOLE, None) == "complete"


def test_a_request_in_a_conversation_of_mistral_continues_it() -> None:
    body = {"conversation_id": "conv_1", "inputs": [{"type": "function.result", "tool_call_id": "t1", "result": "12"}]}
    assert DIALECTS["mistral"].history(body).follows == "conv_1"


def test_the_first_names_of_realtime_events() -> None:
    item = {"id": "item_1", "type": "message", "role": "assistant", "content": []}
    place = {"response_id": "r", "item_id": "item_1", "output_index": 0, "content_index": 0}
    said = {**item, "content": [{"type": "audio", "transcript": "At noon."}]}
    events = [
        {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.content_part.added", **place, "part": {"type": "audio", "transcript": ""}},
        {"type": "response.audio_transcript.delta", **place, "delta": "At noon."},
        {"type": "response.audio.delta", **place, "delta": "AAAA"},
    ]
    run = assembled("openai-realtime", events)
    assert run.agent_turns[0]["meta:partial"]["messages"][0]["parts"][0]["content"] == "At noon."
    done = {"type": "response.done", "response": {"id": "r", "status": "completed", "output": [said]}}
    whole = assembled("openai-realtime", [*events, done])
    assert [part["content"] for part in whole.parts("response")] == ["At noon."]
    assert not [m for turn in whole.agent_turns for m in turn["messages"] if m["message_type"] == "system"]


@pytest.mark.parametrize("dialect", ["bedrock", "cohere", "gemini-interactions", "mistral", "ollama"])
def test_a_request_may_be_any_json(dialect: str) -> None:
    mark = {DIALECTS[dialect].wire.kind: "turnmill.request"}
    for body in ODD:
        DIALECTS[dialect].history(body)
        assert assembled(dialect, [{**mark, "request": body}]).refused == []
    (refused,) = assembled(dialect, [mark]).refused
    assert "'request' is missing" in refused


def test_a_request_that_was_read_reads_the_same_again() -> None:
    """The thread of a run is found by the body that its kin has read."""
    image = {"image": {"format": "png", "source": {"bytes": "aGk="}}}
    call = {"function": {"name": "tide", "arguments": {"port": "Brest"}}}
    for dialect, messages in {
        "bedrock": [{"role": "user", "content": [{"text": "Hi"}, image, {"cachePoint": {"type": "default"}}]}],
        "cohere": [{"role": "assistant", "tool_calls": [{"id": "c", **call}]}, {"role": "tool", "content": "12"}],
        "ollama": [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_name": "tide", "content": "12"}],
    }.items():
        run = assembled(dialect, [{"type": "x"}], run={"request": {"messages": messages}})
        assert run.turns
        read = DIALECTS[dialect].history({"messages": messages})
        assert DIALECTS[dialect].history({"messages": list(read.messages)}).messages == read.messages


def of_node(node: str, event: dict[str, Any]) -> dict[str, Any]:
    return {"type": "multiagent_node_stream", "node_id": node, "event": event}


def test_parallel_agents_of_strands_stand_behind_each_other_also_where_the_run_breaks_off() -> None:
    first, second = ([{"event": event} for event in converse(text=text)] for text in ("Brest.", "Calais."))
    events = [
        of_node(node, event) for pair in zip(first, second, strict=True) for node, event in zip("ab", pair, strict=True)
    ]
    bad = of_node("b", {"event": {"contentBlockDelta": 5}})
    run = assembled("strands", [*events, bad], end="complete")
    assert [part["content"] for message in run.messages("response") for part in message["parts"]] == [
        "Brest.",
        "Calais.",
    ]
    assert len(run.refused) == 1
    stop = {"type": "multiagent_node_stop", "node_id": "a"}
    assert assembled("strands", [*events, stop], end="complete").messages("response") == run.messages("response")


def test_tokens_of_strands_are_with_those_of_caches_whatever_the_models_class_tells() -> None:
    for total, tokens in ((202, 190), (330, 318)):
        usage = {"inputTokens": 190, "outputTokens": 12, "totalTokens": total, "cacheReadInputTokens": 128}
        run = assembled("strands", [{"event": event} for event in converse({"metadata": {"usage": usage}})])
        assert run.turns[-1]["total_usage"]["input_tokens"] == tokens


@pytest.mark.parametrize("asked", ["When?", [{"text": "When?"}], [{"role": "user", "content": [{"text": "When?"}]}]])
def test_the_prompt_of_strands(asked: Any) -> None:
    for body in (asked, {"prompt": asked}):
        events = [{"event": event} for event in converse()]
        assert assembled("strands", events, run={"request": body}).turns[0]["parts"][0]["content"] == "When?"


def test_the_input_and_the_tokens_of_the_agents_sdk_for_javascript() -> None:
    called = {"type": "function_call", "callId": "c1", "name": "tide", "arguments": "{}"}
    returned = {"type": "function_call_result", "callId": "c1", "output": {"type": "text", "text": "high"}}
    asked = [{"role": "user", "content": "When?"}, called, returned]
    usage = {
        "inputTokens": 7,
        "outputTokens": 2,
        "inputTokensDetails": [{"cached_tokens": 3}],
        "outputTokensDetails": [],
    }
    output = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "At noon."}]}]
    done = {"type": "response_done", "response": {"id": "r", "output": output, "usage": usage}}
    moved = {"type": "agent_updated_stream_event", "agent": {"name": "A"}}
    events = [{"type": "raw_model_stream_event", "data": done}, moved]
    run = assembled("openai-agents-js", events, run={"request": {"input": asked}}, end="complete")
    assert [part["content"] for message in run.messages("request") for part in message["parts"]] == ["high"]
    assert run.messages("response")[0]["parts"][0]["content"] == "At noon."
    told = run.turns[-1]["total_usage"]
    assert (told["input_tokens"], told["cache_read_tokens"], told["output_tokens"]) == (7, 3, 2)


def of_mastra(kind: str, **payload: Any) -> dict[str, Any]:
    return {"type": kind, "runId": "r", "from": "AGENT", "payload": payload}


def test_tokens_of_a_step_of_mastra_that_was_begun_before_count_once() -> None:
    usage = {"inputTokens": 20, "outputTokens": 10, "raw": {"inputTokens": 20}}
    step = of_mastra("step-finish", stepResult={"reason": "tool-calls"}, output={"usage": usage})
    answered = of_mastra("tool-result", toolCallId="c1", toolName="pay", result="paid")
    end = of_mastra("finish", stepResult={"reason": "stop"}, output={"usage": {"inputTokens": 40, "outputTokens": 20}})
    run = assembled("mastra", [answered, step, of_mastra("step-start"), step, end])
    rows = [row for record in run.records for row in usage_rows(record)]
    assert [sum(row[name] or 0 for row in rows) for name in ("input_tokens", "output_tokens")] == [40, 20]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ("broke", "broke"),
        ({"message": "broke"}, "broke"),
        ({"cause": {"message": "broke"}}, "broke"),
        ({}, "{}"),
        (5, "5"),
    ],
)
def test_errors_of_mastra_are_what_is_left_of_them(error: Any, text: str) -> None:
    run = assembled("mastra", [of_mastra("start", messageId="m"), of_mastra("error", error=error)])
    assert run.turns[-1]["interruption"]["detail"] == text
    assert DIALECTS["mastra"].history({"messages": [{"role": "user", "content": "Hi"}]}).messages


@pytest.mark.parametrize("asked", ["When?", [{"role": "user", "content": [{"type": "text", "text": "When?"}]}]])
def test_what_an_agent_of_mastra_was_asked(asked: Any) -> None:
    for body in (asked, {"messages": asked}):
        run = assembled("mastra", [of_mastra("step-start")], run={"request": body})
        assert run.turns[0]["parts"][0]["content"] == "When?"


@pytest.mark.parametrize(("wire", "kin"), [("mastra", "vercel-ai"), ("bedrock", "anthropic")])
def test_a_wire_loses_what_its_kin_loses_and_not_what_others_lose_over_its_kin(wire: str, kin: str) -> None:
    assert [carrier.name for carrier in DIALECTS[wire].carriers] == [wire]
    assert (CARRIERS[wire].losses, CARRIERS[wire].over) == (CARRIERS[kin].losses, None)


def test_a_framework_is_no_provider_and_a_model_of_bedrock_has_its_price_behind_it_too() -> None:
    events = [{"event": event} for event in converse(metadata())]
    run = assembled("strands", events, run={"model_name": SONNET})
    assert "provider_name" not in run.messages("response")[0]
    (row,) = usage_rows(run.records[-1])
    assert row["cost_nano_usd"] == 3_465_000


def test_a_thought_that_another_provider_has_sealed_is_no_part_for_gemini() -> None:
    sealed = {"contentBlockIndex": 0, "delta": {"reasoningContent": {"redactedContent": "AAE="}}}
    said = converse()
    said[1]["contentBlockDelta"]["contentBlockIndex"] = 1
    run = assembled("bedrock", [said[0], {"contentBlockDelta": sealed}, *said[1:]])
    assert run.export("gemini") == [{"role": "model", "parts": [{"text": "At noon."}]}]
