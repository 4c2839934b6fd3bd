"""`/docs`: the OpenAPI document as a page without scripts, and what each kind of problem means."""

import asyncio
from collections.abc import Iterator, Mapping
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

Schema = dict[str, Any]

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
            yield from _operation(operation, document.get("components", {}).get("schemas", {}))
            yield "</div></details>"
    yield "<h2>Problems</h2><p>Every error is <code>application/problem+json</code> (RFC 9457); its type is one of:</p>"
    yield "<table><tr><th>type<th>status<th>means<th>what to do</tr>"
    for name, kind in KINDS.items():
        yield (
            f'<tr id="{name}"><td><code>/docs#{name}</code><td>{kind.status}<td>{escape(kind.title)}'
            f"<td>{_text(kind.advice)}</tr>"
        )
    yield "</table></main></html>"


def _operation(operation: Schema, named: Mapping[str, Schema]) -> Iterator[str]:
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
        yield f"<p>Body, <code>{escape(kind)}</code>:</p>"
        yield from _table(media, named)
        yield f"<pre>{escape(str(media['example']))}</pre>" if "example" in media else ""
    yield "<table><tr><th>status<th>meaning</tr>"
    for status, answer in operation["responses"].items():
        yield f"<tr><td>{escape(status)}<td>{_text(answer['description'])}</tr>"
    yield "</table>"
    for status, answer in operation["responses"].items():
        for kind, media in answer.get("content", {}).items() if status < "300" else ():
            yield f"<p>Answer {escape(status)}, <code>{escape(kind)}</code>:</p>"
            yield from _table(media, named)


def _table(media: Schema, named: Mapping[str, Schema]) -> Iterator[str]:
    """Yield the fields of a body as a table; nothing if its schema names none."""
    rows = list(fields_of(media.get("schema", {}), named))
    if rows:
        yield "<table><tr><th>field<th>takes<th>meaning</tr>"
        yield from (
            f"<tr><td><code>{escape(path)}</code><td>{escape(takes)}<td>{_text(meaning)}</tr>"
            for path, takes, meaning in rows
        )
        yield "</table>"


def fields_of(
    schema: Schema, named: Mapping[str, Schema], path: str = "", within: tuple[str, ...] = ()
) -> Iterator[tuple[str, str, str]]:
    """Yield (path, takes, meaning) of a schema's fields, and of those in them.

    `within`: the named schemas that it is in, which are not shown again.
    """
    name = schema.get("$ref", "").rpartition("/")[2]
    if name in within:
        return
    schema, within = named.get(name, schema), (*within, name) if name else within
    for branch in schema.get("anyOf", ()):
        yield from fields_of(branch, named, path, within)
    if "items" in schema:
        yield from fields_of(schema["items"], named, f"{path}[]", within)
    for field, value in schema.get("properties", {}).items():
        at = f"{path}.{field}".lstrip(".")
        required = "" if field in schema.get("required", ()) or "default" in value else ", may be left out"
        yield at, _takes(value) + required, value.get("description", "")
        yield from fields_of(value, named, at, within)


def _takes(schema: Schema) -> str:
    """Return the values that a JSON schema allows, in words."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_takes, schema["anyOf"])))
    if "$ref" in schema:
        return "object"
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    text = str(schema.get("type", "any")) + (f" of {_takes(schema['items'])}" if "items" in schema else "")
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None:
        text += f" ≥ {low:,.9g}" if high is None else f", {low:,.9g} to {high:,.9g}"
    return text + (f", by default {schema['default']}" if schema.get("default") not in (None, "") else "")


def _text(text: str) -> str:
    """Return text as HTML, with <code> for text between backticks."""
    parts = escape(text, quote=False).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))
