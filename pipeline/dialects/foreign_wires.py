"""Names of streams that no dialect reads, by what their events have, so that they are refused by name."""

from __future__ import annotations

from typing import Any


def name_of(event: Any) -> str | None:
    """Return the name of the stream that an event is of; None if it is not known. The event may be any JSON."""
    match event:
        case {"jsonrpc": "2.0", "method": str(method)} if method.startswith("session/"):
            return "the Agent Client Protocol"
        case {"jsonrpc": "2.0", "result": {"task": _} | {"statusUpdate": _} | {"artifactUpdate": _} | {"message": _}}:
            return "A2A"
        case {"jsonrpc": "2.0", "result": {"kind": "task" | "message" | "status-update" | "artifact-update"}}:
            return "A2A"
        case {"statusUpdate": {"taskId": _}} | {"artifactUpdate": {"taskId": _}} | {"task": {"contextId": _}}:
            return "A2A"
        case {"type": str(), "from": str(), "runId": _, "payload": _}:
            return "Mastra's fullStream"
        case {"type": str(kind), "sessionID": str(), "timestamp": _, "part": _} if kind:
            return "`opencode run --format json`"
        case {"type": "init" | "message" | "tool_use" | "tool_result" | "result", "timestamp": str()}:
            return "Gemini CLI's stream-json"
        case {"type": "thread.started", "thread_id": _} | {
            "type": "item.started" | "item.completed",
            "item": {"id": _},
        }:
            return "`codex exec --json`"
        case {"type": "raw_model_stream_event"} | {"item": {"rawItem": _}}:
            return "the JavaScript SDK of OpenAI's agents"
        case {"type": str(kind)} if kind.startswith("agent.session."):
            return "OpenAI's agent sessions"
        case {"type": str(kind), "processed_at": _} if kind.startswith(("user.", "agent.", "session.", "span.")):
            return "Anthropic's managed agents"
        case {"init_event_loop": _} | {"event": {"messageStart": _}}:
            return "Strands Agents"
        case {"event": str(), "task_id": _} if "workflow_run_id" in event or "message_id" in event:
            return "Dify"
    return None
