"""What two lists of UI messages must have in common to say the same."""

from typing import Any

Fields = dict[str, Any]
STREAMING = ("streaming", "input-streaming")
FILES = ("file", "reasoning-file")


def _parts(messages: list[Fields]) -> list[Fields]:
    """Parts of the assistant that are whole and stored: the SDK shows telemetry, a thread need not."""
    parts = [part for message in messages if message["role"] == "assistant" for part in message["parts"]]
    whole = [part for part in parts if part.get("state") not in STREAMING]
    return [part for part in whole if not part["type"].startswith("data-sys-") and not part.get("transient")]


def steps(messages: list[Fields]) -> list[list[Any]]:
    """What was said and done, step by step; steps that say nothing are none."""
    found: list[list[Any]] = [[]]
    for part in _parts(messages):
        kind = part["type"]
        if kind == "step-start":
            found.append([])
        elif kind in ("text", "reasoning") and part["text"]:
            found[-1].append((kind, part["text"]))
        elif kind == "dynamic-tool" or kind.startswith("tool-"):
            found[-1].append(_tool(part))
        elif kind in FILES:
            found[-1].append((kind, part["mediaType"], part["url"]))
    return [step for step in found if step]


def _tool(part: Fields) -> Fields:
    name = part.get("toolName") or part["type"].removeprefix("tool-")
    found = {"tool": name, "id": part["toolCallId"], "input": part.get("input", part.get("rawInput"))}
    if part["state"] == "output-available" and not part.get("preliminary"):
        return {**found, "output": part.get("output")}
    return {**found, "error": part["errorText"]} if part["state"] == "output-error" else found


def beside(messages: list[Fields]) -> list[Fields]:
    """Sources and data, in order."""
    return [part for part in full(messages)[0] if part["type"].startswith(("source-", "data-"))]


def full(messages: list[Fields]) -> tuple[list[Fields], list[Any]]:
    """Every field of every part that says something, and the messages' metadata."""
    parts = [_without_nothing(part) for part in _parts(messages) if part["type"] != "step-start"]
    for part in parts:
        if part["type"] in ("text", "reasoning"):
            part.pop("state", None)
    said = [part for part in parts if part not in ({"type": "text", "text": ""}, {"type": "reasoning", "text": ""})]
    metadata = [_without_nothing(m["metadata"]) for m in messages if m["role"] == "assistant" and m.get("metadata")]
    return said, metadata


def _without_nothing(value: Any) -> Any:
    """Null, empty and absent are the same."""
    if isinstance(value, dict):
        kept = {key: _without_nothing(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item is not None and item not in ({}, [])}
    return [_without_nothing(item) for item in value] if isinstance(value, list) else value


def holds(larger: list[Fields], smaller: list[Fields]) -> bool:
    """Whether each thing that was said and done in `smaller` is in `larger`, in the same order; results may differ."""
    rest = iter([_identity(said) for step in steps(larger) for said in step])
    return all(any(other == _identity(said) for other in rest) for step in steps(smaller) for said in step)


def _identity(said: Any) -> Any:
    return (said["tool"], said["id"]) if isinstance(said, dict) else said
