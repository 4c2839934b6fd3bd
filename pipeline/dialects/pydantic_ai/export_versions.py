"""Conversion of messages of the newest Pydantic AI for older releases.

Releases ignore unknown fields, but refuse unknown kinds and values. The tables say in which release each appeared. They
were looked up in 1.20, 1.60, 1.90, 1.107, 2.0, 2.20, 2.40, 2.55, 2.60 and 2.68, so a kind may be a few releases older
than its entry.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from topics.json_text import Fields

Version = tuple[int, ...]

ALWAYS: Final = (0,)
NEWEST: Final = (2, 68)
RETRIED: Final = (2, 60)  # from then on retries are tool returns and retry feedback; before, retry prompts
FREE_TOOL_KINDS: Final = (2, 60)
SUSPENDED: Final = (2, 20)
INTERRUPTED: Final = (2, 20)  # as the outcome of a tool
REQUEST_KINDS: Final[dict[str, Version]] = {
    "speech": (2, 40),
    "tool-availability-delta": (2, 40),
    "instruction-delta": (2, 60),
    "instruction-baseline": (2, 60),
    "capability-load-delta": NEWEST,
    "model-settings-delta": NEWEST,
    "compaction": NEWEST,
}
RESPONSE_KINDS: Final[dict[str, Version]] = {"compaction": (1, 90), "speech": (2, 40)}
CONTENT_KINDS: Final[dict[str, Version]] = {
    "uploaded-file": (1, 90),
    "text-content": (1, 90),
    "structured-content": NEWEST,
}
CORE_TOOL_KINDS: Final = frozenset({"tool-search", "capability-load"})
DETAILS: Final = frozenset({"type", "loc", "msg", "input"})


def parse(version: str) -> Version:
    """Return a version such as "1.107.10" as (1, 107, 10). Raises ValueError if it is no version."""
    if not re.fullmatch(r"\d+(\.\d+)*", version):
        raise ValueError(f"a version of pydantic-ai such as 2.68 or 1.107.10 is expected, not {version!r}")
    return tuple(int(number) for number in version.split("."))


def as_of(version: str, messages: list[Fields]) -> list[Fields]:
    """Return the messages as that release loads them; unchanged for the newest.

    Raises ValueError if `version` is not a version.
    """
    release = parse(version)
    return messages if release >= NEWEST else [_message(message, release) for message in messages]


def _message(message: Fields, release: Version) -> Fields:
    kinds = REQUEST_KINDS if message["kind"] == "request" else RESPONSE_KINDS
    older = {
        **message,
        "parts": [older_part for part in message["parts"] for older_part in _part(part, kinds, release)],
    }
    if older.get("state") == "suspended" and release < SUSPENDED:
        older["state"] = "incomplete"
    return older


def _part(part: Fields, kinds: dict[str, Version], release: Version) -> list[Fields]:
    kind = part["part_kind"]
    if release < RETRIED and (kind == "retry-feedback" or part.get("outcome") == "retried"):
        return [_retry_prompt(part)]
    if release < kinds.get(kind, ALWAYS):
        part_kind = "user-prompt" if kinds is REQUEST_KINDS else "text"
        return [{"content": part.get("transcript") or "", "part_kind": part_kind}] if kind == "speech" else []
    older = dict(part)
    if older.get("outcome") == "interrupted" and release < INTERRUPTED:
        older["outcome"] = "failed"
    if older.get("tool_kind") not in CORE_TOOL_KINDS and release < FREE_TOOL_KINDS:
        older.pop("tool_kind", None)
    if kind == "user-prompt" and isinstance(older.get("content"), list):
        older["content"] = [older_item for item in older["content"] for older_item in _content(item, release)]
    return [older]


def _retry_prompt(part: Fields) -> Fields:
    content = part.get("content")
    detailed = isinstance(content, list) and all(isinstance(item, dict) and item.keys() >= DETAILS for item in content)
    if not (detailed or isinstance(content, str)):
        content = json.dumps(content, ensure_ascii=False)
    prompt: Fields = {"content": content, "part_kind": "retry-prompt"}
    prompt.update({key: part[key] for key in ("tool_name", "tool_call_id", "timestamp") if key in part})
    return prompt


def _content(item: Any, release: Version) -> list[Any]:
    """Return user content of a kind that the release lacks as its text; empty if it has none."""
    if not isinstance(item, dict) or release >= CONTENT_KINDS.get(item.get("kind", ""), ALWAYS):
        return [item]
    if item.get("content"):
        return [item["content"]]
    return [json.dumps(item["value"], ensure_ascii=False)] if "value" in item else []
