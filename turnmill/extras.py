"""The extras of this package as messages name them; `pipeline/extras.py` says what each brings."""

from typing import Final

CLIENT: Final = ""  # no extra: the client is enough
HTTP: Final = "http"


def install(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'turnmill[{extra}]'"
