"""The state of a UI message stream's handlers, and the small functions that they share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Violation
from pipeline.assembly.parts import Message, Part
from pipeline.dialects.signatures import SIGNATURE
from pipeline.dialects.vercel_ai.keys import META
from pipeline.dialects.wire_values import note_under
from topics.json_text import Fields, present

Event = dict[str, Any]

# Keys for a signature in a provider's metadata. Pydantic AI puts all fields under the name `pydantic_ai`.
SIGNATURES: Final = ("signature", "redactedData", "thoughtSignature", "reasoningEncryptedContent")
GOOGLE: Final = ("google", "vertex")
# Fields of a provider's metadata -> those of a part.
OF_TEXT: Final = {key: key for key in ("id", "provider_name", "provider_details")}
OF_THINKING: Final = {key: key for key in ("signature", "provider_name", "provider_details")} | {"id": "thinking_id"}
PYDANTIC_FIELDS: Final = {"id": str, "signature": str, "provider_name": str, "provider_details": dict, "tool_kind": str}


@dataclass(frozen=True, slots=True)
class Early:
    """A result that came before its call. `opening`: also before the turn's first response."""

    event: Event
    fields: Fields
    opening: bool


@dataclass(slots=True, eq=False)
class Stream:
    """The state of a run's stream, beside its builder. All but `earlier` and `opening` belongs to its newest turn."""

    message_id: str | None = None
    step: Message | None = None  # the response that the newest start-step opened
    cut: Message | None = None  # the response in which an error or abort came: its finish-step doesn't complete it
    finished: bool = False  # a `finish` came: later errors and aborts don't change the end
    data: dict[tuple[str, str], Message] = field(default_factory=dict)  # data parts that have an id
    early: dict[str, Early] = field(default_factory=dict)
    earlier: dict[str, Fields] = field(default_factory=dict)  # UI parts of calls that an earlier run made
    opening: Message | None = None  # the request with the results of these calls
    whole: list[Part] = field(default_factory=list)  # calls in the order in which their input was whole
    overlapping: bool = False  # a call began while the input of another was incomplete
    failed: tuple[Message | None, int] | None = None  # where the turn stood when an error came


def stream_of(builder: Builder) -> Stream:
    """Return the run's Stream."""
    stream: Stream = builder.scratch["stream"]
    return stream


def text_of(event: Event, key: str) -> str:
    """Return a field that must be text. Raises KeyError if it is missing, Violation if it is not a text."""
    value = event[key]
    if value.__class__ is not str:
        raise Violation(f"{event['type']}: {key!r} must be a string, got {value!r:.80}")
    return str(value)


note: Final = partial(note_under, META)


def noted(part: Part, key: str) -> Any:
    """Return the value that `note` kept under `key`, or None."""
    return part.fields.get(META, {}).get(key)


def forget(fields: Fields, key: str) -> None:
    """Remove what `note` kept under `key`."""
    meta = fields.get(META, {})
    if meta.pop(key, None) is not None and not meta:
        del fields[META]


def provider_fields(metadata: Any) -> Fields:
    """Return the fields id, signature, provider_name and provider_details of a part; {} without provider metadata."""
    if not isinstance(metadata, dict) or not metadata:
        return {}
    provider, pydantic_ai = next(iter(metadata.items()))
    if isinstance(metadata.get("pydantic_ai"), dict):
        pydantic_ai = metadata["pydantic_ai"]
        kinds = PYDANTIC_FIELDS.items()
        return {key: pydantic_ai[key] for key, kind in kinds if isinstance(pydantic_ai.get(key), kind)}
    if not isinstance(pydantic_ai, dict):
        return {}
    fields: Fields = {}
    if isinstance(pydantic_ai.get("itemId"), str):
        fields["id"] = pydantic_ai["itemId"]
    elif "redactedData" in pydantic_ai:
        fields["id"] = "redacted_thinking"
    signature = next((pydantic_ai[key] for key in SIGNATURES if isinstance(pydantic_ai.get(key), str)), None)
    fields |= present({"signature": signature})
    return {**fields, "provider_name": provider} if fields else {}


def googles_signature(metadata: Any) -> str | None:
    """Return the signature of a thought that Gemini wants back with a call or a text; None if there is none."""
    for provider in GOOGLE if isinstance(metadata, dict) else ():
        told = metadata.get(provider)
        if isinstance(told, dict) and isinstance(told.get("thoughtSignature"), str):
            return str(told["thoughtSignature"])
    return None


def describe(fields: Fields, event: Event, names: Mapping[str, str]) -> None:
    """Take over the provider's fields of a text or thought."""
    metadata = event.get("providerMetadata")
    if metadata is not None:
        note(fields, {"providerMetadata": metadata})
        provider = provider_fields(metadata)
        fields.update({name: provider[key] for key, name in names.items() if key in provider})
        signature = googles_signature(metadata) if fields["part_kind"] == "text" else None
        if signature is not None:
            fields[SIGNATURE] = signature
