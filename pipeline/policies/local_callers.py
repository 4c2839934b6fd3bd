"""Who may call a server that listens for this machine alone. Pure.

A browser lets any web page act on such a server: by a form or `fetch` across origins, or by a host name of the page's
own that points to 127.0.0.1 (DNS rebinding). Another port of this machine is another origin, too.
"""

from collections.abc import Container, Mapping
from typing import Final

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def refusal(headers: Mapping[str, str], origins: Container[str] = ()) -> str | None:
    """Return why such a request is refused, None if it isn't. `origins`: whose pages may call, besides its own."""
    host = headers.get("host", "localhost")
    name = (host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]).lower()
    if name not in LOOPBACK:
        return f"this is for localhost, not for a host {name!r:.80}"
    origin = headers.get("origin")
    if origin is not None and origin not in origins and origin.partition("://")[2] != host:
        return f"no page of {origin!r:.80} may call this"
    return None
