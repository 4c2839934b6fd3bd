# /// script
# requires-python = ">=3.11"
# ///
"""Write examples/wires: conversations on the wires that record.py does not speak, as their servers write them.

    python examples/write_wires.py

What is asked and said stands in wires.json; ids, times and tokens follow from it. It needs Python alone.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DAY = 1768899600000  # 2026-01-20T09:00:00Z
WORDS = re.compile(r"\s*\S+|\s+$")

Event = dict[str, Any]


@dataclass(frozen=True)
class Tool:
    """A call, and what the tool gives."""

    name: str
    arguments: Event
    result: Event

    @property
    def text(self) -> str:
        """The arguments as models write them."""
        return json.dumps(self.arguments)

    @property
    def answer(self) -> str:
        """The result as a text."""
        return json.dumps(self.result)


@dataclass(frozen=True)
class Talk:
    """One run: what the user asks, the call that the agent makes, its answer; `id` names it and all in it."""

    id: str
    model: str
    agent: str
    prompt: str
    tool: Tool | None
    answer: str

    @property
    def calls(self) -> list[Tool | None]:
        """What each call of the model asks for; the last one answers."""
        return [self.tool, None] if self.tool else [None]

    def tokens(self, output: str) -> tuple[int, int]:
        """(input, output) of a call of the model that says this."""
        return 180 + 2 * len(self.prompt), max(1, len(output) // 4)


def words(text: str) -> list[str]:
    """Return a text in deltas."""
    return WORDS.findall(text)


def pieces(text: str) -> list[str]:
    """Return a call's arguments in deltas."""
    return [text[start : start + 12] for start in range(0, len(text), 12)]


def openai_responses(talk: Talk) -> list[Event]:
    """Return calls of the Responses API, each behind its request."""
    asked: list[Event] = [{"role": "user", "content": talk.prompt}]
    events: list[Event] = []
    for number, tool in enumerate(talk.calls):
        events.append({"type": "turnmill.request", "request": {"model": talk.model, "input": list(asked)}})
        events += response(talk, number, tool)
        if tool:
            call = {"type": "function_call", "call_id": f"call_{talk.id}", "name": tool.name, "arguments": tool.text}
            asked += [call, {"type": "function_call_output", "call_id": call["call_id"], "output": tool.answer}]
    return events


def response(talk: Talk, number: int, tool: Tool | None) -> list[Event]:
    """One call of the model, as the Responses API streams it."""
    place: Event
    if tool:
        begun: Event = {"type": "function_call", "id": f"fc_{talk.id}", "call_id": f"call_{talk.id}", "name": tool.name}
        item = {**begun, "arguments": tool.text, "status": "completed"}
        begun |= {"arguments": "", "status": "in_progress"}
        kind, place, texts = "function_call_arguments", {"output_index": 0, "item_id": item["id"]}, pieces(tool.text)
    else:
        begun = {"type": "message", "id": f"msg_{talk.id}", "role": "assistant", "status": "in_progress", "content": []}
        content = [{"type": "output_text", "text": talk.answer, "annotations": []}]
        item = {**begun, "status": "completed", "content": content}
        kind, texts = "output_text", words(talk.answer)
        place = {"output_index": 0, "item_id": item["id"], "content_index": 0}
    spent, said = talk.tokens("".join(texts))
    head = {"id": f"resp_{talk.id}_{number}", "object": "response", "model": talk.model}
    usage = {"input_tokens": spent, "output_tokens": said, "total_tokens": spent + said}
    whole = {**head, "status": "completed", "output": [item], "usage": usage}
    events: list[Event] = [
        {"type": "response.created", "response": {**head, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        *({"type": f"response.{kind}.delta", **place, "delta": text} for text in texts),
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return [{**event, "sequence_number": n} for n, event in enumerate(events)]


def openai_chat(talk: Talk) -> list[Event]:
    """Return calls of Chat Completions, each behind its request."""
    asked: list[Event] = [{"role": "user", "content": talk.prompt}]
    events: list[Event] = []
    for number, tool in enumerate(talk.calls):
        call = {"index": 0, "id": f"call_{talk.id}", "type": "function"}
        deltas: list[Event] = [{"role": "assistant", "content": ""}]
        if tool:
            deltas.append({"tool_calls": [{**call, "function": {"name": tool.name, "arguments": ""}}]})
            deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": text}}]} for text in pieces(tool.text)]
        else:
            deltas += [{"content": text} for text in words(talk.answer)]
        spent, said = talk.tokens(tool.text if tool else talk.answer)
        head = {"id": f"chatcmpl-{talk.id}-{number}", "object": "chat.completion.chunk", "model": talk.model}
        reason = "tool_calls" if tool else "stop"
        events.append({"object": "turnmill.request", "request": {"model": talk.model, "messages": list(asked)}})
        events += [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        events.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        events.append({**head, "choices": [], "usage": {"prompt_tokens": spent, "completion_tokens": said}})
        if tool:
            function = {"name": tool.name, "arguments": tool.text}
            calls = [{"id": call["id"], "type": "function", "function": function}]
            asked.append({"role": "assistant", "content": None, "tool_calls": calls})
            asked.append({"role": "tool", "tool_call_id": call["id"], "content": tool.answer})
    return events


def anthropic(talk: Talk) -> list[Event]:
    """Return calls of the Messages API, each behind its request."""
    asked: list[Event] = [{"role": "user", "content": talk.prompt}]
    events: list[Event] = []
    for number, tool in enumerate(talk.calls):
        events.append({"type": "turnmill.request", "request": {"model": talk.model, "messages": list(asked)}})
        events += message(talk, number, tool)
        if tool:
            call = {"type": "tool_use", "id": f"toolu_{talk.id}", "name": tool.name, "input": tool.arguments}
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": tool.answer}
            asked += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return events


def message(talk: Talk, number: int, tool: Tool | None) -> list[Event]:
    """One call of the model, as the Messages API streams it."""
    spent, said = talk.tokens(tool.text if tool else talk.answer)
    head = {"id": f"msg_{talk.id}_{number}", "type": "message", "role": "assistant", "model": talk.model}
    usage = {"input_tokens": spent, "output_tokens": 1}
    if tool:
        block: Event = {"type": "tool_use", "id": f"toolu_{talk.id}", "name": tool.name, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": text} for text in pieces(tool.text)]
    else:
        block = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": text} for text in words(talk.answer)]
    reason = "tool_use" if tool else "end_turn"
    return [
        {"type": "message_start", "message": {**head, "content": [], "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": said}},
        {"type": "message_stop"},
    ]


def openai_agents(talk: Talk) -> list[Event]:
    """Return the events of the Agents SDK: the model's own events, and items of the run."""
    agent = {"name": talk.agent}
    events: list[Event] = [{"type": "agent_updated_stream_event", "new_agent": agent}]
    for number, tool in enumerate(talk.calls):
        raw = response(talk, number, tool)
        whole = raw[-1]["response"]["output"][0]
        events += [{"type": "raw_response_event", "data": event} for event in raw]
        name, kind = ("tool_called", "tool_call_item") if tool else ("message_output_created", "message_output_item")
        items: list[tuple[str, Event]] = [(name, {"type": kind, "raw_item": whole, "agent": agent})]
        if tool:
            output = {"type": "function_call_output", "call_id": whole["call_id"], "output": tool.answer}
            told = {"type": "tool_call_output_item", "raw_item": output, "output": tool.answer, "agent": agent}
            items.append(("tool_output", told))
        events += [{"type": "run_item_stream_event", "name": name, "item": item} for name, item in items]
    return events


def claude_code(talk: Talk) -> list[Event]:
    """Claude Code's stream-json, with partial messages."""
    session = {"session_id": f"session-{talk.id}", "parent_tool_use_id": None}
    init = {"type": "system", "subtype": "init", "model": talk.model, "tools": ["Bash", "Read"]}
    events: list[Event] = [{**init, **session}]
    for number, tool in enumerate(talk.calls):
        raw = message(talk, number, tool)
        block = {**raw[1]["content_block"], **({"input": tool.arguments} if tool else {"text": talk.answer})}
        whole = {"type": "assistant", "message": {**raw[0]["message"], "content": [block]}, **session}
        partial = [{"type": "stream_event", "event": event, **session} for event in raw]
        events += [*partial[:-3], whole, *partial[-3:]]
        if tool:
            result = {"type": "tool_result", "tool_use_id": block["id"], "content": tool.answer}
            events.append({"type": "user", "message": {"role": "user", "content": [result]}, **session})
    told = [talk.tokens(tool.text if tool else talk.answer) for tool in talk.calls]
    usage = {"input_tokens": sum(spent for spent, _ in told), "output_tokens": sum(said for _, said in told)}
    end = {"type": "result", "subtype": "success", "is_error": False, "result": talk.answer, "usage": usage}
    return [*events, {**end, "session_id": session["session_id"]}]


def ag_ui(talk: Talk) -> list[Event]:
    """AG-UI, as its servers stream it."""
    run = {"threadId": talk.id, "runId": f"{talk.id}-1"}
    events: list[Event] = [{"type": "RUN_STARTED", **run, "protocolVersion": "1.0"}]
    if talk.tool:
        call = {"toolCallId": f"call_{talk.id}"}
        events += [
            {"type": "TOOL_CALL_START", **call, "toolCallName": talk.tool.name, "parentMessageId": f"m1-{talk.id}"},
            *({"type": "TOOL_CALL_ARGS", **call, "delta": text} for text in pieces(talk.tool.text)),
            {"type": "TOOL_CALL_END", **call},
            {"type": "TOOL_CALL_RESULT", **call, "messageId": f"m2-{talk.id}", "content": talk.tool.answer},
        ]
    begun = {"messageId": f"m3-{talk.id}"}
    told = [talk.tokens(tool.text if tool else talk.answer) for tool in talk.calls]
    counts = {"inputTokens": sum(spent for spent, _ in told), "outputTokens": sum(said for _, said in told)}
    return [
        *events,
        {"type": "TEXT_MESSAGE_START", **begun, "role": "assistant"},
        *({"type": "TEXT_MESSAGE_CONTENT", **begun, "delta": text} for text in words(talk.answer)),
        {"type": "TEXT_MESSAGE_END", **begun},
        {"type": "RUN_FINISHED", **run, "usage": [{"provider": "openai", "model": talk.model, **counts}]},
    ]


def langgraph(talk: Talk) -> list[Event]:
    """LangGraph's platform: pieces of messages, and what nodes wrote."""
    human = {"type": "human", "content": talk.prompt, "id": f"human-{talk.id}"}
    events: list[Event] = [
        {"event": "metadata", "data": {"run_id": f"{talk.id}-1", "attempt": 1}},
        {"event": "values", "data": {"messages": [human]}},
    ]
    for number, tool in enumerate(talk.calls):
        spent, said = talk.tokens(tool.text if tool else talk.answer)
        head = {"id": f"lc_run--{talk.id}-{number}", "additional_kwargs": {}, "response_metadata": {}}
        task = {"langgraph_step": 2 * number + 1, "langgraph_node": "model"}
        place = {**task, "langgraph_checkpoint_ns": f"model:{talk.id}-{number}"}
        call_id = f"call_{talk.id}"
        calls = [{"name": tool.name, "args": tool.arguments, "id": call_id, "type": "tool_call"}] if tool else []
        whole = {**head, "type": "ai", "content": "" if tool else talk.answer, "tool_calls": calls}
        whole |= {"response_metadata": {"model_name": talk.model, "finish_reason": "tool_calls" if tool else "stop"}}
        whole |= {"usage_metadata": {"input_tokens": spent, "output_tokens": said, "total_tokens": spent + said}}
        begun = {"name": tool.name, "args": "", "id": call_id, "index": 0} if tool else {}
        spoken: list[tuple[str, list[Event]]] = [(text, []) for text in words(talk.answer)]
        if tool:
            spoken = [("", [begun]), *(("", [{"args": text, "index": 0}]) for text in pieces(tool.text))]
        for text, call_chunks in spoken:
            chunk = {**head, "type": "AIMessageChunk", "content": text, "tool_call_chunks": call_chunks}
            events.append({"event": "messages", "data": [chunk, place]})
        events.append({"event": "updates", "data": {"model": {"messages": [whole]}}})
        if tool:
            result = {"type": "tool", "content": tool.answer, "tool_call_id": call_id, "name": tool.name}
            result |= {"id": f"tool-{talk.id}", "status": "success"}
            events.append({"event": "updates", "data": {"tools": {"messages": [result]}}})
    return [*events, {"event": "end", "data": None}]


def google_adk(talk: Talk) -> list[Event]:
    """Events of Google's ADK: fragments, then each event whole."""
    events: list[Event] = []

    def event(name: str, part: Event, **rest: Any) -> Event:
        content = {"role": "model", "parts": [part]}
        head = {"id": f"{name}-{talk.id}", "invocationId": f"i-{talk.id}", "author": talk.agent, "content": content}
        return {**head, "timestamp": DAY / 1000 + len(events), **rest}

    def used(output: str) -> Event:
        spent, said = talk.tokens(output)
        counts = {"promptTokenCount": spent, "candidatesTokenCount": said, "totalTokenCount": spent + said}
        return {"modelVersion": talk.model, "usageMetadata": counts}

    if talk.tool:
        call = {"id": f"adk-{talk.id}", "name": talk.tool.name}
        asks = {"functionCall": {**call, "args": talk.tool.arguments}}
        events.append(event("call", asks, **used(talk.tool.text)))
        events.append(event("result", {"functionResponse": {**call, "response": talk.tool.result}}))
    events += [event("answer", {"text": text}, partial=True) for text in words(talk.answer)]
    events.append(event("answer", {"text": talk.answer}, partial=False, finishReason="STOP", **used(talk.answer)))
    return events


@dataclass(frozen=True)
class Wire:
    """How a wire writes a run, whose models these are, and what the body of a run holds (None: its events say it)."""

    write: Callable[[Talk], list[Event]]
    provider: str
    suffix: str
    body: Callable[[str], Event] | None = None


WIRES = {
    "openai-responses": Wire(openai_responses, "openai", "sse"),
    "openai-chat": Wire(openai_chat, "openai", "sse"),
    "anthropic": Wire(anthropic, "anthropic", "sse"),
    "openai-agents": Wire(openai_agents, "openai", "jsonl", lambda said: {"input": said}),
    "claude-code": Wire(claude_code, "anthropic", "jsonl", lambda said: {"prompt": said}),
    "ag-ui": Wire(ag_ui, "openai", "sse", lambda said: {"messages": [{"id": "u1", "role": "user", "content": said}]}),
    "langgraph": Wire(
        langgraph, "openai", "sse", lambda said: {"input": {"messages": [{"role": "user", "content": said}]}}
    ),
    "google-adk": Wire(
        google_adk, "google", "jsonl", lambda said: {"newMessage": {"role": "user", "parts": [{"text": said}]}}
    ),
}


def framed(event: Event, suffix: str) -> str:
    """One event in its file."""
    if suffix == "jsonl":
        return json.dumps(event, ensure_ascii=False) + "\n"
    if isinstance(event.get("event"), str):
        return f"event: {event['event']}\ndata: {json.dumps(event['data'], ensure_ascii=False)}\n\n"
    return f"data: {json.dumps(event, ensure_ascii=False)}\n\n"


def main() -> None:
    """Write all files anew."""
    number = 0
    for name, agent in json.loads((HERE / "wires.json").read_text()).items():
        wire = WIRES[name]
        folder = HERE / "wires" / name
        folder.mkdir(parents=True, exist_ok=True)
        for run in agent["runs"]:
            tool = Tool(**run["tool"]) if "tool" in run else None
            talk = Talk(run["id"], agent["model_name"], agent["agent_name"], run["prompt"], tool, run["answer"])
            file = folder / f"{talk.id}.{wire.suffix}"
            file.write_text("".join(framed(event, wire.suffix) for event in wire.write(talk)))
            number += 1
            context = {
                "dialect": name,
                "thread_id": talk.id,
                "run_id": f"{talk.id}-1",
                "agent_id": name,
                "agent_name": talk.agent,
                "model_name": talk.model,
                "provider_name": wire.provider,
                "started_at": DAY + number * 61_000,
                "end": "complete",
                **({"request": wire.body(talk.prompt)} if wire.body else {}),
            }
            file.with_name(f"{file.name}.run.json").write_text(json.dumps(context, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
