"""`turnmill import`: conversations that an application kept in its SDK's own messages -> threads."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from pipeline.assembly.dialect import Reader
from pipeline.cli.files.documents import each_value
from pipeline.cli.histories.session_files import SOURCES
from pipeline.dialects import FORMATS
from pipeline.dialects.history import Origin, thread
from pipeline.extras import need
from pipeline.settings import load
from topics import json_text
from turnmill.clock import now_ms
from turnmill.errors import CallerError, InvalidRecord
from turnmill.identity import thread_uuid
from turnmill.publish.publisher import Publisher

Document = dict[str, Any]
READERS: Final[dict[str, Reader]] = {form.name: form.reader for form in FORMATS.values() if form.reader is not None}


@click.command("import", short_help="Read histories of an SDK, or sessions of coding agents.")
@click.option("--from", "form", required=True, type=click.Choice([*SOURCES, *READERS]), help="Whose messages they are.")
@click.option("--thread", "thread_id", help="Id of the conversation, for a single one.")
@click.option("--agent", "agent_id", default="agent", show_default=True, help="Id of the agent that spoke.")
@click.option("--tenant", help="Tenant of the threads, with --publish.")
@click.option("--publish", is_flag=True, help="Send the threads to the events topic, instead of printing them.")
@click.option("--print", "printed", is_flag=True, help="Print the sessions' threads, instead of publishing them.")
@click.option("--follow", is_flag=True, help="Go on with what the sessions add, until Ctrl-C.")
@click.option("--elsewhere", is_flag=True, help="Publish sessions to brokers on another machine.")
@click.argument("files", nargs=-1, metavar="[PATH]...")
def import_(
    form: str,
    thread_id: str | None,
    agent_id: str,
    tenant: str | None,
    files: Sequence[str],
    *,
    publish: bool,
    printed: bool,
    follow: bool,
    elsewhere: bool,
) -> None:
    """Read histories of an SDK as threads; prints one ThreadProtocol document a line.

    Each PATH holds one history, or one on each line: a JSON list of messages, or an object with `messages` and perhaps
    the conversation's `thread_id` or `id`. Without an id, the file's name is the conversation's; importing a history
    again, grown or not, gives the same turns.

    `--from claude-code`, `codex`, `gemini-cli`, `copilot-cli` and `opencode` read the sessions that these programs
    keep on this disk: all of them, or those below each PATH. They publish what isn't stored yet, and nothing leaves
    this machine. Importing again adds what is new.
    """
    if form in SOURCES:
        if thread_id is not None or publish:
            raise CallerError(
                f"sessions of {SOURCES[form].title} are published, under their own ids: leave out that option"
            )
        need("worker", f"`turnmill import --from {form}`")
        from pipeline.cli.histories.sessions import Wanted, destination_of, import_sessions  # noqa: PLC0415  # the store

        wanted = Wanted(SOURCES[form], tuple(map(Path, files)), tenant, printed=printed, follow=follow)
        import_sessions(destination_of(load()), wanted, elsewhere=elsewhere)
        return
    if not files:
        raise click.UsageError("Missing argument 'PATH...'.")
    if printed or follow or elsewhere:
        raise CallerError(f"--print, --follow and --elsewhere are of --from {', '.join(SOURCES)}")
    histories = [(source, *_history(source, value)) for source, value in each_value(files)]
    if thread_id is not None and len(histories) > 1:
        raise CallerError(f"--thread names one conversation, and these files hold {len(histories)}: leave it out")
    threads = [
        (name, _document(form, source, messages, name, agent_id))
        for source, messages, id_in_file in histories
        for name in [thread_id or id_in_file or source]
    ]
    if publish:
        sent = asyncio.run(_publish(threads, agent_id, tenant))
        click.echo(f"published {sent} turns of {len(threads)} threads")
        return
    for _, document in threads:
        click.echo(json_text.dumps(document))


def _history(source: str, value: Any) -> tuple[Any, str | None]:
    """Return (messages, the conversation's id where the file holds it). Raises CallerError for another shape."""
    if not isinstance(value, dict):
        return value, None
    if "messages" not in value:
        raise CallerError(f"{source}: a list of messages is expected, or an object with `messages`")
    named = value.get("thread_id") or value.get("id")
    return value["messages"], named if isinstance(named, str) else None


def _document(form: str, source: str, messages: Any, name: str, agent_id: str) -> Document:
    uuid, external_id = thread_uuid(name)
    origin = Origin(uuid, agent_id, now_ms(), external_id=external_id)
    try:
        return thread(READERS[form], messages, origin)
    except InvalidRecord as error:
        raise CallerError(f"{source}: no history of {form}: {error.detail}") from None


async def _publish(threads: Sequence[tuple[str, Document]], agent_id: str, tenant: str | None) -> int:
    """Publish each turn as a run, so that a grown history adds only its new turns. Return the number of turns."""
    sent = 0
    async with Publisher(load(), spool=False) as publisher:
        for name, document in threads:
            for number, turn in enumerate(document["turns"]):
                names: dict[str, Any] = {"thread_id": name, "agent_id": agent_id, "dialect": "thread-protocol"}
                run_id = f"{turn['meta:run_id']}/{turn['turn_type']}"
                async with publisher.run(**names, run_id=run_id, tenant=tenant) as run:
                    if number == 0:
                        for agent in document["agents"].values():
                            await run.send({"type": "agent-config", "agent": agent})
                    await run.send({"type": f"{turn['turn_type']}-turn", "turn": turn})
                sent += 1
    return sent
