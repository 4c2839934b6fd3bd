"""Attacks on the gateway's proxy: to reach what is not listed, to smuggle a request, and to find the keys that pass."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tests.attack.attack import Attack
from tests.attack.stage import Stage
from tests.support.gateways import client
from tests.support.topic_records import read_all
from tests.support.upstream import Answering, Asked, playing
from topics.catalog import EVENTS

BASE: Final = "/base"
KEYS: Final = (
    "sk-in-authorization-0123456789",
    "key-in-header-0123456789",
    "key-in-query-0123456789",
    "cookie-0123456789",
)
ANSWER_WITHIN: Final = 10.0  # seconds


async def plain(_: Asked, answer: Answering) -> None:
    await answer.whole({"ok": True})


async def raw(url: str, request: bytes) -> bytes:
    """What comes back for these bytes."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    found = b""
    with suppress(ConnectionError, TimeoutError):
        writer.write(request)
        async with asyncio.timeout(ANSWER_WITHIN):
            while data := await reader.read(65_536):
                found += data
                if found.count(b"HTTP/1.1 ") and found.endswith(b"}"):
                    break
    writer.close()
    return found


async def elsewhere(stage: Stage) -> None:
    """Paths, hosts and names that may mean another server, or what is above the upstream's address."""
    async with playing(plain) as hidden, playing(plain) as upstream:
        there = hidden.url.removeprefix("http://")
        async with stage.another_gateway(gateway_proxy=f"up={upstream.url}{BASE}") as url:
            own = urlsplit(url).netloc
            targets = [
                f"http://{there}/x",
                f"//{there}/x",
                f"/proxy/{there}/x",
                f"/proxy/http://{there}/x",
                f"/proxy/up@{there}/x",
                f"/proxy/up/@{there}/x",
                f"/proxy/up//{there}/x",
                f"/proxy/up/..//{there}/x",
                *(
                    f"/proxy/up/{dots}/x"
                    for dots in ("..", "%2e%2e", ".%2e", "%252e%252e", "..%2f..", "..;", "..%5c..")
                ),
                f"/proxy/up\\@{there}/x",
                f"/proxy/up/x?next=http://{there}/x",
                f"/proxy/up%2f..%2f{there}/x",
                f"/proxy/t/{there}/up/../x",
            ]
            for target in targets:
                for host in (own, there):
                    await raw(url, f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            lines = [asked.line.split()[1] for asked in upstream.asked]
            above = [line for line in lines if not line.startswith(f"{BASE}/") or ".." in line]
            assert not above, f"the upstream was asked for what is above its address: {above}"
            assert hidden.asked == [], f"another server was asked: {hidden.asked[0].line}"
            assert lines, "what is harmless passes"


async def smuggled(stage: Stage) -> None:
    """Requests whose body may be read as another request, where two servers disagree about its length."""
    second = b"GET /base/smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(second), second)
    framings = [
        (b"Content-Length: %d\r\nTransfer-Encoding: chunked" % len(chunked), chunked),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 4", chunked),
        (b"Content-Length: 0\r\nContent-Length: %d" % len(second), second),
        (b"Content-Length: %d, %d" % (len(second), len(second)), second),
        (b"Transfer-Encoding: xchunked\r\nContent-Length: %d" % len(second), second),
        (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", chunked),
        (b"Transfer-Encoding:\x0bchunked\r\nContent-Length: %d" % len(second), second),
        (b"Transfer-Encoding : chunked\r\nContent-Length: %d" % len(second), second),
        (b"Connection: close, Content-Length\r\nContent-Length: %d" % len(second), second),
        (b"X: y\r\n Content-Length: 0\r\nContent-Length: %d" % len(second), second),
        (b"Content-Length: +%d" % len(second), second),
    ]
    async with playing(plain) as upstream, stage.another_gateway(gateway_proxy=f"up={upstream.url}{BASE}") as url:
        for path in (b"/proxy/up/v1/files", b"/proxy/up/v1/chat/completions"):
            for head, body in framings:
                own = urlsplit(url).netloc.encode()
                await raw(url, b"POST %s HTTP/1.1\r\nHost: %s\r\n%s\r\n\r\n%s" % (path, own, head, body))
        lines = [asked.line for asked in upstream.asked]
        assert lines, "what is well-formed passes"
        assert not [line for line in lines if "smuggled" in line], f"a request was smuggled: {lines}"


async def keys(stage: Stage) -> None:
    """Keys that pass: a provider that repeats them in what it refuses, and one that hangs up."""

    async def repeats(asked: Asked, answer: Answering) -> None:
        if "hang" in asked.head.decode():
            answer.reset()
        else:
            await answer.whole({"error": {"message": f"not valid: {' '.join(KEYS[:3])}"}}, 401)

    async with (
        playing(repeats) as upstream,
        stage.another_gateway(gateway_proxy=f"up={upstream.url}", log_level="DEBUG") as url,
        client(url) as http,
    ):
        headers = {"Authorization": f"Bearer {KEYS[0]}", "x-api-key": KEYS[1], "Cookie": f"a={KEYS[3]}"}
        ask = {"model": "m", "messages": [{"role": "user", "content": "Hello of the keys"}]}
        for more in ("", "&hang=1"):
            answer = await http.post(f"/proxy/up/v1/chat/completions?key={KEYS[2]}{more}", json=ask, headers=headers)
            assert answer.status_code in (401, 502)
        assert "cookie" not in upstream.asked[0].headers

        async def published() -> bool:
            found: list[Any] = await read_all(stage.settings, EVENTS)
            return sum(b"Hello of the keys" in record.value for record in found) >= 1

        await stage.within_progress(published, lambda: "the calls are not published")
        records: list[Any] = await read_all(stage.settings, EVENTS)
        homes = [path for path in Path(stage.settings.home).rglob("*") if path.is_file() and path.suffix != ".jsonl"]
        places = {"a topic": b"".join(record.value + json.dumps(str(record.headers)).encode() for record in records)}
        places |= {str(path): path.read_bytes() for path in homes}
        found = [(place, key) for place, held in places.items() for key in KEYS if key.encode() in held]
        assert not found, f"keys were kept: {found}"


ATTACKS: Final = (
    Attack(
        "another upstream", "paths and hosts that mean other servers", "reach what is not listed", elsewhere, short=True
    ),
    Attack("smuggling", "bodies that are another request for a server behind", "be read as two", smuggled),
    Attack(
        "passing keys",
        "a provider that repeats the keys that it was sent",
        "have them kept or logged",
        keys,
        short=True,
    ),
)
