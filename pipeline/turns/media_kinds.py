"""Media types -> the kinds of content by address that ThreadProtocol knows."""

from __future__ import annotations

from typing import Final

DOCUMENT: Final = "document-url"
BY_MEDIA: Final = {"image": "image-url", "audio": "audio-url", "video": "video-url"}
URL_KINDS: Final = frozenset({*BY_MEDIA.values(), DOCUMENT})


def url_kind(media_type: str) -> str:
    """The kind of a file at an address: "image/png" -> "image-url"; what is no picture, sound or film: a document."""
    return BY_MEDIA.get(media_type.partition("/")[0], DOCUMENT)
