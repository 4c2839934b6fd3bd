"""The tools of `turnmill mcp`: what each asks of a gateway, and how its answer is made short. Pure."""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from topics import json_text
from turnmill.errors import CallerError

MOST: Final = 40_000  # characters of an answer, some 10,000 tokens: agents warn of more, or cut it off themselves
TEXT: Final = re.compile(r'"((?:[^"\\]|\\.){0,1000})((?:[^"\\]|\\.)*)"')  # of JSON, and what of it a long answer keeps
PARAMETERS: Final = {
    "agent": "Only this agent, by its id.",
    "before": "Only turns before this turn: `previous` of the page that is known.",
    "cursor": "`cursor` or `next` of the page before.",
    "from": "From this time on: ISO 8601, or an age as 24h, 7d.",
    "group_by": "Any of model, provider, agent, thread, finish_reason, user, project; with commas between.",
    "last": "Number of turns, 5 if it is not given.",
    "limit": "The most rows.",
    "project": "Only with a run of this project.",
    "q": 'Words that must all occur: word "some words" begin* -without.',
    "since": "At or after this time, in ISO 8601: 2026-01-20T10:00:00Z.",
    "status": "Of threads: complete or interrupted. Of runs: open, or waiting for a person.",
    "thread": "The thread's UUID, or the conversation id that its producer gave it.",
}


class Tool(NamedTuple):
    """The path that a tool asks for, its parameters, and its description; `member`: what is shown of the answer.

    Parameters in `{}` of the path are no part of the query. The query of the path has defaults.
    """

    path: str
    parameters: str
    does: str
    member: str = ""

    def schema(self) -> dict[str, Any]:
        """Return the parameters as a JSON Schema."""
        kinds = {name: "integer" if name in ("last", "limit") else "string" for name in self.parameters.split()}
        known = {name: {"type": kind, "description": PARAMETERS[name]} for name, kind in kinds.items()}
        needed = [name for name in kinds if name == "q" or f"{{{name}}}" in self.path]
        return {"type": "object", "properties": known, "required": needed, "additionalProperties": False}


TOOLS: Final = {
    "search_conversations": Tool("/v1/search", "q agent since limit cursor", "Search in what people and agents said."),
    "list_threads": Tool("/v1/threads", "agent status project since limit cursor", "List conversations, newest first."),
    "show_thread": Tool("/v1/threads/{thread}?last=5", "thread last before", "Read a conversation, its newest turns."),
    "usage": Tool("/v1/usage", "group_by from agent limit", "Sum up tokens, cost, turns, errors and times of agents."),
    "open_runs": Tool("/v1/runs", "status agent thread limit", "List runs that are open, or that wait for a person."),
    "feedback": Tool("/v1/threads/{thread}?last=1&feedback=1", "thread", "Read feedback on a thread.", "meta:feedback"),
}


def query_of(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """Return the path and query of a call. Raises CallerError if an argument is missing, or is none of the tool's."""
    given, schema = json_text.filled(arguments), tool.schema()
    if wrong := {*given}.difference(schema["properties"]) or {*schema["required"]}.difference(given):
        known = "; ".join(f"{name}: {PARAMETERS[name]}" for name in schema["properties"])
        raise CallerError(f"unknown, or missing: {', '.join(sorted(wrong))[:200]}. The arguments are: {known}")
    inside = {name: quote(str(given.pop(name)), safe="") for name in [*given] if f"{{{name}}}" in tool.path}
    path = tool.path.format(**inside)
    return f"{path}{'&' if '?' in path else '?'}{urlencode(given)}"


def shown(tool: Tool, answer: Mapping[str, Any]) -> str:
    """Return a gateway's answer as JSON, shortened with a word where it is long: first texts in it, then its end."""
    text = json_text.dumps({tool.member: answer.get(tool.member)} if tool.member else answer)
    if len(text) > MOST:
        text = TEXT.sub(lambda cut: f'"{cut[1]}… ({len(cut[2]):,} more)"' if cut[2] else cut[0], text)
    return text if len(text) <= MOST else f"{text[:MOST]}… cut off here: ask for less, by `last`, `limit` or a filter"
