"""Google ADK's Events: its streams, and the sessions that it keeps."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pipeline.assembly.dialect import Format, Shown
from pipeline.dialects.google_adk import events, formats
from pipeline.dialects.records import dialect
from pipeline.turns import essence_filters as drop
from pipeline.turns.losses import Loss

GOOGLE_ADK: Final = (
    Loss("provider", "from the publisher's `run`", drop.response_fields("provider_name")),
    Loss("ids of texts and thoughts", "not there", drop.part_fields("text", "id")),
)


def recognises(event: Any) -> bool:
    """Return whether an event is of this wire. Events have no type; each has an invocation id and an author."""
    match event:
        case {"invocationId": _, "author": _} | {"invocation_id": _, "author": _}:
            return True
    return False


def shows(event: Any) -> Sequence[Shown]:
    """Return text and thoughts of fragments, which the whole event repeats, and the calls of whole events."""
    match event:
        case {"content": {"parts": list(parts)}}:
            is_fragment = event.get("partial") is True
            return [shown for shown in shown_of_parts(parts) if (shown.kind != "tool") == is_fragment]
    return ()


def shown_of_parts(parts: list[Any]) -> Iterator[Shown]:
    """Yield the texts, thoughts and calls of a Content's parts."""
    for part in parts:
        match part:
            case {"text": str(text)} if text:
                yield Shown("thinking" if part.get("thought") is True else "text", text)
            case {"functionCall": {"name": str(name)}} | {"function_call": {"name": str(name)}}:
                yield Shown("tool", name)
            case {"executableCode": {}} | {"executable_code": {}}:
                yield Shown("tool", "code_execution")


DIALECT: Final = dialect(
    __name__,
    GOOGLE_ADK,
    handlers={},
    unknown=events.event,
    formats=(Format("google-adk", formats.events, formats.READER),),
)
