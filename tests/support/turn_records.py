"""Turn records with a given text, time and usage, as the stores take them."""

from typing import Any

from turnmill.identity import thread_uuid, turn_id

Record = dict[str, Any]


def make_record(
    chat: str = "chat",
    run: str = "r",
    ordinal: str = "",
    *,
    seconds: int = 1,
    text: str = "hello",
    tokens: int = 10,
    role: str = "agent",
    **fields: Any,
) -> Record:
    thread_id, external_id = thread_uuid(chat)
    at = f"2026-01-20T{10 + seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    agent_id = fields.get("agent_id", "a1")
    turn: Record = {"turn_type": "user", "submitted_at": f"{at}.000Z"}
    turn["parts"] = [{"part_kind": "user-prompt", "content": text}]
    if role == "agent":
        response = {
            "message_type": "response",
            "timestamp": f"{at}.250Z",
            "agent_id": agent_id,
            "model_name": fields.pop("model", "model-1"),
            "provider_name": "provider-1",
            "parts": [{"part_kind": "text", "content": text}],
            "usage": {"input_tokens": tokens, "output_tokens": 1, "cost": 0.001},
        }
        turn = {
            "turn_type": "agent",
            "agent_id": agent_id,
            "started_at": f"{at}.000Z",
            "completed_at": f"{at}.500Z",
            "completion_status": fields.get("status", "complete"),
            "messages": [response],
        }
    return {
        "v": 1,
        "thread_id": thread_id,
        "run_id": run,
        "turn_id": turn_id(thread_id, run, ordinal),
        "agent_id": agent_id,
        "dialect": "vercel-ai",
        "revision": 0,
        "status": "complete",
        "hash": "0" * 64,
        "events": 3,
        "ranges": [[0, fields.get("events", 3) - 1]],
        "turn": turn,
        "agents": [{"agent_id": agent_id, "agent_name": agent_id.title(), "created_at": f"{at}.000Z"}],
        "thread": {"external_id": external_id} if external_id else {},
        **fields,
    }
