"""Check a thread document against the models of topics/thread.py: pydantic's errors as findings."""

from __future__ import annotations

from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from topics.findings import Finding, joined, shown
from topics.thread import VERSION, Thread
from topics.thread_parts import PARTS

# The names of union branches, which pydantic adds to its paths after a list's index or a field's name.
BRANCHES: Final = frozenset(
    {
        *("UserTurn", "AgentTurn", "ThreadMessage", "SystemMessage", "str", "list", *PARTS.values()),
        *("OtherPart", "UrlContent", "BinaryContent", "OtherContent", "int", "float", "bool"),
    }
)


def schema_findings(document: Any) -> list[Finding]:
    """Return the schema's findings for any JSON value; a 0.0.3 document is checked as its 0.0.4 equivalent."""
    if not isinstance(document, dict):
        return [Finding("schema", "error", "", f"A thread document is a JSON object, not {shown(document)}")]
    try:
        Thread.model_validate(_as_current(document))
    except ValidationError as error:
        return [_finding(details) for details in error.errors(include_url=False, include_context=False)]
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
    return Finding("schema", "error", path, f"{details['msg']}, not {shown(details['input'])}")
