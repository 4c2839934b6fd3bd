"""Pydantic AI's event stream (`run_stream_events`, an event stream handler), 1.20 to 2.68: one JSON object an event.

| event_kind | what it does |
|---|---|
| part_start | a part of a new response, a further part of it, or (index known) the replacement of one |
| part_delta | extends the part; those of calls also after its premature end |
| part_end | the part's current content; the end of the last (no `next_part_kind`) ends the response |
| function_tool_call, output_tool_call | the call, whole; no more parts come |
| function_tool_result, output_tool_result | its result, in the order in which calls began, and the tool's prompt |
| final_result | which call is the answer; not the end: tools may still run |
| enqueued_messages | steering: into the request that answers the tools, or as requests of their own |
| tool_availability_delta, capability_load_delta, model_settings_delta | a part of the next request |
| custom | SystemMessage data-NAME; `feedback`: feedback, too, its fields in `data` |
| agent_run_result | the run is complete; its new messages replace those of the events, but for any that it removed |
| builtin_tool_call, builtin_tool_result | for display: the response contains both |
| any other | SystemMessage pydantic-ai.KIND |

Events are read leniently: releases differ in their fields and kinds.

A result contains the whole history; the run's messages begin at its `new_message_index` (1.x: `_state` and
`_new_message_index`). The user's prompts of the first request become the user turn and are not repeated in the agent
turn; if that request contains more than these, PROMPT_AT keeps their positions.
"""

from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Delta, Handler, Stretch, nothing
from pipeline.assembly.parts import Part
from pipeline.dialects.pydantic_ai import tools
from pipeline.dialects.pydantic_ai.messages import message, part, usage
from pipeline.dialects.pydantic_ai.response import close, part_delta, part_deltas, part_end, part_start, settle
from pipeline.dialects.pydantic_ai.whole import add_message, new_messages, replace
from pipeline.dialects.tp_events import interpret
from pipeline.dialects.vercel_ai.content import user_prompt
from pipeline.turns.lineage import History
from topics.json_text import Fields, objects

HAS_MESSAGES: Final = "has_messages"  # key of builder.scratch: the run's messages came with its result


def _prompt_parts(body: Any) -> list[Fields]:
    """Return the parts of a body's user turn. Raises AttributeError, KeyError or TypeError for another shape."""
    if isinstance(body, str):
        return [{"part_kind": "user-prompt", "content": body}]
    if isinstance(body, list):
        return _last_words(body)
    prompt = body.get("user_prompt", body.get("prompt"))
    if isinstance(prompt, str | list):
        return [part({"part_kind": "user-prompt", "content": prompt})]
    messages = body.get("messages", body.get("message_history"))
    return _last_words(messages) if isinstance(messages, list) else []


def _last_words(messages: list[Fields]) -> list[Fields]:
    """Return the prompts of the last message; empty if that is the agent's, which the run continues."""
    last = messages[-1] if messages else {}
    if last.get("kind") == "request":
        return [part(raw) for raw in last["parts"] if raw["part_kind"] == "user-prompt"]
    if last.get("role") != "user":
        return []
    parts = last["parts"] if isinstance(last.get("parts"), list) else [{"type": "text", "text": last["content"]}]
    prompt = user_prompt(parts)
    return [] if prompt is None else [prompt]


def repeated(body: Any) -> History:
    """Return the conversation that a request repeats."""
    if not isinstance(body, dict):
        return History([_message(raw) for raw in body] if isinstance(body, list) else ())
    raws = body.get("messages", body.get("message_history"))
    messages = [_message(raw) for raw in raws] if isinstance(raws, list) else []
    prompt = body.get("user_prompt", body.get("prompt"))
    if isinstance(prompt, str | list):
        messages.append({"role": "user", "content": prompt})
    return History(messages)


def _message(raw: Any) -> Any:
    """Return a ModelMessage in the form of a chat message; any other as it is."""
    if not isinstance(raw, dict) or raw.get("kind") not in ("request", "response"):
        return raw
    parts = objects(raw.get("parts"))
    if raw["kind"] == "response":
        texts = [{"text": part.get("content")} for part in parts if part.get("part_kind") == "text"]
        return {"role": "assistant", "content": texts}
    asked = [part.get("content") for part in parts if part.get("part_kind") == "user-prompt"]
    pieces = [piece for content in asked for piece in (content if isinstance(content, list) else [content])]
    return {"role": "user", "content": pieces} if asked else {"role": "tool"}


def begin(builder: Builder) -> None:
    """Turn off the builder's order of results: this dialect orders them itself, since output tools may come first."""
    builder.returns_by_call = False


def request_part(builder: Builder, event: Fields) -> None:
    """Add a part that the SDK itself adds to the next request."""
    fields = part(event["part"])
    close(builder)
    tools.answering(builder).parts.append(Part(fields, done=True))


def enqueued(builder: Builder, event: Fields) -> None:
    """Add messages that were sent during the run: to the request that answers a tool, or as messages of their own."""
    parts = [part(raw) for raw in event.get("parts") or ()]
    whole = [] if parts else [message(raw) for raw in event["messages"]]
    close(builder)
    if parts:
        tools.answering(builder).parts.extend(Part(fields, done=True) for fields in parts)
    for converted in whole:
        add_message(builder, converted, builder.at)


def custom(builder: Builder, event: Fields) -> None:
    """Add an event of the application, under the name that Pydantic AI's Vercel adapter gives it."""
    event_type = f"data-{event['name']}"
    beside = ("event_kind", "name", "tool_call_id", "tool_name")
    data: Any = {key: value for key, value in event.items() if key not in beside} or None
    if event_type.startswith("data-sys-"):
        builder.sys_event(event_type, data)
        return
    interpret(builder, event_type, data)
    source = {f"meta:{key}": event[key] for key in beside[2:] if event.get(key) is not None}
    builder.system(event_type, data, **source)


def unknown(builder: Builder, event: Fields) -> None:
    """Keep the event as a system message of its kind."""
    kind = event["event_kind"] + ""
    builder.system(f"pydantic-ai.{kind}", {key: value for key, value in event.items() if key != "event_kind"})


def finish(builder: Builder, end: str) -> None:
    """Settle open calls, add results that the wire omits, and read the user's prompt from the request body."""
    settle(builder)
    if end == "complete" and not builder.scratch.get(HAS_MESSAGES):
        tools.add_implied(builder)
    parts = [] if builder.user_turns else _asked(builder)
    if parts:
        builder.user_turn(parts)


def _asked(builder: Builder) -> list[Fields]:
    try:
        return [] if builder.context.request is None else _prompt_parts(builder.context.request)
    except (AttributeError, KeyError, TypeError):  # a body of another shape
        return []


def run_result(builder: Builder, event: Fields) -> None:
    """Complete the run; its messages replace those of the events."""
    result = event["result"]
    state = result.get("_state") or {}
    history = result.get("messages", state.get("message_history"))
    tokens = usage(result.get("usage", state.get("usage")))
    if history is not None:
        replace(builder, [message(raw) for raw in new_messages(history, result, state)], _asked(builder))
        builder.scratch[HAS_MESSAGES] = True
    _run_usage(builder, tokens)
    builder.ended = "complete"


def _run_usage(builder: Builder, tokens: Fields | None) -> None:
    """Set the run's tokens, unless other runs are included in them (`usage=ctx.usage` of a delegation)."""
    if tokens is None:
        return
    responses = sum(1 for item in builder.messages if item.kind == "response")
    requests: Any = tokens.get("requests")
    if requests is None or requests <= responses:
        builder.total_usage = tokens
    else:
        builder.notes["meta:run_usage"] = tokens


HANDLERS: Final[dict[str, Handler]] = {
    "part_start": part_start,
    "part_delta": part_delta,
    "part_end": part_end,
    "final_result": tools.final_result,
    "function_tool_call": tools.function_called,
    "output_tool_call": tools.output_called,
    "function_tool_result": tools.returned,
    "output_tool_result": tools.returned,
    "builtin_tool_call": nothing,  # 1.x: repeats a part of the response
    "builtin_tool_result": nothing,
    "enqueued_messages": enqueued,
    "tool_availability_delta": request_part,
    "capability_load_delta": request_part,
    "model_settings_delta": request_part,
    "custom": custom,
    "agent_run_result": run_result,
}
STRETCHES: Final[dict[str | None, Stretch]] = {"part_delta": part_deltas}
DELTAS: Final[dict[str | None, tuple[Delta, ...]]] = {
    "part_delta": (
        Delta("text", ("delta", "content_delta"), "index", ("part_delta_kind", "text")),
        Delta("thinking", ("delta", "content_delta"), "index", ("part_delta_kind", "thinking")),
    )
}
