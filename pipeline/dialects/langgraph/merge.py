"""Joins the chunks of a message, as langchain-core adds them up (AIMessageChunk.__add__)."""

from typing import Any, Final

from topics.json_text import Fields

# Texts that come in pieces. All others come whole: ids, names, types, reasons.
GROWING: Final = frozenset(
    {"text", "thinking", "reasoning", "reasoning_content", "signature", "refusal", "args", "arguments", "partial_json"}
    | {"input", "code", "encrypted_content", "data", "cited_text"}
)


def added(left: Fields, right: Fields) -> Fields:
    """Join two chunks of a message, and return the result. It has the provider's id, if either chunk has one."""
    rest = {key: value for key, value in right.items() if key not in ("content", "usage_metadata", "id")}
    both = _objects(left, rest)
    both["content"] = _content(left.get("content"), right.get("content"))
    both["usage_metadata"] = _sum(left.get("usage_metadata"), right.get("usage_metadata"))
    ids = [name for name in (left.get("id"), right.get("id")) if isinstance(name, str)]
    both["id"] = next((name for name in ids if not is_run_id(name)), ids[0] if ids else None)
    return both


def is_run_id(message_id: str) -> bool:
    """Return True if LangChain made the id, from the model's run; providers have ids of their own."""
    return message_id.startswith(("lc_run-", "run-"))


def _content(left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    if not left or not right:
        return left or right or ""
    return _lists(_blocks(left), _blocks(right))


def _blocks(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def _lists(left: list[Any], right: list[Any]) -> list[Any]:
    """Join entries with the same index; a block of another type than the one at its index is a new entry."""
    merged = list(left)
    for entry in right:
        at = next((n for n in reversed(range(len(merged))) if _same(merged[n], entry)), None)
        if at is None:
            merged.append(entry)
        else:
            merged[at] = _objects(merged[at], entry)
    return merged


def _same(left: Any, other: Any) -> bool:
    if not isinstance(left, dict) or not isinstance(other, dict) or other.get("index") is None:
        return False
    is_same_kind = "type" not in left or other.get("type") in (left.get("type"), "input_json_delta")
    return left.get("index") == other["index"] and is_same_kind


def _objects(left: Fields, right: Fields) -> Fields:
    both = dict(left)
    for key, value in right.items():
        old = both.get(key)
        if old in (None, "", [], {}) or value is None:
            both[key] = old if value is None else value
        elif isinstance(old, str) and isinstance(value, str):
            both[key] = old + value if key in GROWING else (old if key == "type" else value or old)
        elif isinstance(old, dict) and isinstance(value, dict):
            both[key] = _objects(old, value)
        elif isinstance(old, list) and isinstance(value, list):
            both[key] = _lists(old, value)
        else:
            both[key] = value
    return both


def _sum(left: Any, right: Any) -> Any:
    """Return the sum of two chunks' counts; providers report input with the first and output with the last."""
    if not isinstance(left, dict) or not isinstance(right, dict):
        return left or right
    both = {**left, **right}
    for key in left.keys() & right.keys():
        if isinstance(left[key], dict):
            both[key] = _sum(left[key], right[key])
        elif isinstance(left[key], int | float) and isinstance(right[key], int | float):
            both[key] = left[key] + right[key]
    return both
