"""Which library calls a gateway, and why none answers."""

import asyncio
import sys

import httpx
import httpx2
import pytest

from turnmill.errors import BrokerError, CallerError
from turnmill.gateway_call import call, library
from turnmill.settings import ClientSettings


def test_httpx2_is_used_where_httpx_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert library() is httpx
    monkeypatch.setitem(sys.modules, "httpx", None)
    assert library() is httpx2
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(CallerError, match="TURNMILL_PUBLISH_URL needs httpx"):
        library()


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("127.0.0.1:1", "nothing listens there"),
        ("no-such-gateway.invalid:8080", "no address is known for no-such-gateway"),
    ],
)
def test_it_is_said_why_a_gateway_does_not_answer(address: str, why: str) -> None:
    settings = ClientSettings(publish_url=f"http://{address}")
    with pytest.raises(BrokerError, match=f"http://{address} does not answer: {why}"):
        asyncio.run(call(settings, "GET", "/v1/status"))
