"""Prints what the SDKs that are installed can say: {"versions", "events", "ends", "fields"}, each by wire.

events: the types of a stream's events. ends: why a model stopped. fields: those of the objects in a stream, as
`Type.field`.
"""

import importlib
import json
import typing
from collections.abc import Callable, Iterator
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from usage_types import fields_of

PACKAGES = ("openai", "anthropic", "google-genai", "google-adk", "langchain-core", "langgraph", "pydantic-ai-slim")
PACKAGES += ("openai-agents", "claude-agent-sdk", "ag-ui-protocol")
EVENTS = {
    "openai-responses": ("openai.types.responses", "ResponseStreamEvent", "type"),
    "anthropic": ("anthropic.types.beta", "BetaRawMessageStreamEvent", "type"),
    "ag-ui": ("ag_ui.core", "Event", "type"),
    "pydantic-ai": ("pydantic_ai.messages", "AgentStreamEvent", "event_kind"),
}
ENDS = {
    "openai-chat": ("openai.types.chat.chat_completion_chunk", "Choice.finish_reason"),
    "openai-responses": ("openai.types.responses.response", "IncompleteDetails.reason"),
    "anthropic": ("anthropic.types.beta", "BetaStopReason"),
    "gemini": ("google.genai.types", "FinishReason"),
}
OBJECTS = {
    "openai-chat": (
        ("openai.types.chat.chat_completion_chunk", "ChoiceDelta"),
        ("openai.types.chat", "ChatCompletionChunk"),
    ),
    "openai-responses": (("openai.types.responses", "ResponseOutputItem"), ("openai.types.responses", "Response")),
    "anthropic": (
        ("anthropic.types.beta", "BetaContentBlock"),
        ("anthropic.types.beta", "BetaRawContentBlockDelta"),
        ("anthropic.types.beta", "BetaMessage"),
    ),
    "gemini": (
        ("google.genai.types", "Part"),
        ("google.genai.types", "Candidate"),
        ("google.genai.types", "GenerateContentResponse"),
    ),
    "google-adk": (("google.adk.events.event", "Event"), ("google.adk.events.event_actions", "EventActions")),
    "langgraph": (("langchain_core.messages", "AIMessageChunk"), ("langchain_core.messages", "ToolMessage")),
    "pydantic-ai": (("pydantic_ai.messages", "ModelResponse"), ("pydantic_ai.messages", "ModelResponsePart")),
    "claude-code": (("claude_agent_sdk.types", "Message"),),
    "ag-ui": (("ag_ui.core", "Message"),),
}


def members(kind: Any) -> Iterator[Any]:
    """The classes of a union, behind aliases and annotations; a class is the only one of itself."""
    kind = getattr(kind, "__value__", kind)  # of a `type` statement
    if typing.get_origin(kind) is typing.Annotated:
        yield from members(typing.get_args(kind)[0])
    elif inner := [argument for argument in typing.get_args(kind) if argument is not type(None)]:
        for argument in inner:
            yield from members(argument)
    else:
        yield kind


def values(kind: Any) -> Iterator[str]:
    """The texts that a type allows."""
    for member in members(kind):
        if isinstance(member, type) and issubclass(member, Enum):
            yield from (str(item.value) for item in member)
        elif isinstance(member, str):
            yield member


def events(module: str, name: str, key: str) -> set[str]:
    kinds = members(getattr(importlib.import_module(module), name))
    return {value for kind in kinds for value in values((fields_of(kind) or {}).get(key))}


def ends(module: str, name: str) -> set[str]:
    kind, _, field = name.partition(".")
    found = getattr(importlib.import_module(module), kind)
    return set(values(fields_of(found)[field] if field else found))  # type: ignore[index]  # it has fields, if one is named


def fields(*objects: tuple[str, str]) -> set[str]:
    kinds = {kind for module, name in objects for kind in members(getattr(importlib.import_module(module), name))}
    return {f"{kind.__name__}.{field}" for kind in kinds for field in fields_of(kind) or ()}


def by_wire(find: Callable[..., set[str]], sources: dict[str, Any]) -> dict[str, list[str]]:
    """What is found of each wire whose SDK is installed."""
    found = {}
    for wire, arguments in sources.items():
        try:
            found[wire] = sorted(find(*arguments))
        except ImportError:
            continue
    return found


def versions() -> Iterator[tuple[str, str]]:
    for package in PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            continue


if __name__ == "__main__":
    told = {"events": by_wire(events, EVENTS), "ends": by_wire(ends, ENDS), "fields": by_wire(fields, OBJECTS)}
    print(json.dumps({"versions": dict(versions()), **told}))  # noqa: T201  # its result
