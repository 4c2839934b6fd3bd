"""The message of worker and gateway about a port that can't be opened, with the setting to change."""

from __future__ import annotations

import errno


def why_not_listening(host: str, port: int, error: OSError, prefix: str = "TURNMILL") -> str:
    """Return why a port could not be opened, as a sentence; the settings are `prefix` with _HOST and _PORT."""
    where = f"{host}:{port}"
    if error.errno == errno.EADDRINUSE:
        return f"{where} is in use by another program: set {prefix}_PORT to another port, or to 0 for a free one"
    if error.errno == errno.EACCES:
        return f"{where} is not allowed to this user: set {prefix}_PORT to a port above 1023"
    why = error.strerror or error
    return f"can't listen on {where} ({why}): set {prefix}_HOST to an address of this machine"
