"""Parameters that several routes take, and headers that several answers have."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Path, Query
from pydantic import BeforeValidator, WithJsonSchema

from pipeline.turns.times import epoch_ms

JSON: Final = "application/json"
PRIVATE: Final = {"Cache-Control": "private, no-cache", "Vary": "Authorization"}


def moment(value: object) -> int:
    """Return a time in epoch milliseconds. Raises ValueError."""
    text = str(value)
    at = epoch_ms(int(text) if text.isascii() and text.isdigit() else text)
    if at is None:
        raise ValueError("a time is ISO 8601, or milliseconds since 1970")
    return at


ThreadId = Annotated[
    str,
    Path(min_length=1, max_length=1000, description="The thread's UUID, or the conversation id given by its producer."),
]
Moment = Annotated[
    int,
    BeforeValidator(moment),
    WithJsonSchema({"type": "string", "description": "ISO 8601, or milliseconds since 1970."}),
]
Tenant = Annotated[str | None, Query(max_length=200, description="Only this tenant; for tokens without a tenant.")]
Whose = Annotated[
    str | None,
    Query(
        max_length=200,
        description="The thread's tenant, if several have the id; for tokens without a tenant. Empty: none.",
    ),
]
