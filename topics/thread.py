"""ThreadProtocol 0.0.4 as models: threads, turns and messages, for validation and as JSON Schema.

The pipeline itself works on plain dicts. Every model keeps extra fields, and unknown
part kinds, content kinds and event types, so that extensions (`data-*`, `custom:*`, `meta:*`) survive a round trip.
Times and ids are plain text here; topics/thread_rules.py checks them. Two fields that the
specification requires but that most wires can't fill (`provider_name` of a thinking part, `identifier` of a piece of
content) are optional here.

`schema_findings` checks a document against the models: pydantic's errors as findings.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, Tag, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails

from topics.findings import Finding, joined, shown
from topics.thread_parts import PARTS, MessagePart, Open, by
from turnmill.errors import expectation

VERSION: Final = "0.0.4"
SCHEMA_ID: Final = f"urn:threadprotocol:thread:{VERSION}"
# The names of union branches, which pydantic adds to its paths after a list's index or a field's name.
BRANCHES: Final = frozenset(
    {
        *("UserTurn", "AgentTurn", "ThreadMessage", "SystemMessage", "str", "list", *PARTS.values()),
        *("OtherPart", "UrlContent", "BinaryContent", "OtherContent", "int", "float", "bool"),
    }
)

Timestamp = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Identifier = Annotated[str, Field(json_schema_extra={"format": "uuid"})]
# Pydantic writes the bound of a union as a keyword that JSON Schema does not have.
Tokens = Annotated[int | float, Field(ge=0), WithJsonSchema({"type": "number", "minimum": 0})]
FinishReason = Literal["stop", "length", "content_filter", "tool_call", "error"]


class Usage(Open):
    """Tokens of a response, or of a turn with its interrupted responses."""

    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    thinking_tokens: Tokens | None = None
    total_tokens: Tokens | None = None


class ThreadMessage(Open):
    """A request to the model, or its response."""

    message_type: Literal["request", "response"]
    timestamp: Timestamp
    parts: list[MessagePart]
    agent_id: str
    model_name: str | None = None
    provider_name: str | None = None
    provider_response_id: str | None = None
    usage: Usage | None = None
    finish_reason: FinishReason | None = None


class SystemMessage(Open):
    """An event outside of the conversation; any event type is allowed."""

    message_type: Literal["system"]
    timestamp: Timestamp
    event_type: str
    event_data: Any
    source_agent: str | None = None
    target_agents: list[str] | None = None


AnyMessage = Annotated[
    Annotated[ThreadMessage, Tag("ThreadMessage")] | Annotated[SystemMessage, Tag("SystemMessage")],
    by("message_type", {"request": "ThreadMessage", "response": "ThreadMessage", "system": "SystemMessage"}),
]


class UserTurn(Open):
    """A user's turn: what was submitted. Keys of `client_metadata` carry a namespace."""

    turn_type: Literal["user"]
    submitted_at: Timestamp
    parts: list[MessagePart]
    client_metadata: dict[str, Any] | None = None


class Interruption(Open):
    """Why a turn stopped: user_cancelled, timeout, network_failure, safety_halt, error, or any other text."""

    reason: str
    interrupted_at: Timestamp


class AgentTurn(Open):
    """An agent's turn; only a complete one has `completed_at`, only an interrupted one has `interruption`."""

    turn_type: Literal["agent"]
    agent_id: str
    started_at: Timestamp
    completion_status: Literal["complete", "interrupted"]
    completed_at: Timestamp | None = None
    interruption: Interruption | None = None
    messages: list[AnyMessage]
    total_usage: Usage | None = None


Turn = Annotated[
    Annotated[UserTurn, Tag("UserTurn")] | Annotated[AgentTurn, Tag("AgentTurn")],
    by("turn_type", {"user": "UserTurn", "agent": "AgentTurn"}),
]


class AgentConfig(Open):
    """An agent of the thread's registry."""

    agent_id: str
    agent_name: str
    model_name: str | None = None
    provider_name: str | None = None
    created_at: Timestamp
    config_ref: str | None = None


class ThreadLink(Open):
    """An outgoing link; relation: spawned_from, merged_from, referenced, or any other text."""

    thread_id: Identifier
    relation: str
    metadata: dict[str, Any] | None = None


class Relationships(Open):
    """A thread's relations to others."""

    links: list[ThreadLink] | None = None


class Thread(Open):
    """A conversation: its agents and turns."""

    version: Literal["0.0.4"]
    thread_id: Identifier
    created_at: Timestamp
    updated_at: Timestamp
    title: str | None = None
    metadata: dict[str, Any] | None = None
    agents: dict[str, AgentConfig]
    turns: list[Turn]
    relationships: Relationships | None = None


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a thread document."""
    schema = Thread.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, **schema}


def schema_findings(document: Any) -> list[Finding]:
    """Return the schema's findings for any JSON value; a 0.0.3 document is checked as its 0.0.4 equivalent."""
    if not isinstance(document, dict):
        return [Finding("schema", "error", "", f"A thread document is a JSON object, not {shown(document)}")]
    try:
        Thread.model_validate(_as_current(document))
    except ValidationError as error:
        return [_finding(details) for details in error.errors(include_url=False)]
    return []


def _as_current(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document as 0.0.4, changed only where the models need it, so that all paths stay the same."""
    turns = document.get("turns")
    if document.get("version") != "0.0.3" or not isinstance(turns, list):
        return document
    return {
        **document,
        "version": VERSION,
        "turns": [{"completion_status": "complete", **turn} if isinstance(turn, dict) else turn for turn in turns],
    }


def _finding(details: ErrorDetails) -> Finding:
    steps = [
        step
        for number, step in enumerate(details["loc"])
        if step not in BRANCHES or details["loc"][number - 1] == "agents"
    ]
    path = joined("", *steps)
    if details["type"] == "missing":
        return Finding("schema", "error", path, f"'{steps[-1]}' is required here: add it")
    if steps[-1:] == ["finish_reason"] and details["input"] == "tool_calls":
        return Finding("schema", "warning", path, "'tool_calls' is read as 'tool_call': write it so")
    return Finding("schema", "error", path, f"{expectation(details)}, not {shown(details['input'])}")
