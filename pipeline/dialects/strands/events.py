"""Strands Agents (dialect `strands`): its inner events are those of Bedrock's Converse API, and it is Anthropic's kin.

| event | what it does |
|---|---|
| event | an event of `bedrock`, whichever model is behind it |
| event.contentBlock… without an index, from models other than Bedrock's | of the block that is open |
| event.metadata | its usage; `inputTokens` may hold those of caches, as `totalTokens` tells |
| message | of the assistant: nothing, its events had it; of the user: results of tools, and what else the user said |
| event_loop_throttled_delay | the call is made again: what it had shown is taken back |
| force_stop | the run failed |
| result | the run ended well; `cancelled`: it was broken off |
| multiagent_node_stream | the event of an agent of a graph or swarm; those of parallel agents wait for each other |
| multiagent_node_stop | the events of the agents that wait |
| data, reasoningText, tool_use_stream, …, start, multiagent_node_start, multiagent_result | nothing: others have it |
| tool_stream | of an agent that is a tool: its messages, as SystemMessage data-app-tool_stream |
| turnmill.request, turnmill.error | as Anthropic's |
| any other | SystemMessage data-app-TYPE |
"""

from collections.abc import Iterator
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Handler, Violation
from pipeline.dialects import model_calls
from pipeline.dialects.anthropic import DIALECT as OF
from pipeline.dialects.bedrock import events as bedrock
from pipeline.dialects.kin import ASKED, CANCELLED, STATE, kin
from topics.json_text import Fields, objects
from turnmill.errors import InvalidRecord

KEYS: Final = frozenset({"init_event_loop", "start_event_loop", "event_loop_throttled_delay", "force_stop"})
STREAM: Final = "multiagent_node_stream"
STOP: Final = "multiagent_node_stop"
OVER: Final = "strands.over"
WAITED: Final = "strands.waited"
CUT: Final = ("disconnected", "timeout")
SILENT: Final = ("multiagent_node_start", "multiagent_result")
REPEATS: Final = frozenset({"delta", "init_event_loop", "start", "start_event_loop"})  # keys of what others say, too


def translate(state: Fields, event: Fields) -> Iterator[Fields]:
    """Yield Anthropic's events of an event."""
    match event:
        case {"type": "multiagent_node_stream" | "multiagent_node_stop" as kind, "node_id": str(node)}:
            if state.setdefault("node", node) != node:
                list(translate({}, event))  # refused now, if it is none
                state["waiting"] = waiting = state.get("waiting", [])
                waiting.append(event)
            elif kind == STREAM:
                yield from translate(state, event["event"])
            else:
                del state["node"]
                waited = [each for late in state.pop("waiting", ()) for each in translate(state, late)]
                yield {"type": WAITED, "events": waited}
        case {"tool_stream_event": {"data": dict(inner)}} if not REPEATS.isdisjoint(inner) or "event" in inner:
            pass
        case {"event": dict(inner)}:
            yield from _of_model(state, inner)
        case {"message": {"role": str(role)} as message}:
            state["said"] = [*_said(state), *bedrock.body({"messages": [message]})["messages"]]
            state["last"] = role
            if role == "user":
                yield _call(state)
        case {"event_loop_throttled_delay": _}:
            yield _call(state)
        case {"force_stop": _}:
            yield {"type": "error", "error": event.get("force_stop_reason")}
        case {"result": {"stop_reason": reason}}:
            yield {"type": CANCELLED if reason == "cancelled" else OVER, "last": state.get("last")}
        case _ if event.get("type") not in SILENT and REPEATS.isdisjoint(event):
            if not event:
                raise Violation("an event of Strands has a key")
            yield {**event, "type": event.get("type", next(iter(event)))}


def _said(state: Fields) -> Any:
    return state.get("said", state.get(ASKED, {}).get("messages", ()))


def _call(state: Fields) -> Fields:
    """Return the request of the next call of the model. The same messages as before: it is tried again."""
    return {"type": model_calls.REQUEST, "request": {"messages": [*_said(state)]}}


def _of_model(state: Fields, event: Fields) -> Iterator[Fields]:
    """Yield Anthropic's events of an inner event: with the index of its block, and the tokens of caches beside."""
    kind = next(iter(event), "")
    told: Fields = event[kind] if kind in bedrock.KINDS else {}
    index: Any = 0 if kind == "messageStart" else told.get("contentBlockIndex", state.get("block", 0))
    state["block"] = index + (kind == "contentBlockStop")
    usage = event["metadata"].get("usage") or {} if kind == "metadata" else {}
    cached = usage.get("cacheReadInputTokens", 0) + usage.get("cacheWriteInputTokens", 0)
    if cached and usage.get("totalTokens") == usage["inputTokens"] + usage["outputTokens"]:
        usage = {**usage, "inputTokens": usage["inputTokens"] - cached}
        event = {kind: {**event[kind], "usage": usage}}
    if kind.startswith("contentBlock"):
        event = {kind: {**told, "contentBlockIndex": index}}
    if told.get("start") != {}:  # of a text
        yield from bedrock.translate(state, event)


def body(request: Any) -> Any:
    """Return the prompt of a run, which may be a text, blocks or messages, as the body of a request to Anthropic."""
    given = request["prompt"] if isinstance(request, dict) and "prompt" in request else request
    if not isinstance(given, str | list):
        return bedrock.body(given) or {"messages": []}
    is_whole = isinstance(given, list) and any("role" in each for each in objects(given))
    return bedrock.body({"messages": given if is_whole else [{"role": "user", "content": given}]})


def finish(builder: Builder, end: str) -> None:
    """Add the events of agents that waited for a parallel agent; if a call awaits its tools, the run broke off."""
    state = builder.scratch[STATE]
    while "waiting" in state:
        (late,) = translate(state, {"type": STOP, "node_id": state["node"]})
        waited(builder, late)
    if end in CUT and model_calls.calls_of(builder).awaits:
        model_calls.settle_newest(builder)
        builder.end_turn("disconnected")
    else:
        OF.finish(builder, end)


def waited(builder: Builder, event: Fields) -> None:
    """Handle the events of agents that had to wait; keep those that the call refuses."""
    for each in event["events"]:
        try:
            ALL.get(each["type"], OF.unknown)(builder, each)
        except (InvalidRecord, KeyError, TypeError):
            builder.system("data-app-refused", each)


def over(builder: Builder, event: Fields) -> None:
    """End the run well, also behind results of tools after which the model was not called."""
    calls = model_calls.calls_of(builder)
    calls.whole = calls.whole or (calls.response is None and event["last"] == "user")
    if calls.whole:
        calls.awaits, builder.ended = False, "complete"


HANDLERS: Final[dict[str, Handler]] = {**bedrock.HANDLERS, OVER: over, WAITED: waited}
ALL: Final[dict[str, Handler]] = {**OF.handlers, **HANDLERS}


def recognises(event: Any) -> bool:
    """Return whether an event is of this wire."""
    match event:
        case {"type": str(kind)}:
            return kind.startswith(("multiagent_", "tool_stream", "tool_use_stream"))
        case {"event": dict(inner)}:
            return bedrock.recognises(inner) or "redactContent" in inner
        case {"message": {"role": "user" | "assistant", "content": list()}} | {"result": {"type": "agent_result"}}:
            return True
        case {"start": True} | {"data": str(), "delta": {"text": _}} | {"reasoning": True, "delta": _}:
            return True
    return isinstance(event, dict) and not KEYS.isdisjoint(event)


DIALECT: Final = kin("strands", OF, translate, body, recognises, provider=None, more=HANDLERS, finish=finish)
