"""A call's keys in the headers of the record that ends it, by which other processes know its conversation.

    turnmill-answered    {"thread": …, "run": …, "keys": [hash or id of the response, …], "after": …}

A hash is of what was said so far, and tells nothing of it. Whose it is, the record itself says, and nobody else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from turnmill.capture.conversations import Fact
from turnmill.envelope import encode, loads
from turnmill.errors import InvalidRecord

HEADER: Final = "turnmill-answered"
LONGEST: Final = 4_000  # bytes of the header
KEYS: Final = 4


def headers(fact: Fact) -> list[tuple[str, bytes]]:
    """Return the headers of a record; none where a request could be known by nothing."""
    keys = [{"hash": key.hex()} if isinstance(key, bytes) else {"response": key} for key in fact.keys]
    if not keys:
        return []
    value = encode({"thread": fact.thread, "run": fact.run, "keys": keys, "after": fact.after})
    return [(HEADER, value)] if len(value) <= LONGEST else []


def fact_of(found: Sequence[tuple[str, bytes | None]], scope: str) -> Fact | None:
    """Return the fact in a record's headers; None where there is none. `scope`: the tenant that the record names."""
    value = next((value for name, value in found if name == HEADER), None)
    if value is None or len(value) > LONGEST:
        return None
    try:
        said = loads(value)
        keys = tuple(
            bytes.fromhex(key["hash"]) if "hash" in key else str(key["response"]) for key in said["keys"][:KEYS]
        )
        thread, run, after = said["thread"], said["run"], said.get("after")
    except (InvalidRecord, KeyError, TypeError, ValueError, AttributeError):
        return None
    if not isinstance(thread, str) or not isinstance(run, str) or not isinstance(after, str | None):
        return None
    return Fact(scope, thread, run, keys, after)
