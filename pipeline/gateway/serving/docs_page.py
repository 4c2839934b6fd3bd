"""`/docs`: the OpenAPI document as a page without scripts, and what each kind of problem means."""

import asyncio
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from pipeline.gateway.problems import KINDS

PAGE: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'",
    "Cache-Control": "no-cache",
}
STYLE: Final = Path(__file__).with_name("docs.css").read_text("utf-8")

router = APIRouter(include_in_schema=False)


@router.get("/docs")
async def docs(request: Request) -> Response:
    """Return the page."""
    document: dict[str, Any] = await asyncio.to_thread(request.app.openapi)  # it takes long the first time
    return Response("".join(_page(document)).encode(), headers=PAGE)


@router.get("/openapi.json")
async def openapi(request: Request) -> Response:
    """Return the OpenAPI document."""
    return JSONResponse(await asyncio.to_thread(request.app.openapi))


@router.get("/docs.css")
async def style() -> Response:
    """Return its style sheet."""
    return Response(STYLE, headers={"Cache-Control": "no-cache"}, media_type="text/css")


def _page(document: dict[str, Any]) -> Iterator[str]:
    info = document["info"]
    yield (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<title>{escape(info["title"])}</title><link rel="icon" href="/static/mark.svg">'
        '<link rel="stylesheet" href="/static/style.css"><link rel="stylesheet" href="/docs.css">'
        '<header class="top"><div class="top-in"><a class="brand" href="/">'
        '<img src="/static/mark.svg" alt="" width="22" height="22"><span>Turnmill</span></a></div></header><main>'
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info['summary'])} "
        'For programs: <a href="/openapi.json">openapi.json</a>. Send <code>Authorization: Bearer TOKEN</code>; '
        "none is needed on loopback while no tokens are set.</p>"
    )
    operations = [
        (operation.get("tags", ["other"])[0], method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    for tag in dict.fromkeys(tag for tag, *_ in operations):
        yield f"<h2>{escape(tag)}</h2>"
        for _, method, path, operation in (operation for operation in operations if operation[0] == tag):
            yield (
                f'<details><summary><code><b class="method">{method.upper()}</b>{escape(path)}</code>'
                f"<span>{escape(operation.get('summary', ''))}</span></summary>"
                f'<div id="{escape(f"{method}-{path}")}">'  # a link to #ID opens the element that contains it
            )
            yield from _operation(operation)
            yield "</div></details>"
    yield "<h2>Problems</h2><p>Every error is <code>application/problem+json</code> (RFC 9457); its type is one of:</p>"
    yield "<table><tr><th>type<th>status<th>means<th>what to do</tr>"
    for name, kind in KINDS.items():
        yield (
            f'<tr id="{name}"><td><code>/docs#{name}</code><td>{kind.status}<td>{escape(kind.title)}'
            f"<td>{_text(kind.advice)}</tr>"
        )
    yield "</table></main></html>"


def _operation(operation: dict[str, Any]) -> Iterator[str]:
    for paragraph in operation.get("description", "").split("\n\n"):
        yield f"<p>{_text(paragraph)}</p>" if paragraph.strip() else ""
    scopes = [", ".join(need.get("token", ())) for need in operation.get("security", ())]
    if any(scopes):
        yield f"<p>Scope: {' or '.join(f'<code>{escape(scope)}</code>' for scope in scopes)}.</p>"
    if operation.get("parameters"):
        yield "<table><tr><th>parameter<th>in<th>takes<th>meaning</tr>"
        for parameter in operation["parameters"]:
            needed = " (required)" if parameter.get("required") and parameter["in"] != "path" else ""
            description = parameter.get("description") or parameter["schema"].get("description", "")
            yield (
                f"<tr><td><code>{escape(parameter['name'])}</code>{needed}<td>{parameter['in']}"
                f"<td>{escape(_takes(parameter['schema']))}<td>{_text(description)}</tr>"
            )
        yield "</table>"
    for kind, media in operation.get("requestBody", {}).get("content", {}).items():
        if "example" in media:
            yield f"<p>Body, <code>{escape(kind)}</code>:</p><pre>{escape(str(media['example']))}</pre>"
    yield "<table><tr><th>status<th>meaning</tr>"
    for status, answer in operation["responses"].items():
        yield f"<tr><td>{escape(status)}<td>{_text(answer['description'])}</tr>"
    yield "</table>"


def _takes(schema: dict[str, Any]) -> str:
    """Return the values that a JSON schema allows, in words."""
    if "anyOf" in schema:
        return _takes(next(branch for branch in schema["anyOf"] if branch.get("type") != "null"))
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    text = str(schema.get("type", "any"))
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None:
        text += f" ≥ {low}" if high is None else f", {low} to {high}"
    return text + (f", by default {schema['default']}" if schema.get("default") not in (None, "") else "")


def _text(text: str) -> str:
    """Return text as HTML, with <code> for text between backticks."""
    parts = escape(text, quote=False).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))
