"""Live figures: who may look on, and of which threads."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from pipeline.gateway.dashboard import live_figures
from pipeline.gateway.live import erased as erased_threads
from pipeline.settings import Settings
from pipeline.stores.keeping.erasure import mark_erased
from tests.support.gateways import Tokens, client, messages, running, talk
from tests.support.waiting import PATIENCE
from topics.thread_key import ThreadKey
from turnmill.publish.publisher import Publisher


async def test_a_stream_ends_when_its_token_is_revoked(
    gateway_settings: Settings, tokens: Tokens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the review: a revoked token went on receiving the text of runs."""
    monkeypatch.setattr(live_figures, "RECHECK_INTERVAL", 0.1)
    file = tmp_path / "tokens.jsonl"
    file.write_text(tokens.setting)
    settings = gateway_settings.model_copy(update={"gateway_tokens": SecretStr(str(file))})
    async with running(settings) as gateway, client(gateway.url, tokens.acme) as http:
        async with http.stream("GET", "/v1/figures/live") as answer, asyncio.timeout(PATIENCE):
            count = 0
            async for _ in messages(answer):
                count += 1
                if count == 3:
                    file.write_text(Tokens().setting)
        assert count >= 3
        assert (await http.get("/v1/threads")).status_code == 401


async def test_runs_of_threads_that_were_deleted_are_left_out(
    gateway_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erased_threads, "ERASED_TTL", 0.1)
    async with Publisher(gateway_settings) as publisher:
        runs = [publisher.run(thread_id=name, agent_id="a", dialect="vercel-ai") for name in ("one", "two")]
        for run in runs:
            for event in talk(3)[:3]:
                await run.send(event)
        await publisher.flush()
        gone, stays = (run.thread_id for run in runs)
        async with running(gateway_settings) as gateway, client(gateway.url) as http:
            store = await gateway.app.state.gateway.store()
            async with http.stream("GET", "/v1/figures/live") as answer, asyncio.timeout(PATIENCE):
                shown: list[dict[str, Any]] = []
                async for message in messages(answer):
                    shown.append(json.loads(message.data))
                    threads = {run["thread_id"] for run in shown[-1]["runs"]}
                    if threads == {gone, stays}:
                        await mark_erased(store, ThreadKey(gone))
                    if any(len(one["runs"]) == 2 for one in shown) and threads == {stays}:
                        break
            assert (len(shown[-1]["runs"]), shown[-1]["open"]) == (1, 1)
        for run in runs:
            run.leave()
