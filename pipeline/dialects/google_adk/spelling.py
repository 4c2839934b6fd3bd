"""ADK's two spellings: its servers write camelCase, Python's `model_dump` snake_case. Both become camelCase here."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from topics.json_text import Fields


def spelled(value: Any) -> Fields:
    """Return an object of ADK with its keys in camelCase and without nulls; inner objects are unchanged.

    Raises TypeError if the value is not an object.
    """
    if not isinstance(value, dict):
        raise TypeError(f"an object is expected, not {type(value).__name__}")
    return {camel(key): item for key, item in value.items() if item is not None}


@lru_cache(maxsize=1024)
def camel(key: str) -> str:
    """Return a key in camelCase: usage_metadata -> usageMetadata; a key with a leading underscore is unchanged."""
    if "_" not in key or key.startswith("_"):
        return key
    first, *words = key.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in words)
