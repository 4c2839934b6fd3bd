"""Find the credentials in a request to a model, and mask them in texts and bodies. Pure.

Servers repeat credentials in error messages. Bodies may contain some, too: for servers of tools (MCP), and for the
indexes that a model searches.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from turnmill.capture.providers import APIS

MASK: Final = "***"
MIN_CHARACTERS: Final = 8  # a shorter value, such as the `EMPTY` of servers without keys, may be any word
SECRET_NAME: Final = re.compile("auth|key|token|cookie|secret|pass|sig|cred|code", re.IGNORECASE)
BETWEEN: Final = re.compile(r"[\s;,]+")
ADDRESS: Final = re.compile(r"(?<=://)[^\s/@'\"]*@|\?[^\s'\"]*")  # user and query of URLs in a text

SCHEMAS: Final = frozenset({"function", "input_schema", "parametersJsonSchema", "functionDeclarations"})
TOOLS: Final = ("tools", "functions", "mcp_servers")
ALL_BELOW: Final = frozenset({"headers", "authentication", "auth_config", "authconfig", "apiauth", "domain_secrets"})
FIELDS: Final = frozenset(
    {"authorization", "authorization_token", "access_token", "api_key", "apikey", "password", "connection_string"}
)
ADDRESSES: Final = frozenset({"server_url", "url"})


def hidden(query: str, *more: str | None) -> dict[str, str]:
    """Return the credentials of a URL's query, and `more`, as headers that `credentials` finds."""
    values = [value for name, value in parse_qsl(query) if SECRET_NAME.search(name)]
    return {f"secret-{number}": value for number, value in enumerate((*values, *filter(None, more)))}


def credentials(headers: Mapping[str, str]) -> frozenset[str]:
    """Return the confidential values in a request's headers, those of at least 8 characters."""
    return frozenset(
        piece
        for name, value in headers.items()
        if SECRET_NAME.search(name)
        for piece in _pieces(value)
        if len(piece) >= MIN_CHARACTERS
    )


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return a text with each secret replaced by `***`, also in its escaped forms in JSON and URLs."""
    for secret in sorted(secrets, key=len, reverse=True):
        for form in dict.fromkeys((secret, json.dumps(secret)[1:-1], quote(secret, safe=""))):
            text = text.replace(form, MASK)
    return text


def without_addresses(text: str) -> str:
    """Return a text with users and queries removed from its URLs."""
    return ADDRESS.sub("", text)


def masked_settings(dialect: str, body: Any) -> tuple[Any, frozenset[str]]:
    """Return a body with `***` for credentials in its settings, and the values that were masked.

    `body` is a request's, or a response that repeats it. The conversation is not changed.
    """
    if not isinstance(body, dict):
        return body, frozenset()
    secrets: set[str] = set()
    history = APIS[dialect].history
    masked = {
        name: value if name in (history, "output") else _masked(name, value, secrets, is_tool=name in TOOLS)
        for name, value in body.items()
    }
    return masked, frozenset(secret for secret in secrets if len(secret) >= MIN_CHARACTERS)


def _pieces(value: str) -> Iterator[str]:
    """Yield the possible secrets in `Bearer KEY`, `Basic` with base64, cookies, and signatures of several parts."""
    scheme, _, rest = value.partition(" ")
    if scheme.lower() == "basic":
        is_base64 = re.fullmatch(r"[A-Za-z0-9+/]+={0,2}", rest) is not None and len(rest.rstrip("=")) % 4 != 1
        decoded = base64.b64decode(rest + "==").decode("utf-8", "replace") if is_base64 else ""
        yield decoded.partition(":")[2]
    yield value
    for piece in BETWEEN.split(value):
        yield piece
        yield piece.partition("=")[2]


def _of_address(text: str) -> Iterable[str]:
    try:
        parts = urlsplit(text)
        return hidden(parts.query, unquote(parts.password or "")).values()
    except ValueError:
        return ()


def _masked(name: str, value: Any, secrets: set[str], *, is_tool: bool) -> Any:
    lower = name.lower()
    if is_tool and (name in SCHEMAS or (name == "parameters" and isinstance(value, dict) and "properties" in value)):
        return value
    if isinstance(value, str):
        if lower in FIELDS:
            secrets.update(_pieces(value))
            return MASK
        if not is_tool or lower not in ADDRESSES:
            return value
        secrets.update(_of_address(value))
        return without_addresses(value)
    if lower in ALL_BELOW:
        return _all_masked(value, secrets)
    if isinstance(value, list):
        return [_masked(name, item, secrets, is_tool=is_tool) for item in value]
    if isinstance(value, dict):
        return {key: _masked(key, item, secrets, is_tool=is_tool) for key, item in value.items()}
    return value


def _all_masked(value: Any, secrets: set[str]) -> Any:
    """Return a value with all texts in it masked, except those that name a type."""
    if isinstance(value, str):
        secrets.update(_pieces(value))
        return MASK
    if isinstance(value, list):
        return [_all_masked(item, secrets) for item in value]
    if isinstance(value, dict):
        return {key: item if key in ("type", "name") else _all_masked(item, secrets) for key, item in value.items()}
    return value
