"""Parses the text of a tool call's arguments."""

from typing import Any, NoReturn

from topics.json_text import Fields
from turnmill.wire import deep_json
from turnmill.wire.deep_json import parse_float
from turnmill.wire.nesting import text_too_deep


def arguments(text: str) -> Fields:
    """Return an object; an empty text is {}; other text, and deeply nested JSON, becomes {"INVALID_JSON": text}."""
    if not text.strip():
        return {}
    try:
        value: Any = None if text_too_deep(text) else deep_json.loads(text, _refuse, parse_float(text))  # any integer
    except ValueError:
        return {"INVALID_JSON": text}
    return value if isinstance(value, dict) else {"INVALID_JSON": text}


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
