"""The gateway's token in a path, for programs that can set an address and no header: `/proxy/t/TOKEN/openai/v1/…`.

It is taken out of the path before anything else sees the request, so that no log of the gateway's can hold it.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from starlette.types import ASGIApp, Receive, Scope, Send

HEADER: Final = b"turnmill-token"
BEFORE: Final = b"/proxy/t/"
AFTER: Final = b"/proxy/"


class PathToken:
    """The outermost layer of the app: moves the token of a path into the header that usually carries it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "http" and scope["raw_path"].startswith(BEFORE):
            scope = without_token(scope)
        await self._app(scope, receive, send)


def without_token(scope: Scope) -> Scope:
    """Return the request as if its token had come in the header; the value that the header had is dropped."""
    token, _, rest = scope["raw_path"].removeprefix(BEFORE).partition(b"/")
    path = AFTER + rest
    headers = [(name, value) for name, value in scope["headers"] if name != HEADER]
    return {
        **scope,
        "raw_path": path,
        "path": unquote(path.decode("latin-1")),
        "headers": [*headers, (HEADER, unquote(token.decode("latin-1")).encode("utf-8", "replace"))],
    }
