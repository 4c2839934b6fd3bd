"""ThreadProtocol 0.0.4 as models: the parts of messages and turns, and the content in them.

Every model keeps the fields that it does not know; a part or a piece of content of an unknown kind stays as it is.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

PARTS: Final = {  # kind -> its model
    "text": "TextPart",
    "thinking": "ThinkingPart",
    "tool-call": "ToolCallPart",
    "tool-return": "ToolReturnPart",
    "retry-prompt": "RetryPromptPart",
    "user-prompt": "UserPromptPart",
    "file": "FilePart",
}
URL_KINDS: Final = ("image-url", "audio-url", "video-url", "document-url")


def other_than(*known: str) -> Any:
    """Return a field for a string that is none of `known`, so that a schema's `oneOf` branches exclude each other."""
    return Field(json_schema_extra={"not": {"enum": list(known)}})


def by(key: str, tags: dict[str, str], other: str | None = None) -> Discriminator:
    """Return a discriminator that chooses a union's branch by the text under `key`.

    Other texts than those of `tags` choose `other`, or are an error.
    """

    def tag(value: Any) -> str | None:
        kind = value.get(key) if isinstance(value, dict) else getattr(value, key, None)
        return (tags.get(kind) or other) if isinstance(kind, str) else None

    expected = "a text" if other else " or ".join(map(repr, tags))
    return Discriminator(
        tag, custom_error_type="union", custom_error_message=f"An object whose '{key}' is {expected} is expected"
    )


def _text_or_list(value: Any) -> str | None:
    return "str" if isinstance(value, str) else "list" if isinstance(value, list) else None


def _content_tag(value: Any) -> str | None:
    if isinstance(value, str):
        return "str"
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    if not isinstance(kind, str):
        return None
    return "UrlContent" if kind in URL_KINDS else "BinaryContent" if kind == "binary" else "OtherContent"


TEXT_OR_LIST: Final = Discriminator(
    _text_or_list, custom_error_type="union", custom_error_message="A string or a list is expected"
)
CONTENT: Final = Discriminator(
    _content_tag,
    custom_error_type="union",
    custom_error_message="A string, or an object whose 'kind' is a text, is expected",
)


class Open(BaseModel):
    """An object that keeps fields it does not know; numbers and texts are not converted into each other."""

    model_config = ConfigDict(extra="allow", strict=True, protected_namespaces=())


class ContentRef(Open):
    """Content that is kept elsewhere: its URI and its SHA-256. Meant for more than 100 KB."""

    uri: str
    size_bytes: Annotated[int, Field(ge=0)] | None = None
    hash: str | None = None
    media_type: str | None = None


class UrlContent(Open):
    """Content of the user by address."""

    kind: Literal["image-url", "audio-url", "video-url", "document-url"]
    url: str
    identifier: str | None = None
    force_download: bool | str | None = None
    vendor_metadata: dict[str, Any] | None = None
    media_type: str | None = None


class BinaryContent(Open):
    """Content of the user by value; `data` in base64."""

    kind: Literal["binary"]
    data: str
    media_type: str
    identifier: str | None = None
    vendor_metadata: dict[str, Any] | None = None


class OtherContent(Open):
    """Content of a kind that is not in the specification."""

    kind: Annotated[str, other_than(*URL_KINDS, "binary")]


UserContent = Annotated[
    Annotated[str, Tag("str")]
    | Annotated[UrlContent, Tag("UrlContent")]
    | Annotated[BinaryContent, Tag("BinaryContent")]
    | Annotated[OtherContent, Tag("OtherContent")],
    CONTENT,
]


class FileContent(Open):
    """A file by value (`data` in base64, `media_type`), or by address (`url`, `content_type`: the mapping document)."""

    kind: str | None = None
    data: str | None = None
    media_type: str | None = None
    identifier: str | None = None
    vendor_metadata: dict[str, Any] | None = None
    url: str | None = None
    content_type: str | None = None


class TextPart(Open):
    """A text of the model."""

    part_kind: Literal["text"]
    content: str
    id: str | None = None


class ThinkingPart(Open):
    """A thought of the model; `signature` lets its provider accept it again."""

    part_kind: Literal["thinking"]
    content: str | None = None
    signature: str | None = None
    provider_name: str | None = None
    thinking_id: str | None = None


class ToolCallPart(Open):
    """A call of a tool; `args` are data, not their JSON text."""

    part_kind: Literal["tool-call"]
    tool_name: str
    tool_call_id: str
    args: Any


class ToolReturnPart(Open):
    """The result of a call, or where it is kept."""

    part_kind: Literal["tool-return"]
    tool_name: str
    tool_call_id: str
    status: Literal["success", "error", "validation_error"]
    content: Any = None
    content_ref: ContentRef | None = None
    metadata: Any = None


class RetryPromptPart(Open):
    """The model is asked to try again: a text, or the validation errors of its arguments."""

    part_kind: Literal["retry-prompt"]
    content: Annotated[Annotated[str, Tag("str")] | Annotated[list[dict[str, Any]], Tag("list")], TEXT_OR_LIST]
    tool_name: str | None = None
    tool_call_id: str | None = None


class UserPromptPart(Open):
    """A prompt of the user."""

    part_kind: Literal["user-prompt"]
    content: Annotated[Annotated[str, Tag("str")] | Annotated[list[UserContent], Tag("list")], TEXT_OR_LIST]


class FilePart(Open):
    """A file: by value, by address, or under `content_ref`."""

    part_kind: Literal["file"]
    content: FileContent | None = None
    content_ref: ContentRef | None = None
    id: str | None = None


class OtherPart(Open):
    """A part of a kind that is not in the specification."""

    part_kind: Annotated[str, other_than(*PARTS)]


MessagePart = Annotated[
    Annotated[TextPart, Tag("TextPart")]
    | Annotated[ThinkingPart, Tag("ThinkingPart")]
    | Annotated[ToolCallPart, Tag("ToolCallPart")]
    | Annotated[ToolReturnPart, Tag("ToolReturnPart")]
    | Annotated[RetryPromptPart, Tag("RetryPromptPart")]
    | Annotated[UserPromptPart, Tag("UserPromptPart")]
    | Annotated[FilePart, Tag("FilePart")]
    | Annotated[OtherPart, Tag("OtherPart")],
    by("part_kind", PARTS, other="OtherPart"),
]
