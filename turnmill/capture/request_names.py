"""The conversation that a request names: in our headers, in its API, or in the way of known clients. Pure.

The first of these that is present counts:

1. `Turnmill-Thread`, `-Run`, `-Agent`, `-Parent` (a run, or THREAD/RUN)
2. `conversation` of the Responses API
3. in `metadata` of the body: `thread_id`, `conversation_id`, `session_id`, `chat_id`; of Claude Code, the session in
   `user_id`
4. headers of Codex, Claude Code and others that name a session
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from turnmill.errors import InvalidRecord
from turnmill.wire.envelope import loads

MAX_ID_CHARACTERS: Final = 200  # of an id
IN_METADATA: Final = ("thread_id", "conversation_id", "session_id", "chat_id")
HEADERS: Final = (
    "conversation_id",  # Codex
    "conversation-id",
    "x-conversation-id",
    "session_id",
    "session-id",
    "x-session-id",
    "x-claude-code-session-id",
)
CLAUDE_CODE: Final = re.compile(r"_session_([0-9a-fA-F-]{36})\Z")  # user_…_account_…_session_UUID


@dataclass(frozen=True, slots=True)
class RequestNames:
    """The names in a request; None for those that it lacks. `response`: the id of the response that it continues."""

    thread: str | None = None
    run: str | None = None
    agent: str | None = None
    parent_run: str | None = None
    parent_thread: str | None = None
    response: str | None = None


def request_names(headers: Mapping[str, str], body: Any) -> RequestNames:
    """Return the names in a request. `headers`: names in lower case. `body`: any JSON."""
    body = body if isinstance(body, dict) else {}
    parent = _id(headers.get("turnmill-parent"))
    thread, _, run = (parent or "").rpartition("/")
    return RequestNames(
        thread=next(_threads(headers, body), None),
        run=_id(headers.get("turnmill-run")),
        agent=_id(headers.get("turnmill-agent")),
        parent_run=run or None,
        parent_thread=thread or None,
        response=_id(body.get("previous_response_id")),
    )


def _threads(headers: Mapping[str, str], body: Mapping[str, Any]) -> Iterator[str]:
    conversation = body.get("conversation")
    candidates = [
        headers.get("turnmill-thread"),
        conversation.get("id") if isinstance(conversation, dict) else conversation,
    ]
    metadata = body.get("metadata")
    if isinstance(metadata, dict):
        candidates += [metadata.get(name) for name in IN_METADATA]
        candidates.append(_session(metadata.get("user_id")))
    candidates += [headers.get(name) for name in HEADERS]
    return (name for name in map(_id, candidates) if name is not None)


def _session(user_id: Any) -> str | None:
    """Return Claude Code's session: from the end of the user's id, or from the JSON that newer versions write there."""
    if not isinstance(user_id, str):
        return None
    match = CLAUDE_CODE.search(user_id)
    if match:
        return match[1]
    if user_id.startswith("{"):
        try:
            value = loads(user_id.encode("utf-8", "replace"))
        except InvalidRecord:
            return None
        session = value.get("session_id") if isinstance(value, dict) else None
        return session if isinstance(session, str) else None
    return None


def _id(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= MAX_ID_CHARACTERS else None
