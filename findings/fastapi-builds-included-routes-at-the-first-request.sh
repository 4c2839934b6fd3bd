#!/bin/sh
# FastAPI 0.165: `include_router` keeps a router's routes as they are, and builds each again (dependants, models of its
# parameters) for the app when a request first looks at it. So the first request to an application computes for all its
# routes, in the event loop, while all others wait; a test suite that makes an app a test pays it each time. Routes that are handed over (`app.router.routes.extend`)
# were built once, when they were declared.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet fastapi==0.165.0 starlette==1.10.0 pydantic==2.13.5
cat >program.py <<'PROGRAM'
import asyncio

import fastapi.routing
from fastapi import APIRouter, FastAPI

ROUTES = 300
built = 0
build = fastapi.routing.get_dependant


def counting(*args, **more):
    global built
    built += 1
    return build(*args, **more)


fastapi.routing.get_dependant = counting
router = APIRouter()
for number in range(ROUTES):

    @router.get("/%d/{name}" % number)
    async def route(name: str, limit: int = 50, after: str = "") -> dict:
        return {}


async def first_request(app):
    """The number of dependants that the first request builds."""
    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        pass

    scope = {"type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "path": "/none", "root_path": ""}
    scope |= {"raw_path": b"/none", "query_string": b"", "headers": [], "client": None, "server": ("x", 80)}
    before = built
    await app({**scope, "asgi": {"version": "3.0"}}, receive, send)
    first, before = built - before, built
    await app({**scope, "asgi": {"version": "3.0"}}, receive, send)
    return first, built - before


print("declaring", ROUTES, "routes builds", built)
assert built == ROUTES, built
included, handed_over = FastAPI(openapi_url=None, docs_url=None, redoc_url=None), FastAPI(openapi_url=None)
before = built
included.include_router(router)
print("fastapi 0.165.0: include_router builds", built - before)
assert built == before
handed_over.router.routes.extend(router.routes)
first = asyncio.run(first_request(included))
print("the first and the second request to the app that includes them build", first)
assert first == (ROUTES, 0), first
other = asyncio.run(first_request(handed_over))
print("and to the app that was handed them", other)
assert other == (0, 0), other
PROGRAM
venv/bin/python program.py
