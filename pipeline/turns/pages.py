"""A part of a long thread: its end. Pure."""

from __future__ import annotations

from topics.json_text import Fields

EARLIER = "meta:earlier"  # of a document: the number of turns left out
BEFORE = 2  # turns that are shown before the requested one, which may answer them


class UnknownTurn(ValueError):
    """The thread has no such turn."""


def last_turns(document: Fields, most: int | None = None, since: str | None = None) -> Fields:
    """Return a thread document with its last `most` turns, or all from the turn `since` on and BEFORE more.

    With both, whichever is more. EARLIER has the number of turns left out. Raises UnknownTurn.
    """
    if most is None and since is None:
        return document
    turns = document["turns"]
    first = len(turns) if most is None else max(0, len(turns) - most)
    if since is not None:
        start = next((n for n, turn in enumerate(turns) if turn.get("meta:turn_id") == since), None)
        if start is None:
            raise UnknownTurn(f"no turn of this thread is called {since!r:.200}")
        first = min(first, max(0, start - BEFORE))
    if not first:
        return document
    return {**document, "turns": turns[first:], EARLIER: first}
