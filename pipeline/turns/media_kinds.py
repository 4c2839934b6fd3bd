"""ThreadProtocol's kinds of content by URL, for media types."""

from typing import Final

DOCUMENT: Final = "document-url"
BY_MEDIA: Final = {"image": "image-url", "audio": "audio-url", "video": "video-url"}
URL_KINDS: Final = frozenset({*BY_MEDIA.values(), DOCUMENT})


def url_kind(media_type: str) -> str:
    """Return the kind of a file at a URL: "image-url", and "document-url" for all but image, audio and video."""
    return BY_MEDIA.get(media_type.partition("/")[0], DOCUMENT)
