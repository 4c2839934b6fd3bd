"""Speaks to a model over each library of HTTP, and prints what it saw, as JSON: the same, whoever listens.

python speaking_program.py ADDRESS LIBRARY,… [client]
"""

import asyncio
import json
import sys
from importlib import import_module
from typing import Any

import turnmill

QUESTION = {"model": "m", "messages": [{"role": "user", "content": "Weather?"}]}
CASES = ("plain", "encoded", "refused", "stalled", "reset", "cut", "early", "unread")
HEADERS = {"authorization": "Bearer sk-very-secret-1234"}

Seen = dict[str, Any]


def body(library: str, case: str, *, stream: bool) -> Seen:
    """Each program's own question, so that its run is found."""
    return {**QUESTION, "stream": stream, "user": f"{library} {case} {stream}"}


def patience(case: str) -> float:
    """Seconds: a short time where the server stalls, and nowhere else too short for a busy machine."""
    return 0.5 if case == "stalled" else 60.0


def with_httpx(module: Any, url: str, asked: Seen, case: str, make: Any) -> Seen:
    with make(timeout=patience(case)) as client, client.stream("POST", url, json=asked, headers=HEADERS) as response:
        seen = {"status": response.status_code, "headers": sorted(response.headers)}
        if case == "unread":
            return seen
        pieces = response.iter_raw() if case != "encoded" else response.iter_bytes()
        if case == "early":
            return {**seen, "first": next(pieces)[:20].decode()}
        return {**seen, "body": b"".join(pieces).decode()}


async def with_httpx_async(module: Any, url: str, asked: Seen, case: str, make: Any) -> Seen:
    async with (
        make(timeout=patience(case)) as client,
        client.stream("POST", url, json=asked, headers=HEADERS) as response,
    ):
        seen = {"status": response.status_code, "headers": sorted(response.headers)}
        if case == "unread":
            return seen
        if case == "early":
            async for piece in response.aiter_bytes():
                return {**seen, "first": piece[:20].decode()}
        return {**seen, "body": (await response.aread()).decode()}


async def with_aiohttp(module: Any, url: str, asked: Seen, case: str) -> Seen:
    timeout = module.ClientTimeout(**{"sock_read" if asked["stream"] else "total": patience(case)})
    async with (
        module.ClientSession(timeout=timeout) as session,
        session.post(url, json=asked, headers=HEADERS) as response,
    ):
        seen = {"status": response.status, "headers": sorted(response.headers)}
        if case == "unread":
            return seen
        if case == "early":
            return {**seen, "first": (await response.content.readany())[:20].decode()}
        if asked["stream"]:
            return {**seen, "body": "".join([line.decode() async for line in response.content])}
        return {**seen, "body": await response.json()}


def with_requests(module: Any, url: str, asked: Seen, case: str) -> Seen:
    stream = asked["stream"] or case in ("early", "unread")
    with module.post(url, json=asked, headers=HEADERS, timeout=patience(case), stream=stream) as response:
        seen = {"status": response.status_code, "headers": sorted(response.headers)}
        if case == "unread":
            return seen
        if case == "early":
            return {**seen, "first": next(response.iter_content(20)).decode()}
        if case == "plain" and stream:
            return {**seen, "body": [line.decode() for line in response.iter_lines()]}
        return {**seen, "body": response.text}


def speak(address: str, library: str, *, ours: bool) -> Seen:
    name = library.removesuffix("-async")
    module: Any = import_module(name)
    seen: Seen = {}
    for case in CASES:
        for stream in (True, False):
            played = case if case not in ("early", "unread") else "plain"
            url = f"{address}/{played}/{library}-{stream}/v1/chat/completions?key=AIza-very-secret"
            asked = body(library, case, stream=stream)
            try:
                if name == "requests":
                    found = with_requests(module, url, asked, case)
                elif name == "aiohttp":
                    found = asyncio.run(with_aiohttp(module, url, asked, case))
                else:
                    make = module.AsyncClient if library.endswith("async") else module.Client
                    if ours:
                        make = turnmill.async_client if library.endswith("async") else turnmill.client
                    if library.endswith("async"):
                        found = asyncio.run(with_httpx_async(module, url, asked, case, make))
                    else:
                        found = with_httpx(module, url, asked, case, make)
            except Exception as error:
                found = {"error": type(error).__name__}
            seen[f"{library} {case} {stream}"] = found
    return seen


if __name__ == "__main__":
    told: Seen = {}
    for one in sys.argv[2].split(","):
        told |= speak(sys.argv[1], one, ours=sys.argv[3:] == ["client"])
    print(json.dumps(told))  # noqa: T201  # its result
