"""How long a model goes on after its run was told to stop: `python -m tests.stops [--stops N] [--only SDK]`.

A provider on this machine says a token every 10 ms, and notes when. For each SDK, and each way in which its program is
heard, N runs are stopped over HTTP, one by one. Measured are the time from the request to stop until the newest token
that the provider sent, and these tokens. The SDKs are those of `make test-sdks`.
"""

import asyncio
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Final

import click

from pipeline.kafka.admin import apply_topics
from pipeline.settings import Settings
from tests.sdks.stopping import TRIED, Stage, program, stage
from tests.support.places import CACHE
from tests.support.servers import kafka
from tests.support.talking_provider import Talk
from tests.support.waiting import until

TARGETS: Final = {"kafka": 150, "gateway": 250, "proxy": 250, "run": 150}  # ms at p99


async def measured(on: Stage, sdk: str, way: str, stops: int) -> list[tuple[float, int]]:
    """Stop runs of one SDK -> for each, seconds to its newest token, and tokens behind the stop."""
    found = []
    async with program(on, sdk, way, on.settings.home / f"{sdk}-{way}") as one:
        for number in range(stops + 1):
            stop, _ = await one.stopped()
            (talk,) = on.provider.talks[stop.name]

            async def is_over(talk: Talk = talk) -> bool:
                return talk.closed is not None

            await until(is_over)
            if number:  # the first one waits for what connects
                found.append((max(0.0, talk.sent[-1] - stop.at), talk.after(stop.at)))
    return found


async def play(settings: Settings, stops: int, only: tuple[str, ...]) -> None:
    """Measure, and print a row for each SDK and way."""
    await apply_topics(settings)
    async with stage(settings) as on:
        click.echo("| SDK | heard by | stops | p50 | p99 | most tokens after | target |\n|---|---|---|---|---|---|---|")
        for sdk, way in TRIED:
            if only and sdk not in only:
                continue
            found = await measured(on, sdk, way, stops)
            cuts = quantiles([1000 * seconds for seconds, _ in found], n=100, method="inclusive")
            most, half, last = max(tokens for _, tokens in found), cuts[49], cuts[98]
            click.echo(f"| {sdk} | {way} | {stops} | {half:.0f} ms | {last:.0f} ms | {most} | {TARGETS[way]} ms |")


@click.command()
@click.option("--stops", default=20, show_default=True, help="Stops for each SDK and way, two at least.")
@click.option("--only", multiple=True, help="One of the SDKs; may be given several times.")
def main(stops: int, only: tuple[str, ...]) -> None:
    """Measure how long a model goes on after its run was told to stop."""
    with TemporaryDirectory() as folder, kafka(Path(folder)) as cluster:
        settings = Settings(home=Path(folder), cache=CACHE, brokers=cluster.bootstrap, partitions=1)
        asyncio.run(play(settings, stops, only))


if __name__ == "__main__":
    main()
