"""The headers that are passed on, in both directions. Pure.

Each side has another connection, so headers about the connection (RFC 9110, 7.6.1), or about the framing of a body
on it, stop here. So do cookies and rules for browsers: they apply to the gateway's host, which several upstreams share.
"""

from collections.abc import Iterable
from typing import Final

Headers = list[tuple[str, str]]

HOP: Final = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer"}
    | {"transfer-encoding", "upgrade", "http2-settings"}
)
READABLE_ENCODINGS: Final = frozenset({"gzip", "deflate", "identity"})  # which any installation can decode
OWN_PREFIX: Final = "turnmill-"  # the gateway's token, and facts about the conversation
# How the request came here is no concern of the upstream.
WAY: Final = frozenset({"forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-port"}) | {
    *("x-forwarded-proto", "x-forwarded-prefix", "x-real-ip", "x-request-start")
}
NOT_UP: Final = HOP | WAY | {"host", "content-length", "cookie", "expect"}
# To a browser, a page of an upstream is a page of the gateway, so the gateway's rules apply, not the upstream's.
NOT_DOWN: Final = HOP | {"set-cookie", "date", "server", "alt-svc", "strict-transport-security", "clear-site-data"}
RULES: Final = frozenset(
    {"content-security-policy", "content-security-policy-report-only", "x-content-type-options", "x-frame-options"}
    | {"referrer-policy", "cross-origin-opener-policy", "cross-origin-resource-policy", "permissions-policy"}
    | {"cross-origin-embedder-policy", "service-worker-allowed", "refresh", "link", "reporting-endpoints", "nel"}
)


def upward(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the request's headers for the upstream, in their order, with names unchanged."""
    held = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
    named = _named(held)
    return [(name, value) for name, value in held if not _stops(name.lower(), named, NOT_UP)]


def downward(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the answer's headers for the client; names in lower case, as ASGI wants them."""
    held = [(name.lower(), value) for name, value in headers]
    if any(name == b"transfer-encoding" for name, _ in held):  # then a length is ignored
        held = [(name, value) for name, value in held if name != b"content-length"]
    named = _named((name.decode("latin-1"), value.decode("latin-1")) for name, value in held)
    return [
        (name, value)
        for name, value in held
        if not _stops(text := name.decode("latin-1"), named, NOT_DOWN)
        and text not in RULES
        and not text.startswith("access-control-")
    ]


def of_call(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the request's headers for the capture, which reads those that name the conversation, and keeps none."""
    values: dict[str, str] = {}
    for name, value in headers:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        values[key] = f"{values[key]}, {text}" if key == "content-encoding" and key in values else text
    return values


def readable(headers: Headers) -> Headers:
    """Return the headers of a request whose answer must be read: accept only encodings that the gateway can decode."""
    return [(name, _readable(value) if name.lower() == "accept-encoding" else value) for name, value in headers]


def _readable(accepted: str) -> str:
    encodings = [
        encoding.strip()
        for encoding in accepted.split(",")
        if encoding.partition(";")[0].strip().lower() in READABLE_ENCODINGS
    ]
    return ", ".join(encodings) or "identity"


def _named(headers: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Return the headers that `Connection` names: they are for this hop only, too."""
    values = (value for name, value in headers if name.lower() == "connection")
    return frozenset(header.strip().lower() for value in values for header in value.split(","))


def _stops(name: str, named: frozenset[str], never: frozenset[str]) -> bool:
    return name in never or name in named or name.startswith(OWN_PREFIX)
