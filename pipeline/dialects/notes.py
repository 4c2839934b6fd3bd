"""Fields of a wire beyond ThreadProtocol: kept beside a part, message or turn, under the wire's own `meta:*` key."""

from __future__ import annotations

from topics.json_text import Fields


def note_under(meta: str, fields: Fields, extra: Fields) -> None:
    """Keep the fields that are not None under `meta`, beside those that are there already."""
    found = {key: value for key, value in extra.items() if value is not None}
    if found:
        known = fields.get(meta)
        fields[meta] = {**known, **found} if known else found
