"""The servers that TURNMILL_GATEWAY_PROXY names, and the URL that a path below `/proxy` means.

    openai,anthropic,vllm=http://vllm.internal:8000

A name alone is a known provider; `NAME=URL` is any other server, or a provider at another address.

A path may also hold the gateway's token, for programs that can set an address and no header: `/proxy/t/TOKEN/openai/…`.
It is taken out of the path before anything else sees the request, so that no log of the gateway's can hold it.
"""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, unquote, unquote_to_bytes, urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from pipeline.gateway.problems import Problem
from turnmill.capture.providers import APIS, BASES, PROVIDERS, dialect_of
from turnmill.errors import CallerError

VARIABLE: Final = "TURNMILL_GATEWAY_PROXY"
NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
TOKEN: Final = "t"  # noqa: S105  # in `/proxy/t/TOKEN/…` it stands where a name could
PLAIN: Final = re.compile(rb"[!-~]*")  # characters that a path or a query may have in a request line
HEADER: Final = b"turnmill-token"
BEFORE: Final = b"/proxy/t/"
AFTER: Final = b"/proxy/"
MAX_DECODINGS: Final = 4  # how often a path is decoded in search of hidden segments


@dataclass(frozen=True, slots=True)
class Upstream:
    """One server. `base`: its address, without a slash at the end. `apis`: those whose calls are published."""

    name: str
    base: str
    apis: tuple[str, ...]

    def address(self, path: bytes, query: bytes) -> str:
        """Return the URL of a path as it came, below the base. Raises Problem, whose text leaves out the path."""
        if not PLAIN.fullmatch(path) or not PLAIN.fullmatch(query) or b"#" in path + query:
            raise Problem("bad-request", "a path holds printable characters, others percent-encoded")
        if _leaves(path):
            raise Problem("bad-request", "a path has no segments `.` or `..`, however they are encoded")
        return self.base + path.decode() + (f"?{query.decode()}" if query else "")

    def dialect(self, method: str, path: bytes) -> str | None:
        """Return the wire of a request that is published; None: it is only passed on."""
        if method != "POST":
            return None
        whole = urlsplit(self.base).path + path.decode("ascii", "replace")
        return dialect_of(whole, self.apis)


def upstreams(setting: str) -> dict[str, Upstream]:
    """Return the upstreams of the setting.

    Raises CallerError that names the wrong entry, without its password.
    """
    known: dict[str, Upstream] = {}
    for entry in filter(None, (piece.strip() for piece in setting.split(","))):
        name, given, url = (piece.strip() for piece in entry.partition("="))
        if not NAME.fullmatch(name) or name == TOKEN:
            raise CallerError(
                f"{VARIABLE}: a name has small letters, digits and hyphens, and is not {TOKEN!r}: {name!r:.60}"
            )
        if name in known:
            raise CallerError(f"{VARIABLE}: {name!r} is there twice")
        if not given and name not in BASES:
            raise CallerError(f"{VARIABLE}: say where {name!r} is, `{name}=https://host`; known are {', '.join(BASES)}")
        apis = PROVIDERS[name].apis if not given else tuple(APIS)
        known[name] = Upstream(name, _base(name, url) if given else BASES[name], apis)
    return known


def _base(name: str, url: str) -> str:
    problem = f"{VARIABLE}: {name}=https://host[:port][/path] is expected, without user, query and fragment"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise CallerError(problem) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or port == 0:
        raise CallerError(problem)
    if parts.query or parts.fragment or not PLAIN.fullmatch(url.encode()) or _leaves(parts.path.encode()):
        raise CallerError(problem)
    return SplitResult(parts.scheme, parts.netloc.lower(), parts.path.rstrip("/"), "", "").geturl()


def _leaves(path: bytes) -> bool:
    """Return True if a server may find `..` segments in this path, as it is or decoded once or more often."""
    for _ in range(MAX_DECODINGS):
        segments = re.split(rb"[/\\]", path)
        if any(segment.partition(b";")[0] in (b".", b"..") for segment in segments):
            return True
        decoded = unquote_to_bytes(path)
        if decoded == path:
            return any(byte < 0x20 or byte == 0x7F for byte in path)
        path = decoded
    return True


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
