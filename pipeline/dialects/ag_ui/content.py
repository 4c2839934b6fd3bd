"""Conversion of AG-UI content: parts of user messages, ids of calls, and Pydantic AI's fields of results."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any, Final

from pipeline.dialects.ag_ui.stream import get
from pipeline.turns.media_kinds import BY_MEDIA, DOCUMENT, url_kind
from topics.json_text import Fields
from turnmill.errors import InvalidRecord
from turnmill.wire.envelope import loads

BUILTIN: Final = "pyd_ai_builtin"  # `pyd_ai_builtin|PROVIDER|ID`: how Pydantic AI marks calls that the provider ran
MEDIA: Final = {**BY_MEDIA, "document": DOCUMENT}
FAILED: Final = frozenset({"retried", "failed", "denied", "interrupted"})


def prompt(content: Any) -> str | list[Any]:
    """Return a user message's content as that of a user-prompt: a single text stays a text, all else is a list."""
    if isinstance(content, str) or not isinstance(content, list):
        return content if isinstance(content, str) else ""
    pieces = [_content_item(part) for part in content]
    return pieces[0] if len(pieces) == 1 and isinstance(pieces[0], str) else pieces


def _content_item(part: Any) -> Any:
    if not isinstance(part, dict):
        return {"kind": "custom:ag-ui", "part": part}
    if part.get("type") == "text" and isinstance(part.get("text"), str):
        return part["text"]
    kind, source = part.get("type"), part.get("source")
    if kind == "binary":  # 0.x
        held = {"data": part.get("data"), "url": part.get("url"), "mimeType": get(part, "mimeType")}
        kind = str(held["mimeType"]).partition("/")[0]
    elif isinstance(source, dict) and source.get("type") in ("data", "url"):
        held = {source["type"]: source.get("value"), "mimeType": get(source, "mimeType")}
    else:
        return {"kind": "custom:ag-ui", "part": part}
    media_type = held["mimeType"]
    if isinstance(held.get("data"), str):
        media_type = media_type if isinstance(media_type, str) else "application/octet-stream"
        return {"kind": "binary", "data": held["data"], "media_type": media_type, "identifier": _name(held["data"])}
    if isinstance(held.get("url"), str):
        by_address = {"url": held["url"], "identifier": _hash(held["url"].encode("utf-8", "surrogatepass"))}
        if isinstance(media_type, str):
            return {"kind": url_kind(media_type), **by_address, "media_type": media_type}
        return {"kind": MEDIA.get(str(kind), DOCUMENT), **by_address}
    return {"kind": "custom:ag-ui", "part": part}


def _name(data: str) -> str:
    try:
        return _hash(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return _hash(data.encode("utf-8", "surrogatepass"))


def _hash(raw: bytes) -> str:
    """Return the identifier of content, as Pydantic AI computes it."""
    return hashlib.sha1(raw, usedforsecurity=False).hexdigest()[:6]


def call_fields(call_id: str, name: str) -> Fields:
    """Return a call's part without its arguments; if the provider ran it, with the provider's id."""
    head, _, rest = call_id.partition("|")
    provider, bar, identity = rest.partition("|")
    if head != BUILTIN or not bar:
        return {"part_kind": "tool-call", "tool_name": name, "tool_call_id": call_id, "args": None}
    kind = {"part_kind": "builtin-tool-call", "tool_name": name, "tool_call_id": identity, "args": None}
    return {**kind, "provider_name": provider} if provider else kind


def claims(encrypted: Any) -> Fields:
    """Return Pydantic AI's JSON object in an `encryptedValue`; {} if it is anything else."""
    if not isinstance(encrypted, str) or not encrypted.startswith("{"):
        return {}
    try:
        value = loads(encrypted.encode("utf-8", "surrogatepass"))
    except InvalidRecord:
        return {}
    return value if isinstance(value, dict) else {}


def verdict(attrs: Fields) -> Fields:
    """Return status and outcome of a tool message, from the wire's `error` or Pydantic AI's `outcome`."""
    pydantic_ai = claims(attrs.get("encryptedValue")).get("pydantic_ai")
    outcome = pydantic_ai.get("outcome") if isinstance(pydantic_ai, dict) else None
    failed = attrs.get("error") is not None or outcome in FAILED
    fields: Fields = {"status": "error" if failed else "success"}
    return {**fields, "outcome": "denied"} if outcome == "denied" else fields
