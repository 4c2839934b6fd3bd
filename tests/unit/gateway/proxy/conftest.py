from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pipeline.settings import Settings
from tests.support.gateways import Running, running
from tests.support.spools import away

Proxied = Callable[..., AbstractAsyncContextManager[Running]]


@pytest.fixture
def proxied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proxied:
    """A gateway before an upstream; its broker is away, so that what it publishes is in its spool."""
    monkeypatch.setattr("turnmill.publish.publisher.KEEP_AFTER", 0.2)

    @asynccontextmanager
    async def start(url: str, **changes: Any) -> AsyncIterator[Running]:
        settings = Settings(**{**away(tmp_path).model_dump(), "gateway_port": 0, "gateway_rate": 0.0})
        more = {"gateway_proxy": f"openai={url},anthropic={url},google={url}", **changes}
        async with running(settings.model_copy(update=more)) as one:
            yield one

    return start
