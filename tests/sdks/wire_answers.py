"""Scripted answers of models' APIs, streamed and whole, as bytes: Bedrock, Ollama, Cohere, Mistral, Gemini."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

from tests.sdks.scripted import CACHED, READ, Answer
from tests.support.aws_frames import frame

Fields = dict[str, Any]
Body = tuple[str, bytes]  # content type, bytes


def sse(events: Iterator[Fields], kind: str = "type", *, done: bool = False) -> Body:
    texts = [f"event: {event[kind]}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events]
    return "text/event-stream", "".join([*texts, *(["data: [DONE]\n\n"] if done else [])]).encode()


def whole(value: Any) -> Body:
    return "application/json", json.dumps(value).encode()


def halves(text: str) -> list[str]:
    return [text[: len(text) // 2], text[len(text) // 2 :]]


def converse(answer: Answer, _: int, *, stream: bool) -> Body:
    usage = {"inputTokens": READ - CACHED, "outputTokens": answer.said, "cacheReadInputTokens": CACHED}
    usage |= {"totalTokens": READ + answer.said}
    end = "tool_use" if answer.calls else "end_turn"
    if not stream:
        calls = [
            {"toolUse": {"toolUseId": call.id, "name": call.name, "input": call.arguments}} for call in answer.calls
        ]
        content = [{"text": answer.text}, *calls]
        told = {"message": {"role": "assistant", "content": content}}
        return whole({"metrics": {"latencyMs": 7}, "output": told, "stopReason": end, "usage": usage})
    frames = [frame("messageStart", {"role": "assistant", "p": "abc"})]
    frames += [
        frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": half}}) for half in halves(answer.text)
    ]
    frames.append(frame("contentBlockStop", {"contentBlockIndex": 0}))
    for index, call in enumerate(answer.calls, 1):
        start = {"toolUse": {"toolUseId": call.id, "name": call.name}}
        frames.append(frame("contentBlockStart", {"contentBlockIndex": index, "start": start}))
        for half in halves(call.text):
            delta = {"toolUse": {"input": half}}
            frames.append(frame("contentBlockDelta", {"contentBlockIndex": index, "delta": delta}))
        frames.append(frame("contentBlockStop", {"contentBlockIndex": index}))
    frames.append(frame("messageStop", {"stopReason": end}))
    frames.append(frame("metadata", {"usage": usage, "metrics": {"latencyMs": 7}}))
    return "application/vnd.amazon.eventstream", b"".join(frames)


def invoke(answer: Answer, number: int, *, stream: bool) -> Body:
    usage = {"input_tokens": READ - CACHED, "output_tokens": answer.said, "cache_read_input_tokens": CACHED}
    end = "tool_use" if answer.calls else "end_turn"
    message = {"id": f"msg_bdrk_{number}", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5"}
    blocks: list[Fields] = [{"type": "text", "text": answer.text}]
    blocks += [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in answer.calls]
    if not stream:
        return whole({**message, "content": blocks, "stop_reason": end, "usage": usage})
    begun = {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    events: list[Fields] = [{"type": "message_start", "message": begun}]
    for index, block in enumerate(blocks):
        is_text = block["type"] == "text"
        empty = {**block, **({"text": ""} if is_text else {"input": {}})}
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        for half in halves(block["text"] if is_text else json.dumps(block["input"])):
            kind = (
                {"type": "text_delta", "text": half} if is_text else {"type": "input_json_delta", "partial_json": half}
            )
            events.append({"type": "content_block_delta", "index": index, "delta": kind})
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": end}, "usage": {"output_tokens": answer.said}})
    events.append({"type": "message_stop"})
    chunks = [{"bytes": b64encode(json.dumps(event).encode()).decode(), "p": "ab"} for event in events]
    return "application/vnd.amazon.eventstream", b"".join(frame("chunk", chunk) for chunk in chunks)


def ollama(answer: Answer, _: int, *, stream: bool) -> Body:
    head = {"model": "scripted-1", "created_at": "2026-11-01T00:00:00.037000001Z"}
    calls = [
        {"id": f"drop_{call.id}", "function": {"name": call.name, "arguments": call.arguments}} for call in answer.calls
    ]
    counts = {"done": True, "done_reason": "stop", "prompt_eval_count": READ, "eval_count": answer.said}
    if not stream:
        return whole({**head, "message": {"role": "assistant", "content": answer.text, "tool_calls": calls}, **counts})
    said: list[Fields] = [{"content": half} for half in halves(answer.text)]
    said += [{"content": "", "tool_calls": [call]} for call in calls]
    lines = [{**head, "message": {"role": "assistant", **piece}, "done": False} for piece in said]
    lines.append({**head, "message": {"role": "assistant", "content": ""}, **counts})
    return "application/x-ndjson", b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def cohere(answer: Answer, number: int, *, stream: bool) -> Body:
    end = "TOOL_CALL" if answer.calls else "COMPLETE"
    usage = {"billed_units": {"input_tokens": 9.0, "output_tokens": 9.0}, "cached_tokens": float(CACHED)}
    usage["tokens"] = {"input_tokens": float(READ), "output_tokens": float(answer.said)}
    calls = [{"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.text}} for c in answer.calls]
    text = {"content": [{"type": "text", "text": answer.text}]} if not calls else {"tool_plan": "Two calls."}
    if not stream:
        message = {"role": "assistant", **text, **({"tool_calls": calls} if calls else {})}
        return whole({"id": f"c{number}", "finish_reason": end, "message": message, "usage": usage})

    def events() -> Iterator[Fields]:
        empty = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
        yield {"id": f"c{number}", "type": "message-start", "delta": {"message": empty}}
        if calls:
            yield {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": "Two calls."}}}
        else:
            yield {"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": ""}}}}
            for half in halves(answer.text):
                yield {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": half}}}}
            yield {"type": "content-end", "index": 0}
        for index, call in enumerate(calls):
            begun = {**call, "function": {"name": call["function"]["name"], "arguments": ""}}
            yield {"type": "tool-call-start", "index": index, "delta": {"message": {"tool_calls": begun}}}
            for half in halves(call["function"]["arguments"]):
                piece = {"tool_calls": {"function": {"arguments": half}}}
                yield {"type": "tool-call-delta", "index": index, "delta": {"message": piece}}
            yield {"type": "tool-call-end", "index": index}
        yield {"type": "message-end", "delta": {"finish_reason": end, "usage": usage}}

    return sse(events(), done=True)


def mistral(answer: Answer, number: int, *, stream: bool) -> Body:
    at = {"created_at": "2026-11-01T00:00:00Z"}
    usage = {"prompt_tokens": READ, "completion_tokens": answer.said, "total_tokens": READ + answer.said}
    said = {"id": f"msg_{number}", "model": "mistral-medium-2505", "role": "assistant", "content": answer.text}
    calls = [{"id": f"fc_{c.id}", "tool_call_id": c.id, "name": c.name, "arguments": c.text} for c in answer.calls]
    if not stream:
        entries = [{"object": "entry", "type": "message.output", **said}]
        entries += [{"object": "entry", "type": "function.call", **call} for call in calls]
        return whole(
            {"object": "conversation.response", "conversation_id": "conv_1", "outputs": entries, "usage": usage}
        )

    def events() -> Iterator[Fields]:
        yield {"type": "conversation.response.started", **at, "conversation_id": "conv_1"}
        for half in halves(answer.text):
            yield {"type": "message.output.delta", **at, "output_index": 0, "content_index": 0, **said, "content": half}
        for index, call in enumerate(calls, 1):
            for half in halves(call["arguments"]):
                yield {"type": "function.call.delta", **at, "output_index": index, **call, "arguments": half}
        yield {"type": "conversation.response.done", **at, "usage": usage}

    return sse(events())


def interactions(answer: Answer, number: int, *, stream: bool) -> Body:
    about = {"id": f"int_{number}", "object": "interaction", "model": "gemini-2.5-flash", "role": "model"}
    about |= {"created": "2026-11-01T00:00:00Z", "updated": "2026-11-01T00:00:00Z"}
    usage = {"total_input_tokens": READ, "total_cached_tokens": CACHED, "total_output_tokens": answer.said}
    usage |= {"total_tokens": READ + answer.said}
    end = {**about, "status": "requires_action" if answer.calls else "completed", "usage": usage}
    calls = [{"type": "function_call", "id": c.id, "name": c.name, "arguments": c.arguments} for c in answer.calls]
    if not stream:
        said = {"type": "model_output", "content": [{"type": "text", "text": answer.text}]}
        return whole({**end, "steps": [said, *calls]})

    def events() -> Iterator[Fields]:
        yield {"event_type": "interaction.created", "interaction": {**about, "status": "in_progress"}}
        yield {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}}
        for half in halves(answer.text):
            yield {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": half}}
        yield {"event_type": "step.stop", "index": 0}
        for index, call in enumerate(calls, 1):
            yield {"event_type": "step.start", "index": index, "step": {**call, "arguments": {}}}
            for half in halves(json.dumps(call["arguments"])):
                delta = {"type": "arguments_delta", "arguments": half}
                yield {"event_type": "step.delta", "index": index, "delta": delta}
            yield {"event_type": "step.stop", "index": index}
        yield {"event_type": "interaction.completed", "interaction": end}

    return sse(events(), "event_type", done=True)


PATHS: dict[str, Callable[..., Body]] = {  # the end of a path -> its API
    "/converse": converse,
    "/converse-stream": converse,
    "/invoke": invoke,
    "/invoke-with-response-stream": invoke,
    "/api/chat": ollama,
    "/v2/chat": cohere,
    "/v1/conversations": mistral,
    "/v1/conversations/conv_1": mistral,
    "/interactions": interactions,
}


def answer_of(path: str, body: Fields, answer: Answer, number: int) -> Body:
    """The answer over the API of a path, streamed where it is asked to be."""
    write = next(write for end, write in PATHS.items() if path.endswith(end))
    stream = path.endswith("-stream") or body.get("stream", write is ollama)
    return write(answer, number, stream=stream)
