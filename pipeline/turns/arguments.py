"""The text of a tool call's arguments -> data."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from topics.json_text import Fields


def arguments(text: str) -> Fields:
    """-> an object; nothing is {}, and what is no JSON object becomes {"INVALID_JSON": text}."""
    if not text.strip():
        return {}
    try:
        value: Any = json.loads(text, parse_constant=_refuse)  # it keeps integers of any size
    except (ValueError, RecursionError):
        return {"INVALID_JSON": text}
    return value if isinstance(value, dict) else {"INVALID_JSON": text}


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
