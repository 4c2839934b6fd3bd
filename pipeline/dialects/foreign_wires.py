"""Names of streams that no dialect reads, by what their events have, so that they are refused by name."""

from typing import Any


def name_of(event: Any) -> str | None:
    """Return the name of the stream that an event is of; None if it is not known. The event may be any JSON."""
    match event:
        case {"type": str(kind)} if kind.startswith("agent.session."):
            return "OpenAI's agent sessions"
        case {"type": str(kind), "processed_at": _} if kind.startswith(("user.", "agent.", "session.", "span.")):
            return "Anthropic's managed agents"
        case {"event": str(), "task_id": _} if "workflow_run_id" in event or "message_id" in event:
            return "Dify"
    return None
