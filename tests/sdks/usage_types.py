"""Prints the names of all fields in the types of usage of the SDKs that are installed: {type: [dotted name, …]}."""

import dataclasses
import importlib
import inspect
import json
import typing
from collections.abc import Iterator
from typing import Any

TYPES = {
    "openai-chat": ("openai.types.completion_usage", "CompletionUsage"),
    "openai-responses": ("openai.types.responses", "ResponseUsage"),
    "openai-realtime": ("openai.types.realtime", "RealtimeResponseUsage"),
    "anthropic": ("anthropic.types", "Usage"),
    "anthropic-beta": ("anthropic.types.beta", "BetaUsage"),
    "anthropic-delta": ("anthropic.types.beta", "BetaMessageDeltaUsage"),
    "gemini": ("google.genai.types", "GenerateContentResponseUsageMetadata"),
    "langgraph": ("langchain_core.messages.ai", "UsageMetadata"),
    "ag-ui": ("ag_ui.core", "TokenUsage"),
    "pydantic-ai": ("pydantic_ai.usage", "RequestUsage"),
    "openai-agents": ("agents.usage", "Usage"),
}


def fields_of(kind: Any) -> dict[str, Any] | None:
    """The fields of a model, a typed dict or a dataclass, as they are written in JSON; None for any other type."""
    if not inspect.isclass(kind):
        return None
    if hasattr(kind, "model_fields"):
        return {field.alias or name: field.annotation for name, field in kind.model_fields.items()}
    if hasattr(kind, "__required_keys__") or dataclasses.is_dataclass(kind):  # also a TypedDict of typing_extensions
        return typing.get_type_hints(kind)
    return None


def names(kind: Any, above: str = "", seen: tuple[Any, ...] = ()) -> Iterator[str]:
    for name, annotation in (fields_of(kind) or {}).items():
        inner, waiting = [], [annotation]
        while waiting:
            part = waiting.pop()
            waiting += typing.get_args(part)
            if fields_of(part) is not None and part not in seen:
                inner.append(part)
        if not inner:
            yield f"{above}{name}"
        for part in inner:
            yield from names(part, f"{above}{name}.", (*seen, part))


def main() -> None:
    known = {}
    for wire, (module, name) in TYPES.items():
        try:
            kind = getattr(importlib.import_module(module), name)
        except ImportError:
            continue
        known[wire] = sorted(set(names(kind)))
    print(json.dumps(known))  # noqa: T201  # its result


if __name__ == "__main__":
    main()
