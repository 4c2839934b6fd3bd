"""A call's keys in the headers of its run's last record, by which other processes recognize its conversation.

    turnmill-answered    {"thread": …, "run": …, "keys": [hash or id of the response, …], "after": …}

A hash is made of the conversation so far, and reveals nothing of it. Only the record itself determines the tenant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from turnmill.capture.conversations import Fact
from turnmill.errors import InvalidRecord
from turnmill.wire.envelope import encode, loads

HEADER: Final = "turnmill-answered"
MAX_HEADER_BYTES: Final = 4_000  # of the header
MAX_KEYS: Final = 4


def headers(fact: Fact) -> list[tuple[str, bytes]]:
    """Return the headers for a record; none if there are no keys by which to recognize a request."""
    keys = [{"hash": key.hex()} if isinstance(key, bytes) else {"response": key} for key in fact.keys]
    if not keys:
        return []
    value = encode({"thread": fact.thread, "run": fact.run, "keys": keys, "after": fact.after})
    return [(HEADER, value)] if len(value) <= MAX_HEADER_BYTES else []


def fact_of(record_headers: Sequence[tuple[str, bytes | None]], scope: str) -> Fact | None:
    """Return the fact in a record's headers; None if there is none. `scope`: the tenant that the record names."""
    value = next((value for name, value in record_headers if name == HEADER), None)
    if value is None or len(value) > MAX_HEADER_BYTES:
        return None
    try:
        fields = loads(value)
        keys = tuple(
            bytes.fromhex(key["hash"]) if "hash" in key else str(key["response"]) for key in fields["keys"][:MAX_KEYS]
        )
        thread, run, after = fields["thread"], fields["run"], fields.get("after")
    except (InvalidRecord, KeyError, TypeError, ValueError, AttributeError):
        return None
    if not isinstance(thread, str) or not isinstance(run, str) or not isinstance(after, str | None):
        return None
    return Fact(scope, thread, run, keys, after)
