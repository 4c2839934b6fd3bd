"""Errors over HTTP: `application/problem+json` (RFC 9457) for every status, each with advice.

    {"type": "/docs#unknown-thread", "title": "No such thread", "status": 404, "detail": "…", …}

`type` links to a row of the gateway's page of documentation.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from pipeline.assembly.dialect import WrongOption
from pipeline.stores.database.errors import HeldThread, StoreError
from pipeline.turns.branches import UnknownBranch
from pipeline.turns.thread_document import UnknownTurn
from turnmill.errors import BrokerError, CallerError, InvalidRecord, expectation

log = logging.getLogger(__name__)

MEDIA_TYPE: Final = "application/problem+json"
RETRY_AFTER: Final = 5  # seconds, while the broker or the store is away
MAX_SHOWN: Final = 5  # wrong parameters that an answer names


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of problem: its status, its title, and advice."""

    status: int
    title: str
    advice: str


KINDS: Final[dict[str, Kind]] = {
    "bad-request": Kind(400, "The request can't be understood", "See `detail`."),
    "bad-cursor": Kind(400, "Not a cursor of this list", "Ask for the first page, without `cursor`."),
    "bad-event-id": Kind(400, "Not an event id of this stream", "Open the stream without `Last-Event-ID`."),
    "unauthorized": Kind(401, "A token is needed", "Send `Authorization: Bearer TOKEN`."),
    "forbidden": Kind(403, "The token does not allow this", "Use one that has the scope or tenant in `detail`."),
    "not-found": Kind(404, "No such page", "`/docs` lists the paths."),
    "unknown-thread": Kind(404, "No such thread", "`GET /v1/threads` lists those that the token may read."),
    "unknown-request": Kind(404, "No such request", "`meta:request` of a thread's responses names them."),
    "unknown-branch": Kind(404, "No such branch", "`meta:run_id` of the thread's turns names its runs."),
    "unknown-upstream": Kind(404, "No such upstream", "TURNMILL_GATEWAY_PROXY lists those that there are."),
    "unknown-turn": Kind(404, "No such turn", "`meta:turn_id` of the thread's turns names them."),
    "method-not-allowed": Kind(405, "Another method is needed", "The header `Allow` lists them."),
    "too-slow": Kind(408, "The body was idle for too long", "Send it again; no event is stored twice."),
    "conflict": Kind(409, "The thread's state does not allow this", "See `detail`."),
    "too-large": Kind(413, "Too large", "Send large content by reference, or the rest in another request."),
    "unsupported-media-type": Kind(415, "A body of another type is needed", "Send SSE or JSON lines, not encoded."),
    "invalid-parameters": Kind(422, "A parameter is wrong or missing", "`errors` names each, and why."),
    "unreadable-stream": Kind(422, "No event of the body can be used", "`refused` says why; is `dialect` right?"),
    "unreadable-request": Kind(
        422,
        "A budget counts the call, and its body can't be read",
        "Send UTF-8 JSON that names its model; see `detail`.",
    ),
    "no-websocket": Kind(426, "The proxy passes on no WebSocket", "Use the same API over HTTP."),
    "rate-limited": Kind(429, "Too many requests", "Wait for as many seconds as `Retry-After` says."),
    "budget-used-up": Kind(429, "A budget is used up", "`GET /v1/budgets` says which, and until when."),
    "headers-too-large": Kind(431, "The request's headers are too large", "Send fewer cookies and shorter headers."),
    "internal": Kind(500, "A fault of the gateway", "Its log has the cause, under the id in `detail`."),
    "upstream-failed": Kind(502, "The upstream gave no answer", "Try again; `detail` says what failed."),
    "upstream-silent": Kind(
        504, "The upstream took too long", "Try again; TURNMILL_GATEWAY_PROXY_FIRST_BYTE bounds it."
    ),
    "unavailable": Kind(503, "Something that is needed does not answer", "Try again after `Retry-After` seconds."),
}
# Status -> the first kind with this status, for the framework's errors.
BY_STATUS: Final = {kind.status: name for name, kind in reversed(KINDS.items())}
# Errors of the callers -> the kind of problem that answers them; the first that fits.
ANSWERED: Final[dict[type[Exception], str]] = {
    HeldThread: "conflict",
    UnknownBranch: "unknown-branch",
    UnknownTurn: "unknown-turn",
    WrongOption: "bad-request",
    CallerError: "bad-request",
    InvalidRecord: "bad-request",
}


class Problem(Exception):
    """An answer of a kind in KINDS; `more` are further fields of the JSON object."""

    def __init__(self, kind: str, detail: str, *, headers: dict[str, str] | None = None, **more: Any) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.headers = headers or {}
        self.more = more

    def response(self) -> Response:
        """Return the response."""
        kind = KINDS[self.kind]
        headers = {"Cache-Control": "no-store", **self.headers}
        return Response(body(self.kind, self.detail, **self.more), kind.status, headers, MEDIA_TYPE)


class ProblemBody(BaseModel):
    """The JSON object of every error."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "example": {
                "type": "/docs#unknown-thread",
                "title": "No such thread",
                "status": 404,
                "detail": "no thread 'chat-17' is stored: GET /v1/threads lists those that are",
            }
        },
    )

    type: str = Field(description="The kind of problem, as a link into `/docs`.")
    title: str = Field(description="The kind in words.")
    status: int
    detail: str = Field(description="What is wrong with this request, and what to do about it.")


def body(kind: str, detail: str, **more: Any) -> bytes:
    """Return the JSON object."""
    known = KINDS[kind]
    text = detail.encode("utf-8", "replace").decode()
    return orjson.dumps({"type": f"/docs#{kind}", "title": known.title, "status": known.status, "detail": text, **more})


def documented(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """Return `responses` of a route: these kinds, beside `OF_ANY`."""
    responses: dict[int | str, dict[str, Any]] = {}
    for name in dict.fromkeys(kinds):
        kind = KINDS[name]
        before = f"{responses[kind.status]['description']}; " if kind.status in responses else ""
        responses[kind.status] = {
            "description": f"{before}{kind.title}",
            "model": ProblemBody,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemBody"}}},
        }
    return responses


OF_ANY: Final = documented(
    "unauthorized", "forbidden", "invalid-parameters", "rate-limited", "headers-too-large", "unavailable"
)
OF_STORED: Final = documented("unknown-thread", "conflict")  # `responses` of routes that name a stored thread


def only_problems(document: dict[str, Any]) -> dict[str, Any]:
    """Return an OpenAPI document with the errors of any route, where they are possible, all of problems' type."""
    of_any = {
        str(status): {key: answer[key] for key in ("description", "content")} for status, answer in OF_ANY.items()
    }
    for name in ("HTTPValidationError", "ValidationError"):  # of FastAPI's 422, which no answer is
        document["components"]["schemas"].pop(name, None)
    for methods in document["paths"].values():
        for operation in methods.values():
            never = {"401", "403", "429"} if not operation.get("security") else set()
            never |= {"422"} if not operation.get("parameters") else set()
            own = {
                status: answer
                for status, answer in operation["responses"].items()
                if status != "422" or MEDIA_TYPE in answer.get("content", {})  # else it is FastAPI's
            }
            for answer in own.values():
                if MEDIA_TYPE in answer.get("content", {}):
                    answer["content"].pop("application/json", None)
            operation["responses"] = {
                status: answer
                for status, answer in sorted((of_any | own).items())
                if status not in never or MEDIA_TYPE not in answer.get("content", {})
            }
    return document


def add_handlers(app: FastAPI, refused: Callable[[Request], None]) -> None:
    """Turn every error of the app and of the framework into a problem; `refused` is called for 401 and 403."""

    async def problem(request: Request, error: Exception) -> Response:
        answer = of(error)
        if answer.kind in ("unauthorized", "forbidden"):
            refused(request)
        return answer.response()

    for kind in (Problem, RequestValidationError, HTTPException, BrokerError, StoreError, *ANSWERED):
        app.add_exception_handler(kind, problem)


def of(error: Exception) -> Problem:
    """Return the problem that answers an error."""
    match error:
        case Problem():
            return error
        case RequestValidationError():
            return _invalid(error)
        case BrokerError() | StoreError():
            if isinstance(error, StoreError) and not error.transient:
                log.error("%s", error)
            return later("unavailable", str(error))
        case HTTPException():
            name = BY_STATUS.get(error.status_code, "bad-request" if error.status_code < 500 else "internal")
            return Problem(name, _framework_detail(name, error), headers=dict(error.headers or {}))
    kind = next((name for known, name in ANSWERED.items() if isinstance(error, known)), None)
    return Problem("internal", "see the gateway's log") if kind is None else Problem(kind, str(error))


@contextmanager
def bounded_answer(instead: str) -> Iterator[None]:
    """Answer 409 where the store refuses to read so much for an answer; `instead`: what to ask for."""
    try:
        yield
    except StoreError as error:
        if error.transient:
            raise
        raise Problem("conflict", f"{error}; {instead}") from None


def later(kind: str, detail: str) -> Problem:
    """Return a problem that passes, such as that of a broker or a store that is away."""
    return Problem(kind, detail, headers={"Retry-After": str(RETRY_AFTER)})


def _framework_detail(name: str, error: HTTPException) -> str:
    if name == "not-found":
        return "nothing is at this path: /docs lists what there is"
    if name == "method-not-allowed":
        return f"this path takes {(error.headers or {}).get('Allow', 'other methods')}"
    detail = str(error.detail)
    return detail if detail != HTTPStatus(error.status_code).phrase else KINDS[name].advice


def _invalid(error: RequestValidationError) -> Problem:
    errors = [
        {
            "in": str(error["loc"][0]) if error["loc"] else "request",
            "name": ".".join(str(step) for step in error["loc"][1:]),
            "message": expectation(error),
        }
        for error in error.errors()[:MAX_SHOWN]
    ]
    detail = "; ".join(f"{wrong['name'] or wrong['in']}: {wrong['message']}" for wrong in errors)
    return Problem("invalid-parameters", detail.encode("utf-8", "replace").decode(), errors=errors)
