"""Calls a model over a library until it is stopped, and says how that ended: ADDRESS LIBRARY NAME stream|whole."""

import asyncio
import json
import sys
from typing import Any

import turnmill.auto  # noqa: F401


def sync_httpx(url: str, request: dict[str, Any]) -> Any:
    import httpx

    with httpx.Client(timeout=60) as client, client.stream("POST", url, **request) as answer:
        for _ in answer.iter_bytes():
            pass
        return answer.status_code


async def async_httpx(url: str, request: dict[str, Any]) -> Any:
    import httpx

    async with httpx.AsyncClient(timeout=60) as client, client.stream("POST", url, **request) as answer:
        async for _ in answer.aiter_bytes():
            pass
        return answer.status_code


async def aiohttp(url: str, request: dict[str, Any]) -> Any:
    import aiohttp

    async with aiohttp.ClientSession() as session, session.post(url, **request) as answer:
        async for _ in answer.content.iter_any():
            pass
        return answer.status


def requests(url: str, request: dict[str, Any]) -> Any:
    import requests

    with requests.post(url, **request, stream=True, timeout=60) as answer:
        for _ in answer.iter_content(None):
            pass
        return answer.status_code


CALLS = {"httpx": sync_httpx, "httpx-async": async_httpx, "aiohttp": aiohttp, "requests": requests}


def chain(error: BaseException | None) -> list[str]:
    return [] if error is None else [type(error).__name__, *chain(error.__cause__ or error.__context__)]


def main() -> None:
    address, library, name, how = sys.argv[1:]
    headers = {"Turnmill-Thread": name, "Turnmill-Run": name}
    body = {"model": "m", "stream": how == "stream", "messages": [{"role": "user", "content": "hi"}]}
    try:
        ended = CALLS[library](f"{address}/{name}/v1/chat/completions", {"json": body, "headers": headers})
        if asyncio.iscoroutine(ended):
            ended = asyncio.run(ended)
        sys.stdout.write(json.dumps({"status": ended}))
    except Exception as error:
        sys.stdout.write(json.dumps({"raised": chain(error)}))


main()
