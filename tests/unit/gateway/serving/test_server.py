"""HTTP/1.1 as the gateway reads it: what is bounded, what is refused, and what other readers are lax about."""

import asyncio
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from pipeline.gateway.serving import server
from pipeline.gateway.serving.server import Protocol

HEADER_BYTES = 1_000
POST = b"POST /a HTTP/1.1\r\nHost: h\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
UPGRADE = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n"


class Wire(asyncio.Transport):
    """The other side of a connection: what was written to it, and whether it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def abort(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        """Do nothing: the test hands over each piece itself."""

    def resume_reading(self) -> None:
        """Do nothing: the test hands over each piece itself."""

    @property
    def statuses(self) -> list[int]:
        """The status of each answer."""
        lines = (line.rpartition("HTTP/1.1 ")[2] for line in self.written.decode().split("\r\n") if "HTTP/1.1 " in line)
        return [int(line[:3]) for line in lines]


async def told(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the request: method, path, and body; or at once, with 413, before the body of /refused."""
    body, more = b"", scope["path"] != "/refused"
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message["body"], message["more_body"]
    wish = dict(scope["headers"]).get(b"upgrade", b"").decode()
    answer = json.dumps([scope["method"], scope["path"] + wish, body.decode()]).encode()
    headers = [(b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 200 if more is False and body else 413, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


@pytest.fixture
def wire() -> Wire:
    return Wire()


async def connected(wire: Wire) -> Protocol:
    """Connect the wire to a server."""
    bounds = {"header_seconds": 5.0, "header_bytes": HEADER_BYTES, "most": 10}
    protocol: Protocol = type("Bounded", (Protocol,), bounds)(
        uvicorn.Config(told, ws="none", log_config=None), ServerState(), {}
    )
    protocol.connection_made(wire)
    return protocol


async def sent(protocol: Protocol, *pieces: bytes) -> None:
    """Send these pieces, and let the app answer."""
    for piece in pieces:
        if not protocol.transport.is_closing():
            protocol.data_received(piece)
            await settled(protocol)


async def settled(protocol: Protocol) -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def split(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    places = [*sorted({cut % len(data) for cut in cuts} | {0}), len(data)]
    return (data[first:behind] for first, behind in pairwise(places))


@given(cuts=st.lists(st.integers(0, 10_000)))
@pytest.mark.parametrize(
    ("request_bytes", "path"),
    [
        (CHUNKED, "/a"),
        (POST + b"Content-Length: 5\r\n\r\nabcde", "/a"),
        (POST + UPGRADE + b"Content-Length: 5\r\n\r\nabcde", "/ah2c"),
    ],
    ids=["chunked", "of a length", "with a wish for an upgrade"],
)
async def test_a_body_is_the_same_however_it_is_cut(request_bytes: bytes, path: str, cuts: list[int]) -> None:
    wire = Wire()
    protocol = await connected(wire)
    await sent(protocol, *split(request_bytes * 2, cuts))
    assert wire.written.decode().count(json.dumps(["POST", path, "abcde"])) == 2
    assert not wire.closed
    protocol.connection_lost(None)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /a HTTP/1.1\r\nHost: h\r\nX: " + b"x" * 2 * HEADER_BYTES,
        b"GET /a HTTP/1.1\r\nHost: h\r\n" + b"X: x\r\n" * HEADER_BYTES,
        b"GET /" + b"a" * 2 * HEADER_BYTES,
    ],
    ids=["a value", "many", "a path"],
)
async def test_a_head_without_end_is_refused(wire: Wire, head: bytes) -> None:
    protocol = await connected(wire)
    await sent(protocol, *split(head, [*range(0, len(head), 100)]))
    assert wire.statuses == [431]
    assert wire.closed


async def test_a_trailer_is_no_header(wire: Wire) -> None:
    protocol = await connected(wire)
    await sent(protocol, CHUNKED.removesuffix(b"\r\n") + b"Upgrade: late\r\n\r\n")
    assert json.dumps(["POST", "/a", "abcde"]) in wire.written.decode()
    protocol.connection_lost(None)


async def test_trailers_without_end_are_refused(wire: Wire) -> None:
    protocol = await connected(wire)
    await sent(protocol, CHUNKED.removesuffix(b"\r\n"), *[b"X: x\r\n"] * HEADER_BYTES)
    assert wire.statuses == [431]
    assert wire.closed


@pytest.mark.parametrize(
    "head",
    [
        b"GET /a HTTP/1.1\r\n\r\n",
        b"GET /a HTTP/1.1\r\nHost: h\r\nHost: other\r\n\r\n",
        b"CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
        POST + b"X : y\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: h\r\n\r\n",
        b"rubbish\r\n\r\n",
    ],
)
async def test_what_others_may_read_otherwise_is_refused(wire: Wire, head: bytes) -> None:
    await sent(await connected(wire), head)
    assert wire.statuses == [400]
    assert wire.closed


async def test_the_rest_of_a_refused_body_is_read_and_the_next_request_answered(wire: Wire) -> None:
    protocol = await connected(wire)
    await sent(protocol, b"POST /refused HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabc", b"def", CHUNKED)
    assert wire.statuses == [413, 200]
    assert not wire.closed
    protocol.connection_lost(None)


async def test_a_refused_body_that_does_not_end_closes_the_connection(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "DRAIN_TIMEOUT", 0.01)
    await sent(await connected(wire), b"POST /refused HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabc")
    while not wire.closed:
        await asyncio.sleep(0.01)
    assert wire.statuses == [413]
