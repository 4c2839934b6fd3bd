"""The page at `/` and its static files. They contain no data, and load nothing from other hosts."""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, Header
from starlette.responses import Response

from pipeline.gateway.problems import Problem
from pipeline.gateway.state import TheGateway

STATIC: Final = Path(__file__).with_name("static")
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Scripts and styles come from the page's files, not inline; with trusted types, no text can become markup.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file as it is sent; `tag` changes with its bytes."""

    data: bytes
    media_type: str
    tag: str


@cache
def files() -> dict[str, StaticFile]:
    """Return all static files by path."""
    by_path = {}
    for path in sorted(STATIC.rglob("*")):
        if path.suffix in TYPES:
            data = path.read_bytes()
            tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
            by_path[path.relative_to(STATIC).as_posix()] = StaticFile(data, TYPES[path.suffix], tag)
    return by_path


@router.get("/")
async def page(if_none_match: Annotated[str | None, Header()] = None) -> Response:
    """Return the page itself; its data come from `/v1`, with the caller's token."""
    return _answer("index.html", if_none_match)


@router.get("/static/features.json")
async def features(gateway: TheGateway) -> dict[str, bool]:
    """Return which optional parts of the page the operator has enabled."""
    return {"rerun": gateway.settings.gateway_rerun, "share": gateway.settings.gateway_share_seconds > 0}


@router.get("/static/{path:path}")
async def static(path: str, if_none_match: Annotated[str | None, Header()] = None) -> Response:
    """Return a file of the page."""
    return _answer(path, if_none_match)


def _answer(path: str, if_none_match: str | None) -> Response:
    file = files().get(path)
    if file is None:
        raise Problem("not-found", f"the page has no file {path!r:.200}")
    headers = {"Cache-Control": "no-cache", "ETag": file.tag, "Content-Security-Policy": POLICY}
    if if_none_match == file.tag:
        return Response(status_code=304, headers=headers)
    return Response(file.data, headers=headers, media_type=file.media_type)
