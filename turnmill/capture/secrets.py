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

SCHEMAS: Final = frozenset(
    {"function", "input_schema", "parametersJsonSchema", "functionDeclarations", "schema", "responseSchema"}
)
TOOLS: Final = ("tools", "functions", "mcp_servers")
# Settings with credentials, as the types of the SDKs, and servers of tools, name them; all texts below are masked.
CREDENTIAL: Final = re.compile(
    r"(?:\A(?:o?auth|env|token)|headers|cookies?|auth_?config|api_?auth|authentication|authorization|credentials?(?:_json)?"
    r"|secret|passw(?:or)?d|connection_?string|(?:api|access|account|admin|private|secret|shared|subscription)[-_]?key"
    r"(?:[-_]?id)?|(?:access|api|auth|authorization|bearer|bot|id|refresh|sas|security|session)[-_]?token)s?\Z",
    re.IGNORECASE,
)
# Credentials by their shape, wherever a tool's settings have them: arguments of programs, among others.
SHAPE: Final = re.compile(
    r"\b(?:sk-[\w-]{16,}|AIza[\w-]{30,}|A[KS]IA[A-Z0-9]{16}|(?:gh[opsu]|github_pat)_\w{20,}|xox[abprs]-[\w-]{10,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]+)|\bBearer [^\s\"']{8,}|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]*"
)
SHAPED: Final = 4_096  # characters of the longest setting in which they are looked for
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
    history = APIS[dialect].history if dialect in APIS else "messages"
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
    if name in SCHEMAS or (is_tool and name == "parameters" and isinstance(value, dict) and "properties" in value):
        return value
    if CREDENTIAL.search(name):
        return _all_masked(value, secrets)
    if isinstance(value, str):
        found = list(_of_address(value)) if "://" in value[:20] and " " not in value else []
        secrets.update(found)
        if found or (is_tool and name.lower() in ADDRESSES):
            value = without_addresses(value)
        if is_tool and len(value) <= SHAPED:
            secrets.update(SHAPE.findall(value))
            value = SHAPE.sub(MASK, value)
        return value
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
