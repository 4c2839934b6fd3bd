import gc
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from pydantic import SecretStr

from pipeline.settings import Settings
from tests.support.gateways import Running, Tokens, client, running
from tests.support.loop_time import longest_callback

HELD_SECONDS = 0.5  # of processor time, for which no callback may keep all others waiting


@pytest.fixture(autouse=True)
def loop_held() -> Iterator[None]:
    """Fail a test in which the event loop was held: while one request computes, nobody else is answered.

    Without collections of garbage: of all that earlier tests have left, one takes longer than a gateway's.
    """
    gc.disable()
    try:
        with longest_callback(of_tests=False) as longest:
            yield
    finally:
        gc.enable()
    assert longest.seconds < HELD_SECONDS, f"the event loop was held for {longest.seconds:.1f} s by {longest.callback}"


@pytest.fixture
def gateway_settings(applied_settings: Settings) -> Settings:
    """Topics are there, nothing else runs; the port is a free one."""
    return applied_settings.model_copy(update={"gateway_port": 0, "gateway_rate": 0.0, "webhooks": SecretStr("[]")})


@pytest.fixture
async def gateway(gateway_settings: Settings) -> AsyncIterator[Running]:
    """On loopback, without tokens."""
    async with running(gateway_settings) as one:
        yield one


@pytest.fixture
async def http(gateway: Running) -> AsyncIterator[httpx.AsyncClient]:
    async with client(gateway.url) as one:
        yield one


@pytest.fixture
def tokens() -> Tokens:
    return Tokens()


@pytest.fixture
async def guarded(gateway_settings: Settings, tokens: Tokens) -> AsyncIterator[Running]:
    """With tokens."""
    settings = gateway_settings.model_copy(update={"gateway_tokens": SecretStr(tokens.setting)})
    async with running(settings) as one:
        yield one
