"""Names of streams that no dialect reads, by what their events have, so that they are refused by name."""

from typing import Any

REALTIME = ("session.", "conversation.", "input_audio_buffer.", "response.", "rate_limits.")


def name_of(event: Any) -> str | None:
    """Return the name of the stream that an event is of; None if it is not known. The event may be any JSON."""
    match event:
        case {"type": str(), "from": str(), "runId": _, "payload": _}:
            return "Mastra's fullStream"
        case {"type": str(kind), "event_id": str()} if kind.startswith(REALTIME):
            return "OpenAI's Realtime API"
        case {"type": str(), "delta": {"message": {}}}:
            return "Cohere's chat API, version 2"
        case {"event_type": str(kind), "event_id": _} if kind.startswith(("interaction.", "step.")):
            return "Gemini's Interactions API"
        case {"type": "raw_model_stream_event"} | {"item": {"rawItem": _}}:
            return "the JavaScript SDK of OpenAI's agents"
        case {"type": str(kind)} if kind.startswith("agent.session."):
            return "OpenAI's agent sessions"
        case {"type": str(kind), "processed_at": _} if kind.startswith(("user.", "agent.", "session.", "span.")):
            return "Anthropic's managed agents"
        case {"type": str(kind)} if kind.startswith(("conversation.response.", "message.output.")):
            return "Mistral's conversations"
        case {"init_event_loop": _} | {"event": {"messageStart": _}}:
            return "Strands Agents"
        case {"messageStart": {}} | {"contentBlockDelta": {}} | {"type": "messageStart", "role": _}:
            return "Bedrock's ConverseStream"
        case {"model": str(), "created_at": str(), "message": {}, "done": bool()}:
            return "Ollama's chat API"
        case {"event": str(), "task_id": _} if "workflow_run_id" in event or "message_id" in event:
            return "Dify"
    return None
