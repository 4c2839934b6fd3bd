"""Read a request to a model: everything that is computed from its bytes, which takes time for a large body. Pure."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from turnmill.capture.encodings import Unreadable, decoded
from turnmill.capture.exchange import Exchange
from turnmill.capture.normal import NormalMessage, messages, token_id
from turnmill.capture.passing import Call
from turnmill.capture.providers import named_in
from turnmill.errors import InvalidRecord
from turnmill.labels import labels_of, of_headers
from turnmill.limits import CAPTURED_REQUEST_BYTES, JSON_VALUES
from turnmill.wire.envelope import loads
from turnmill.wire.program_words import purpose_of

CHARSET: Final = re.compile(r"charset\s*=\s*['\"]?([^'\";,\s]+)", re.IGNORECASE)
UTF_8: Final = ("utf-8", "utf8", "us-ascii")
MAX_ID_CHARACTERS: Final = 200  # of an id
IN_METADATA: Final = ("thread_id", "conversation_id", "session_id", "chat_id")
THREAD_HEADERS: Final = (
    "conversation_id",  # Codex
    "conversation-id",
    "x-conversation-id",
    "session_id",
    "session-id",
    "x-session-id",
    "x-claude-code-session-id",
)
CLAUDE_CODE: Final = re.compile(r"_session_([0-9a-fA-F-]{36})\Z")  # user_…_account_…_session_UUID
PREVIOUS: Final = ("previous_response_id", "previous_interaction_id")
CHUNK_BYTES: Final = 1_048_576  # counted at a time, so that counting stops early if there are far too many


@dataclass(frozen=True, slots=True)
class RequestNames:
    """The names in a request; None for those that it lacks.

    `response`: the id of the response that it continues. `resumes`: it asks for the rest of this response, with the
    same messages. `in_thread`: it begins or continues a thread of Anthropic's API. `beside`: a program asks for
    something that is no part of the conversation. `labels`: those of the headers and of the body.
    """

    thread: str | None = None
    run: str | None = None
    agent: str | None = None
    parent_run: str | None = None
    parent_thread: str | None = None
    response: str | None = None
    resumes: bool = False
    in_thread: bool = False
    beside: bool = False
    labels: Mapping[str, Any] = field(default_factory=dict)


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
    named = named_in(call.path)
    model = named.pop("model", named.get("modelId"))
    if isinstance(value, dict):
        value = {**named, **value}  # as the clients of Bedrock and Mistral take them
    return Reading(
        exchange=Exchange(call.dialect, {} if value is None else value, call.headers),
        names=request_names(call.headers, value, named.get("conversation_id")),
        messages=messages(call.dialect, value),
        digest=hashlib.sha256(call.body).digest(),
        models=_models(model, value),
        problem=problem,
    )


def _value(headers: Mapping[str, str], body: bytes) -> tuple[Any, str | None]:
    """Return the body's JSON (None without JSON, {"left_out": bytes} for too much of it) and the problem with it."""
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


def _models(model: str | None, body: Any) -> tuple[str, ...]:
    """Return the names of models, that of the path first. Some servers ignore the case of keys."""
    in_body = [value for key, value in body.items() if key.lower() == "model"] if isinstance(body, dict) else []
    names = [model, *in_body]
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


def request_names(headers: Mapping[str, str], body: Any, conversation: str | None = None) -> RequestNames:
    """Return the names in a request. `headers`: names in lower case. `body`: any JSON. `conversation`: of Mistral's.

    The thread is named by the first of these that is present:

    1. our header `Turnmill-Thread`; also `-Run`, `-Agent`, `-Parent` (a run, or THREAD/RUN), and those of labels
    2. `conversation` of the Responses API
    3. in `metadata` of the body: `thread_id`, `conversation_id`, `session_id`, `chat_id`; of Claude Code, the session
       in `user_id`
    4. headers of Codex, Claude Code and others that name a session

    The response that it continues is `previous_response_id` of the Responses API, `thread.previous_message_id` of
    Anthropic's, and that which gave `continuationToken` of Google's; `previous_interaction_id` of Google's, and the
    newest of the conversation that Mistral keeps.
    """
    body = body if isinstance(body, dict) else {}
    parent = _id(headers.get("turnmill-parent"))
    thread, _, run = (parent or "").rpartition("/")
    kept = body.get("thread")  # of Anthropic's API
    previous = [kept.get("previous_message_id")] if isinstance(kept, dict) else [body.get(name) for name in PREVIOUS]
    inner = body.get("request")  # Code Assist wraps the body
    rest = token_id((inner if isinstance(inner, dict) else body).get("continuationToken"))
    return RequestNames(
        thread=next(_threads(headers, body), None),
        run=_id(headers.get("turnmill-run")),
        agent=_id(headers.get("turnmill-agent")),
        parent_run=run or None,
        parent_thread=thread or None,
        response=rest or next(filter(None, map(_id, [*previous, conversation])), None),
        resumes=rest is not None,
        in_thread=isinstance(kept, dict),
        beside=purpose_of(body.get("messages")) is not None,  # no `compaction`: the next call continues its summary
        labels=labels_of(of_headers(headers), body),
    )


def _threads(headers: Mapping[str, str], body: Mapping[str, Any]) -> Iterator[str]:
    conversation = body.get("conversation")
    candidates = [
        headers.get("turnmill-thread"),
        conversation.get("id") if isinstance(conversation, dict) else conversation,
    ]
    metadata = body.get("metadata")
    if isinstance(metadata, dict):
        candidates += [metadata.get(name) for name in IN_METADATA]
        candidates.append(_session(metadata.get("user_id")))
    candidates += [headers.get(name) for name in THREAD_HEADERS]
    return (name for name in map(_id, candidates) if name is not None)


def _session(user_id: Any) -> str | None:
    """Return Claude Code's session: from the end of the user's id, or from the JSON that newer versions write there."""
    if not isinstance(user_id, str):
        return None
    match = CLAUDE_CODE.search(user_id)
    if match:
        return match[1]
    if user_id.startswith("{"):
        try:
            value = loads(user_id.encode("utf-8", "replace"))
        except InvalidRecord:
            return None
        session = value.get("session_id") if isinstance(value, dict) else None
        return session if isinstance(session, str) else None
    return None


def _id(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= MAX_ID_CHARACTERS else None
