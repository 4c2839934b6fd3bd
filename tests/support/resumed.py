"""How a wire brings the conversation before a run again: in the request, in the stream, or not at all."""

import copy
from collections.abc import Callable
from typing import Any, Final

from pipeline.dialects import FORMATS
from pipeline.dialects.langgraph.shapes import stream_event
from tests.support.told_runs import Fields, Told

MODELS: Final = ("assistant", "model")
USED: Final = {"input_tokens": 700, "output_tokens": 30, "inputTokens": 700, "outputTokens": 30, "cost": 0.5}
SPENT: Final = {"usage": USED, "metadata": {"usage": USED, "totalUsage": USED}}
History = list[Fields]
Resumed = Callable[[Told, Told, History], Told]  # (the run, the run before it, its messages) -> the run behind that


def resumed(told: Told, before: Told, how: Resumed, form: str | None) -> Told:
    """The run with the messages of the one before it, the model's with what they used, as SDKs' objects have it."""
    mine = told.with_events(copy.deepcopy(told.events), copy.deepcopy(told.run))
    history = [] if form is None else FORMATS[form].made(before.document())
    return how(mine, before, [message | SPENT if message.get("role") in MODELS else message for message in history])


def ids_of(value: Any) -> set[str]:
    """All ids in a value: two runs that share some are of the same script."""
    if isinstance(value, list):
        return set().union(*map(ids_of, value))
    if not isinstance(value, dict):
        return set()
    own = {value["id"]} if isinstance(value.get("id"), str) else set()
    return own.union(*map(ids_of, value.values()))


def _requests(told: Told) -> list[Fields]:
    """The bodies of a run's requests: the publisher's, and those in the stream."""
    body = told.run.get("request")
    if not isinstance(body, dict):
        body = told.run["request"] = {}
    marks = (event for event in told.events if "turnmill.request" in (event.get("type"), event.get("object")))
    return [body, *(mark["request"] for mark in marks)]


def in_request(*path: str, asked: Fields | None = None) -> Resumed:
    """In each body, before its own messages; `asked`: the user's words, if a body has none."""

    def bring(told: Told, before: Told, history: History) -> Told:
        for body in _requests(told):
            holder = body
            for key in path[:-1]:
                holder = holder.setdefault(key, {})
            own = holder.get(path[-1]) or ([asked] if asked else [])
            own = [{"role": "user", "content": own}] if isinstance(own, str) else own
            holder[path[-1]] = [*history, *own]
        return told

    return bring


def of_ag_ui(told: Told, before: Told, history: History) -> Told:
    """In the request, the input of RUN_STARTED, and a snapshot of all messages before the end."""
    in_request("messages", asked={"id": "asked", "role": "user", "content": "More"})(told, before, history)
    shown = FORMATS["ag-ui"].made(told.document())
    for event in told.events:
        if event["type"] == "RUN_STARTED" and isinstance(event.get("input"), dict):
            event["input"]["messages"] = told.run["request"]["messages"]
        elif event["type"] == "MESSAGES_SNAPSHOT":
            event["messages"] = [*history, *event["messages"]]
    ends = (n for n, event in enumerate(told.events) if event["type"] in ("RUN_FINISHED", "RUN_ERROR"))
    told.events.insert(next(ends, len(told.events)), {"type": "MESSAGES_SNAPSHOT", "messages": [*history, *shown]})
    return told


def of_claude_code(told: Told, before: Told, history: History) -> Told:
    """The sums of the process go on; `turnmill.sums` tells those of before."""
    last = next((event for event in reversed(before.events) if event.get("type") == "result"), {})
    sums = {key: last[key] for key in ("total_cost_usd", "modelUsage") if last.get(key)}
    for event in told.events:
        if event.get("type") == "result" and sums:
            event["total_cost_usd"] = event.get("total_cost_usd", 0) + sums.get("total_cost_usd", 0)
            models = event.setdefault("modelUsage", {})
            for name, entry in sums.get("modelUsage", {}).items():
                models[name] = _added(entry, models.get(name, {}))
    return told.with_events([{"type": "turnmill.sums", **sums}, *told.events])


def _added(entry: Fields, other: Fields) -> Fields:
    numbers = {key for key, value in (*entry.items(), *other.items()) if isinstance(value, int | float)}
    return entry | other | {key: entry.get(key, 0) + other.get(key, 0) for key in numbers}


def of_langgraph(told: Told, before: Told, history: History) -> Told:
    """In the input, in each state, and in what a node writes after the first state."""
    in_request("input", "messages", asked={"role": "user", "content": "More"})(told, before, history)
    for event in told.events:
        try:
            mode, namespace, data, _ = stream_event(event)
        except TypeError:
            continue
        if mode == "events":
            is_root = not data.get("parent_ids")
            held = [data["data"].get("input"), data["data"].get("output") if is_root else None]
        elif namespace or not isinstance(data, dict):
            held = []
        else:
            held = [data] if mode.endswith("values") else list(data.values()) if mode.endswith("updates") else []
        for state in held:
            if isinstance(state, dict) and isinstance(state.get("messages"), list):
                state["messages"][:0] = copy.deepcopy(history)
    return told


def of_pydantic_ai(told: Told, before: Told, history: History) -> Told:
    """In the result, whose index says where the run's messages begin."""
    for event in told.events:
        result = event.get("result") if event["event_kind"] == "agent_run_result" else None
        if result is not None:
            state = result.get("_state") or {}
            messages = result["messages"] if "messages" in result else state["message_history"]
            messages[:0] = history
            for key in ("new_message_index", "_new_message_index"):
                if key in result:
                    result[key] += len(history)
    return told


PI_WORDS: Final = {"role": "user", "content": [{"type": "text", "text": "More"}], "timestamp": 1_768_928_999_000}
WORDS: Final = {"role": "user", "content": "More"}
UI_WORDS: Final = {"id": "asked", "role": "user", "parts": [{"type": "text", "text": "More"}]}
# A wire -> the format of its histories, and how a run brings one; nothing where it brings nothing of other runs.
RESUMED: Final[dict[str, tuple[str | None, tuple[Resumed, ...]]]] = {
    "a2a": (None, ()),  # a stream of a task that goes on has that task alone
    "acp": (None, ()),  # what `session/load` tells again stands before its result
    "ag-ui": ("ag-ui", (of_ag_ui,)),
    "agents-sdk": ("vercel-ai", (in_request("messages", asked=WORDS),)),
    "anthropic": ("anthropic", (in_request("messages", asked=WORDS),)),
    "bedrock": ("anthropic", (in_request("messages", asked=WORDS),)),
    "claude-code": (None, (of_claude_code,)),
    "codex": (None, ()),  # the thread's sum goes on, and nothing tells how far it was
    "cohere": ("openai-chat", (in_request("messages", asked=WORDS),)),
    "gemini": ("gemini", (in_request("contents", asked={"role": "user", "parts": [{"text": "More"}]}),)),
    "gemini-cli": (None, ()),  # its session is a file, and nothing of it is streamed
    "gemini-interactions": (None, ()),  # the server keeps the history
    "google-adk": (None, ()),  # the server keeps the session, and streams new events alone
    "langgraph": ("langchain", (of_langgraph,)),
    "mastra": ("vercel-ai", (in_request("messages", asked=WORDS),)),
    "mistral": (None, ()),  # the server keeps the conversation
    "ollama": ("openai-chat", (in_request("messages", asked=WORDS),)),
    "openai-agents": ("openai-responses", (in_request("input", asked=WORDS),)),
    "openai-agents-js": ("openai-responses", (in_request("input", asked=WORDS),)),
    "openai-chat": ("openai-chat", (in_request("messages", asked=WORDS),)),
    "openai-realtime": (None, ()),  # the server keeps the session
    "openai-responses": ("openai-responses", (in_request("input", asked=WORDS),)),
    "opencode": (None, ()),  # the server keeps the session, and streams new events alone
    "otel": (None, ()),  # each span repeats the history, and what is new follows from the spans before
    "pi-agent": (None, ()),  # `agent_end` has the messages of its run alone
    "pi-proxy": ("pi-agent", (in_request("context", "messages", asked=PI_WORDS),)),
    "pydantic-ai": ("pydantic-ai", (of_pydantic_ai,)),
    "strands": ("anthropic", (in_request("messages", asked=WORDS),)),
    "thread-protocol": (None, ()),  # each event is a new turn
    "vercel-ai": ("vercel-ai", (in_request("messages", asked=UI_WORDS), in_request("messages"))),
}
