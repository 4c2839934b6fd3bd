"""Read a request to a model: everything that is computed from its bytes, which takes time for a large one. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from turnmill.capture.encodings import Unreadable, decoded
from turnmill.capture.exchange import Exchange
from turnmill.capture.normal import NormalMessage, messages
from turnmill.capture.passing import Call
from turnmill.capture.providers import model_in
from turnmill.capture.request_names import RequestNames, request_names
from turnmill.errors import InvalidRecord
from turnmill.limits import CAPTURED_REQUEST_BYTES, JSON_VALUES
from turnmill.wire.envelope import loads

CHARSET: Final = re.compile(r"charset\s*=\s*['\"]?([^'\";,\s]+)", re.IGNORECASE)
UTF_8: Final = ("utf-8", "utf8", "us-ascii")
CHUNK_BYTES: Final = 1_048_576  # counted at a time, so that counting stops early if there are far too many


@dataclass(frozen=True, slots=True)
class Reading:
    """The body of a request, read.

    `digest`: of the original body. `models`: all names that a server may take for the model's, the likeliest first.
    `problem`: why the body can't be read in the way its server reads it, or is too large to be captured; else None.
    """

    exchange: Exchange
    names: RequestNames
    messages: Sequence[NormalMessage]
    digest: bytes
    models: Sequence[str]
    problem: str | None


def read(call: Call) -> Reading:
    """Read the body of a request, which may be any bytes. Raises nothing."""
    value, problem = _value(call.headers, call.body)
    return Reading(
        exchange=Exchange(call.dialect, {} if value is None else value, call.headers),
        names=request_names(call.headers, value),
        messages=messages(call.dialect, value),
        digest=hashlib.sha256(call.body).digest(),
        models=_models(call.path, value),
        problem=problem,
    )


def _value(headers: Mapping[str, str], body: bytes) -> tuple[Any, str | None]:
    """Return the body's JSON and the problem with it.

    The JSON is None where the body has none, {"left_out": bytes} where it is too large.
    """
    left_out = {"left_out": len(body)}
    charset = CHARSET.search(headers.get("content-type", ""))
    if charset is not None and charset[1].lower() not in UTF_8:
        return left_out, f"its charset is {charset[1]!r:.40}, not UTF-8"
    if headers.get("content-encoding", "identity") != "identity" and body.lstrip()[:1] == b"{":
        return left_out, "it is JSON, and says that it is encoded: servers may read it as either"
    try:
        data = decoded(headers.get("content-encoding", ""), body, CAPTURED_REQUEST_BYTES)
    except Unreadable as error:
        return left_out, str(error)
    if too_many_values(data):
        return left_out, f"its JSON has more than {JSON_VALUES:,} values"
    try:
        value = loads(data)
    except InvalidRecord as error:
        return None, error.detail
    return value, None if isinstance(value, dict) else "it is no JSON object"


def _models(path: str, body: Any) -> tuple[str, ...]:
    """Return the names of models, that of the path first. Some servers ignore the case of keys."""
    in_body = [value for key, value in body.items() if key.lower() == "model"] if isinstance(body, dict) else []
    names = [model_in(path), *in_body]
    return tuple(dict.fromkeys(name for name in names if isinstance(name, str)))


def too_many_values(data: bytes) -> bool:
    """Return True if JSON has more than JSON_VALUES arrays, objects and members. For other bytes it means nothing.

    They are counted before the JSON is parsed: three bytes may become a list of 64.
    """
    if not _more(data):
        return False
    unescaped = data.replace(b"\\\\", b"").replace(b'\\"', b"")  # brackets and commas in strings don't count
    if unescaped.count(b'"') > 4 * JSON_VALUES:  # the quotes of keys and strings
        return True
    return _more(b"".join(unescaped.split(b'"')[::2]))


def _more(data: bytes) -> bool:
    values = quotes = 0
    for at in range(0, len(data), CHUNK_BYTES):
        part = data[at : at + CHUNK_BYTES]
        values += part.count(b",") + part.count(b"[") + part.count(b"{")
        quotes += part.count(b'"')
        if values > JSON_VALUES or quotes > 4 * JSON_VALUES:
            return True
    return False
