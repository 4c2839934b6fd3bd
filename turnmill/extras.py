"""The extras of this package as messages name them; `pipeline/extras.py` says what each brings."""

import json
from typing import Final
from urllib.parse import unquote, urlsplit

CLIENT: Final = ""  # no extra: the client is enough
HTTP: Final = "http"


def install(extra: str) -> str:
    """Return the command that installs an extra from where this package came: a checkout's folder, or the registry."""
    from importlib.metadata import distribution  # noqa: PLC0415  # a message alone needs it

    came = json.loads(distribution("turnmill").read_text("direct_url.json") or "{}")
    if "dir_info" not in came:
        return f"pip install 'turnmill[{extra}]'"
    folder = unquote(urlsplit(came["url"]).path)
    server = "" if extra == HTTP else f" '{folder}/pipeline'"  # which the extra would take from the registry
    return f"pip install '{folder}[{extra}]'{server}"
