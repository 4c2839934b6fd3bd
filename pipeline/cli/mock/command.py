"""`turnmill mock`: its options and output."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import click

from pipeline.cli.files.publish import Speed
from pipeline.cli.mock.calls import Call, frozen, thawed
from pipeline.cli.mock.matching import Tape
from pipeline.cli.mock.serving import Mock
from pipeline.cli.output import many
from pipeline.settings import load
from pipeline.turns.redaction import Redaction
from pipeline.worker.assemble.limits import redaction_of
from turnmill.errors import CallerError

PORT = 8765


@click.command(short_help="Serve a stored run as the provider that answered it.")
@click.argument("threads", metavar="THREAD...|FILE", nargs=-1, required=True)
@click.option("--port", default=PORT, show_default=True, type=click.IntRange(0, 65_535), help="0: any free one.")
@click.option("--speed", type=Speed(), default="1", show_default=True, help="Factor on the recorded pace of streams.")
@click.option("--strict", is_flag=True, help="Also refuse requests whose parameters differ.")
@click.option("--freeze", type=click.Path(path_type=Path, dir_okay=False), help="Write a fixture, and serve nothing.")
@click.option("--tenant", help="The threads' tenant; '': none.")
def mock(
    threads: Sequence[str], port: int, speed: float | None, freeze: Path | None, tenant: str | None, *, strict: bool
) -> None:
    """Answer requests to models, on this machine, with the answers of stored runs; no key is needed.

    \b
        turnmill mock chat-42
        OPENAI_BASE_URL=http://127.0.0.1:8765/v1 python my_agent.py

    A request that no run made gets an error that says what differs. `--freeze FILE` writes the calls to a file, which
    `turnmill mock FILE` serves without a broker and a store.
    """  # noqa: D301  # click's mark of a block that is not wrapped
    calls, redaction = load_calls(threads, tenant)
    if freeze is not None:
        freeze.write_text(frozen(calls), "utf-8")
        click.echo(f"{many(len(calls), 'call')} -> {freeze}")
        return
    tape = Tape(calls, strict, redaction)
    try:
        asyncio.run(_serve(tape, speed, port))
    except KeyboardInterrupt:
        for call in tape.unused:
            click.echo(f"not made: a call of {call.dialect}, run {call.run}")


def load_calls(names: Sequence[str], tenant: str | None = None) -> tuple[list[Call], Redaction | None]:
    """Return the calls of a fixture, or of stored threads, and the redaction of the settings.

    Raises CallerError, StoreError.
    """
    settings = load()
    redaction = redaction_of(settings)
    if len(names) == 1 and Path(names[0]).is_file():
        return thawed(Path(names[0]).read_text("utf-8"), names[0]), redaction
    from pipeline.cli.mock.reading import calls_in  # noqa: PLC0415  # a fixture needs neither a store nor a broker
    from pipeline.stores.content.store import ContentStore  # noqa: PLC0415  # as above

    calls, why = asyncio.run(
        calls_in(settings, settings.store_url, ContentStore.of(settings), names, tenant, redaction)
    )
    rebuilt = sum(not call.stream.recorded and not call.whole.recorded for call in calls)
    if rebuilt:
        detail = f": {why}" if why else ", as its events are not on the topic, or say more than what is stored"
        click.echo(f"turnmill: {many(rebuilt, 'answer')} of {len(calls)} rebuilt from the store{detail}", err=True)
    return calls, redaction


async def _serve(tape: Tape, speed: float | None, port: int) -> None:
    try:
        async with Mock(tape, speed, click.echo).serving(port) as url:
            click.echo(f"{many(len(tape.calls), 'call')} at {url}")
            click.echo(f"OPENAI_BASE_URL={url}/v1 ANTHROPIC_BASE_URL={url} GOOGLE_GEMINI_BASE_URL={url}")
            await asyncio.Event().wait()
    except OSError as error:
        raise CallerError(f"port {port} can't be used: {error.strerror}; --port names another one") from None
