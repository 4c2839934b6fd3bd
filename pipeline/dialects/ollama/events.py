"""Ollama's `/api/chat` and `/api/generate` (dialect `ollama`): the kin of Chat Completions.

| event | what it does |
|---|---|
| message, response | adds text, thoughts and calls; with `done`, its `done_reason` and counts |
| `error` | the call failed: interrupted, unless another call follows |
| turnmill.request, turnmill.error | as those of Chat Completions |

Calls and results have no ids: a result is that of the oldest call of its tool that has none. An answer with calls says
`stop`. A prompt that was cached has no count.
"""

from collections.abc import Iterator
from typing import Any, Final

from pipeline.dialects.kin import ASKED, kin
from pipeline.dialects.openai_chat import DIALECT as OF
from pipeline.dialects.openai_chat.events import CHUNK
from pipeline.dialects.wire_values import text_or_dumped
from topics.json_text import Fields, objects

WORDS: Final = {"load": "stop", "unload": "stop"}  # reasons without an answer
COUNTS: Final = {"prompt_eval_count": "prompt_tokens", "eval_count": "completion_tokens"}
OF_CHUNK: Final = frozenset(
    {"model", "created_at", "message", "response", "thinking", "done", "done_reason", "logprobs"}
)
TIMES: Final = frozenset({"total_duration", "load_duration", "prompt_eval_duration", "eval_duration", "context"})


def translate(state: Fields, event: Fields) -> Iterator[Fields]:
    """Yield the chunk of an event."""
    if "error" in event:
        yield {"object": CHUNK, "choices": [], "error": event["error"]}
        return
    message = (
        event["message"] if "message" in event else {"content": event["response"], "thinking": event.get("thinking")}
    )
    calls = [_call(state, call) for call in objects(message.get("tool_calls"))]
    delta = {"content": message.get("content"), "reasoning": message.get("thinking"), "tool_calls": calls or None}
    choice: Fields = {"index": 0, "delta": {key: value for key, value in delta.items() if value}}
    if event.get("logprobs"):
        choice["logprobs"] = {"content": event["logprobs"]}
    rest = {key: value for key, value in event.items() if key not in OF_CHUNK | TIMES and key not in COUNTS}
    chunk: Fields = {"object": CHUNK, "model": event.get("model"), "choices": [choice], **rest}
    if event.get("done"):
        reason = event.get("done_reason") or "stop"
        choice["finish_reason"] = (
            "tool_calls" if state.pop("calls", 0) and reason == "stop" else WORDS.get(reason, reason)
        )
        chunk["usage"] = {name: event[key] for key, name in COUNTS.items() if key in event} or None
    yield chunk


def _call(state: Fields, call: Fields) -> Fields:
    """Return a call with the id by which its result finds it: its number in the conversation."""
    number = state.get("calls", 0)
    state["calls"] = number + 1
    asked = objects(state.get(ASKED, {}).get("messages"))
    before = sum(len(objects(message.get("tool_calls"))) for message in asked)
    return _named(call, before + number) | {"index": number}


def _named(call: Fields, number: int) -> Fields:
    function = call.get("function") or {}
    arguments = text_or_dumped(function.get("arguments") or {})
    return {
        "id": f"call_{number}",  # clients drop the server's
        "function": {"name": function.get("name"), "arguments": arguments},
    }


def body(request: Any) -> Any:
    """Return a request as that of Chat Completions: its calls and results have ids, its images are URLs."""
    if not isinstance(request, dict):
        return request
    if "prompt" in request:
        leading = [{"role": "system", "content": request["system"]}] if request.get("system") else []
        asked = {"role": "user", "content": request["prompt"], "images": request.get("images")}
        rest = {key: value for key, value in request.items() if key not in ("prompt", "system", "images", "context")}
        return {**rest, "messages": [_asked(message) for message in (*leading, asked)]}
    messages, waiting = [], []  # calls without a result
    count = 0
    for message in objects(request.get("messages")):
        calls = [_named(call, count + number) for number, call in enumerate(objects(message.get("tool_calls")))]
        count += len(calls)
        waiting += calls
        made = _asked(message)
        if calls:
            made["tool_calls"] = calls
        if message.get("role") == "tool":
            name = message.get("tool_name") or message.get("name")
            answered = next((call for call in waiting if name in (None, call["function"]["name"])), None)
            if answered is not None:
                waiting.remove(answered)
                made["tool_call_id"] = message.get("tool_call_id") or answered["id"]
        messages.append(made)
    return {**request, "messages": messages} if messages else request


def _asked(message: Fields) -> Fields:
    made = {key: value for key, value in message.items() if key not in ("images", "thinking")}
    if message.get("thinking"):
        made["reasoning"] = message["thinking"]
    urls = [f"data:image/png;base64,{image}" for image in message.get("images") or () if isinstance(image, str)]
    if urls:
        text = [{"type": "text", "text": message["content"]}] if message.get("content") else []
        made["content"] = [*text, *({"type": "image_url", "image_url": {"url": url}} for url in urls)]
    return made


def recognises(event: Any) -> bool:
    """Return whether an event is of this wire."""
    match event:
        case {"model": str(), "created_at": str(), "done": bool(), "message": {}} | {
            "model": str(),
            "created_at": str(),
            "done": bool(),
            "response": str(),
        }:
            return True
        case {"error": str()}:
            return len(event) == 1
    return False


DIALECT: Final = kin("ollama", OF, translate, body, recognises)
