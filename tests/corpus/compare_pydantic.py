"""Pydantic AI's messages, reduced to what two histories are compared by; and recorded runs to compare."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.assembly.offline import assemble
from pipeline.assembly.records import Refused
from pipeline.dialects import DIALECTS
from pipeline.turns.thread_document import thread_document
from turnmill.wire.framing import decode

Messages = list[dict[str, Any]]

RECORDED = Path(__file__).parent / "pydantic-ai"
THREAD_ID = "6f1d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e11"
BAD = ("failed", "denied", "interrupted", "retried")
NOTHING = (None, {}, [], 0, False, "complete", "success")  # what an older release leaves out, a newer one spells out


@dataclass(frozen=True, slots=True)
class Recording:
    """One run: its events, how it ended, and the SDK's own messages of it."""

    name: str
    events: list[dict[str, Any]]
    complete: bool
    new: Messages

    @property
    def has_result(self) -> bool:
        return any(event.get("event_kind") == "agent_run_result" for event in self.events)


def recordings() -> Iterator[Recording]:
    for about in sorted(RECORDED.glob("*/*.meta.json")):
        run = about.name.removesuffix(".meta.json")
        meta = json.loads(about.read_text())
        items = decode(about.with_name(f"{run}.pai_events.jsonl").read_bytes(), DIALECTS["pydantic-ai"].wire)
        new = json.loads(about.with_name(f"{run}.messages.json").read_text())[meta.get("new_message_index") or 0 :]
        name = f"{about.parent.name}/{run}"
        complete = meta["outcome"] in ("complete", "deferred")
        yield Recording(name, [item.event for item in items if item.event], complete, new)


def assembled(events: list[dict[str, Any]], dialect: str = "pydantic-ai", **envelope: Any) -> dict[str, Any]:
    """The thread of one run's events."""
    return assembled_with_refusals(events, dialect, **envelope)[0]


def assembled_with_refusals(
    events: list[dict[str, Any]], dialect: str = "pydantic-ai", **envelope: Any
) -> tuple[dict[str, Any], list[Refused]]:
    whole = {"thread_id": THREAD_ID, "run_id": "run", "agent_id": "agent", "seq": 0, "ts": 1_768_903_200_000}
    records, refused = assemble(DIALECTS[dialect], [{**whole, "events": events, **envelope}])
    return thread_document(THREAD_ID, records), refused


def content(messages: Messages) -> list[Any]:
    """What was said and done, from the first response on."""
    first = next((number for number, message in enumerate(messages) if message["kind"] == "response"), len(messages))
    said = [(message["kind"], _said(message["parts"])) for message in messages[first:]]
    return [(kind, parts) for kind, parts in said if parts]


def _said(parts: list[dict[str, Any]]) -> list[Any]:
    out: list[Any] = []
    for part in parts:
        kind = part["part_kind"]
        if kind in ("text", "thinking"):
            if kind == "text" and out and out[-1][0] == "text":
                out[-1] = ("text", out[-1][1] + part["content"])
            elif part["content"]:
                out.append((kind, part["content"]))
        elif kind in ("tool-call", "builtin-tool-call"):
            out.append((kind, part["tool_name"], part["tool_call_id"], _data(part.get("args"))))
        elif kind in ("tool-return", "builtin-tool-return"):
            out.append((part["tool_call_id"], "error" if part.get("outcome") in BAD else part.get("content")))
        elif kind == "retry-prompt" and part.get("tool_call_id"):
            out.append((part["tool_call_id"], "error"))
        elif kind in ("user-prompt", "file", "compaction"):
            out.append((kind, _tidy(part["content"])))
    return out


def full(messages: Messages) -> list[Any]:
    """Every field, but system prompts (never stored) and digests (computed again)."""
    out = []
    for message in messages:
        parts = [part for part in message["parts"] if part["part_kind"] != "system-prompt"]
        parts = [{**part, "args": _data(part["args"])} if "args" in part else part for part in parts]
        out.append(_tidy({**message, "parts": parts}))
    return out


def _tidy(value: Any) -> Any:
    if isinstance(value, dict):
        tidied = {key: _tidy(item) for key, item in value.items() if key != "content_file_digests"}
        return {key: item for key, item in tidied.items() if item not in NOTHING}
    return [_tidy(item) for item in value] if isinstance(value, list) else value


def _data(args: Any) -> Any:
    return json.loads(args) if isinstance(args, str) and args else args or {}


def complete_cycles(messages: Messages) -> Messages:
    """An unfinished run's messages without a last response that broke off, or whose calls were not all answered."""
    kept = list(messages)
    last = next((number for number in reversed(range(len(kept))) if kept[number]["kind"] == "response"), None)
    if last is not None:
        calls = {part["tool_call_id"] for part in kept[last]["parts"] if part["part_kind"] == "tool-call"}
        answers = {part.get("tool_call_id") for message in kept[last + 1 :] for part in message["parts"]}
        if kept[last].get("state") in ("incomplete", "interrupted") or calls - answers:
            kept = kept[:last]
    return kept
