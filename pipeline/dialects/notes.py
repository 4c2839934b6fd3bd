"""Fields of a wire beyond ThreadProtocol: kept beside a part, message or turn, under the wire's `meta:*` key."""

from __future__ import annotations

from topics.json_text import Fields


def note_under(meta: str, fields: Fields, extra: Fields) -> None:
    """Keep the fields that are not None under `meta`, beside those that are there already."""
    values = {key: value for key, value in extra.items() if value is not None}
    if values:
        known = fields.get(meta)
        fields[meta] = {**known, **values} if known else values
