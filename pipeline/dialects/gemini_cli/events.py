"""Gemini CLI (dialect `gemini-cli`), as `gemini --output-format stream-json` writes it.

| line | what it does |
|---|---|
| `init` | the model, and the session's name |
| `message` of the user | the user's words |
| `message` of the assistant | extends the text; without `delta` it is whole |
| `tool_use`, `tool_result` | a call, and its result |
| `error` | SystemMessage `data-app-notice` |
| `result` | the end, with the tokens of the turn |
| `result` in error | the same; where the text repeats itself, all but the last try are taken back |
| any other | SystemMessage `data-app-TYPE` |

The program asks again in silence when an answer breaks off, and its text then comes again, as if it went on. Thoughts
are only in the sum of all tokens.
"""

from collections.abc import Sequence
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Shown, StreamEnd
from pipeline.dialects import steps
from pipeline.dialects.wire_values import call_arguments, text_or_none
from pipeline.turns.tokens import counts
from topics.json_text import Fields, object_of


def _take(builder: Builder, event: Fields) -> None:
    match event:
        case {"type": "init", "session_id": str(session), "model": str(model)}:
            builder.context.model_name = builder.context.model_name or model
            builder.context.external_id = builder.context.external_id or session
        case {"type": "message", "role": "user", "content": content}:
            steps.ask(builder, content)
        case {"type": "message", "content": str(text)}:
            steps.say(builder, "text", text, whole=event.get("delta") is not True)
        case {"type": "tool_use", "tool_id": str(call_id), "tool_name": str(name)}:
            steps.call(builder, call_id, name, call_arguments(event.get("parameters")))
        case {"type": "tool_result", "tool_id": str(call_id)}:
            failed = event.get("status") != "success"
            content = event.get("error", event.get("output")) if failed else event.get("output")
            steps.result(builder, call_id, content, failed=failed)
        case {"type": "error", "message": str(text)}:
            builder.error_text = text
            steps.notice(builder, text)
        case {"type": "result", "status": status}:
            if status != "success":
                builder.error_text = text_or_none(object_of(event.get("error")).get("message")) or builder.error_text
                steps.take_back(builder, repeated=True)
            steps.over(builder, "complete" if status == "success" else "error", _usage(builder, event.get("stats")))
        case {"type": kind}:
            steps.keep(builder, kind, event)


def _usage(builder: Builder, stats: Any) -> Fields:
    """Return the tokens of the turn; if a single model has them all, it is that of the responses."""
    if not isinstance(stats, dict):
        return {}
    usage = {"input_tokens": 0, "output_tokens": 0} | counts({**stats, "cached_tokens": stats.get("cached")})
    usage["thinking_tokens"] = max(0, usage.pop("total_tokens", 0) - usage["input_tokens"] - usage["output_tokens"])
    usage["output_tokens"] += usage["thinking_tokens"]
    models = stats["models"].items() if isinstance(stats.get("models"), dict) else ()
    used = [name for name, told in models if any(counts(told).values())]
    for response in builder.messages if len(used) == 1 else ():
        if response.kind == "response":
            response.fields["model_name"] = used[0]
    return usage


def recognises(event: Any) -> bool | None:
    """Return whether an event is of this wire: its types are those of many programs, its times are texts."""
    match event:
        case {"type": "init" | "message" | "tool_use" | "tool_result" | "error" | "result", "timestamp": str()}:
            return True
    return False


def _shows(event: Any) -> Sequence[Shown]:
    match event:
        case {"type": "message", "role": "assistant", "content": str(text)}:
            return [Shown("text", text)]
        case {"type": "tool_use", "tool_name": str(name)}:
            return [Shown("tool", name)]
    return ()


def _ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
    match event:
        case {"type": "result", "status": status, "timestamp": str()}:
            return "complete" if status == "success" else None
    return before


SESSION: Final = ("session_id",)
DIALECT: Final = steps.wire("gemini-cli", _take, SESSION, recognises, _shows, _ended)
