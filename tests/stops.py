"""How long a model goes on after its run was told to stop: `python -m tests.stops [--stops N]`.

A provider on this machine says a token every 10 ms, and notes when. For each way, N runs are stopped over HTTP, one by
one. Measured are the time from the request to stop until the newest token that the provider sent, and these tokens.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Any, Final

import click
import httpx

import turnmill
from pipeline.kafka.admin import apply_topics
from pipeline.settings import Settings
from tests.support.gateways import Running, client, running
from tests.support.places import CACHE
from tests.support.servers import kafka
from tests.support.talking_provider import Provider, Talk
from tests.support.waiting import until
from turnmill import ClientSettings, RunStopped
from turnmill.capture import runtime

CHAT: Final = "/v1/chat/completions"
TOKENS: Final = 5  # that are there before the stop
TARGETS: Final = {"kafka": 150, "gateway": 250, "proxy": 250}  # ms at p99

Stage = tuple[Running, Provider]


@asynccontextmanager
async def way_of(name: str, stage: Stage) -> AsyncIterator[Callable[[str], Awaitable[None]]]:
    """Return a function that speaks to the model until it is stopped."""
    gateway, provider = stage
    of, home = gateway.settings, gateway.settings.home / name
    if name == "proxy":
        async with httpx.AsyncClient(timeout=None) as plain:  # an unchanged program

            async def by_proxy(run: str) -> None:
                await _speak(plain, f"{gateway.url}/proxy/talk/{run}{CHAT}", run)

            yield by_proxy
        return
    where = (
        {"brokers": of.brokers, "topic_prefix": of.topic_prefix} if name == "kafka" else {"publish_url": gateway.url}
    )
    settings: dict[str, Any] = {**where, "home": home, "control": True, "capture_hosts": "127.0.0.1=talk"}
    runtime.restart(ClientSettings(**settings))
    async with turnmill.async_client(library="httpx", timeout=None) as captured:

        async def by_capture(run: str) -> None:
            await _speak(captured, f"{provider.url}/{run}{CHAT}", run)

        yield by_capture
    await asyncio.to_thread(runtime.restart)


async def _speak(http: Any, url: str, run: str) -> None:
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": run}]}
    headers = {"Turnmill-Thread": run, "Turnmill-Run": run}
    with suppress(RunStopped):
        async with http.stream("POST", url, json=body, headers=headers) as answer:
            async for _ in answer.aiter_bytes():
                pass


async def measured(name: str, stage: Stage, stops: int) -> list[tuple[float, int]]:
    """Stop runs of one way -> for each, seconds to its newest token, and tokens behind the stop."""
    gateway, provider = stage
    found = []
    async with way_of(name, stage) as speak, client(gateway.url) as http:
        for number in range(stops + 1):
            run = f"{name}-{number}"
            speaking = asyncio.create_task(speak(run))

            async def speaks(run: str = run) -> bool:
                return run in provider.talks and len(provider.talks[run][0].sent) >= TOKENS

            await until(speaks)
            talk: Talk = provider.talks[run][0]
            at = time.monotonic()
            (await http.post(f"/v1/threads/{run}/runs/{run}/stop")).raise_for_status()
            await speaking

            async def is_over(talk: Talk = talk) -> bool:
                return talk.closed is not None

            await until(is_over)
            if number:  # the first one waits for what connects
                found.append((max(0.0, talk.sent[-1] - at), talk.after(at)))
    return found


async def play(settings: Settings, stops: int) -> None:
    """Measure all ways, and print a row for each."""
    await apply_topics(settings)
    async with Provider().serving() as provider:
        given = {"gateway_port": 0, "control": True, "gateway_proxy": f"talk={provider.url}", "gateway_rate": 0.0}
        async with running(settings.model_copy(update=given)) as gateway:
            click.echo("| way | stops | p50 | p99 | most tokens after | target |\n|---|---|---|---|---|---|")
            for name, target in TARGETS.items():
                found = await measured(name, (gateway, provider), stops)
                cuts = quantiles([1000 * seconds for seconds, _ in found], n=100, method="inclusive")
                most = max(tokens for _, tokens in found)
                click.echo(f"| {name} | {stops} | {cuts[49]:.0f} ms | {cuts[98]:.0f} ms | {most} | {target} ms |")


@click.command()
@click.option("--stops", default=100, show_default=True, help="Stops for each way.")
def main(stops: int) -> None:
    """Measure how long a model goes on after its run was told to stop."""
    with TemporaryDirectory() as folder, kafka(Path(folder)) as cluster:
        settings = Settings(home=Path(folder), cache=CACHE, brokers=cluster.bootstrap, partitions=1)
        asyncio.run(play(settings, stops))


if __name__ == "__main__":
    main()
