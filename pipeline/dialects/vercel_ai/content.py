"""Text and file parts of UI messages -> user content and file content of ThreadProtocol."""

import base64
from typing import Any

from pipeline.dialects.vercel_ai.stream import note
from pipeline.dialects.wire_values import identifier
from pipeline.turns.media_kinds import url_kind
from topics.json_text import Fields


def file_content(url: str, media_type: str) -> Fields:
    """Return a file part's content: by value if the URL is a base64 data: URL, else by address."""
    binary = _by_value(url, media_type)
    return binary if binary is not None else {"url": url, "content_type": media_type}


def user_prompt(parts: list[Any]) -> Fields | None:
    """Return the parts of a user's message as one user-prompt part; None for a message without parts.

    Names of files are kept under META `filenames`, by their index in the content; parts that are neither text nor file
    (data parts) under META `parts`.
    """
    content: list[Any] = []
    names: dict[str, str] = {}
    others: list[Any] = []
    for part in parts:
        item = _content(part)
        if item is None:
            others.append(part)
            continue
        if isinstance(part.get("filename"), str):
            names[str(len(content))] = part["filename"]
        content.append(item)
    if not content and not others:
        return None
    plain = len(content) == 1 and isinstance(content[0], str)
    prompt: Fields = {"part_kind": "user-prompt", "content": content[0] if plain else content}
    note(prompt, {"filenames": names or None, "parts": others or None})
    return prompt


def _content(part: Any) -> Any:
    if not isinstance(part, dict):
        return None
    if part.get("type") == "text" and isinstance(part.get("text"), str):
        return part["text"]
    url, media_type = part.get("url"), part.get("mediaType")
    if part.get("type") != "file" or not isinstance(url, str) or not isinstance(media_type, str):
        return None
    by_address = {"kind": url_kind(media_type), "url": url, "media_type": media_type, "identifier": identifier(url)}
    return _by_value(url, media_type) or by_address


def _by_value(url: str, media_type: str) -> Fields | None:
    """Return the content of a base64 data: URL, None for any other. The part's media type wins over the URL's own."""
    head, comma, data = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return None
    try:
        raw = base64.b64decode(data)
    except ValueError:
        return None
    return {"kind": "binary", "data": data, "media_type": media_type, "identifier": identifier(raw)}
