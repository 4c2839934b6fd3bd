"""`turnmill assemble`: turns recorded streams into threads and messages, without a broker."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from pipeline.assembly.dialect import Dialect, Format
from pipeline.assembly.offline import assemble as assemble_run
from pipeline.cli.options import dialect_option
from pipeline.dialects import DIALECTS, FORMATS
from pipeline.dialects.recognition import AUTO, UnknownWire, recognise
from pipeline.turns.thread_document import thread_document
from pipeline.turns.times import epoch_ms
from topics import json_text
from turnmill.errors import CallerError, InvalidRecord
from turnmill.identity import thread_uuid
from turnmill.wire.envelope import ENDS, VERSION
from turnmill.wire.envelope import loads as load_json
from turnmill.wire.framing import decode

CONTEXT: Final = ".run.json"  # behind the name of a stream: the file of its context
RUN_INFO: Final = (
    *("agent_name", "model_name", "provider_name", "parent_run_id", "parent_thread_id"),
    *("continues", "replaces", "started_at", "request"),
)
# A file has no times of receipt. Without `started_at`, all events get this time (epoch ms).
NO_TIME: Final = 0


class UnknownDialect(CallerError):
    """A file does not tell its dialect; others may."""


@click.command(short_help="Assemble recorded streams, without a broker.")
@dialect_option
@click.option(
    "--to", "form", required=True, type=click.Choice(list(FORMATS)), help="Format of `messages`; thread: no messages."
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path, dir_okay=False))
def assemble(dialect: str, form: str, files: Sequence[Path]) -> None:
    """Assemble each FILE, the native stream of a run (SSE or JSON lines), without a broker.

    Prints one JSON object a line: {"source", "thread", "messages", "dead_letters": [{"reason", "detail"}]}, with
    "dialect" if it was recognised; nothing for a file whose dialect is unknown: then the exit status is 2.

    FILE.run.json may have the run's context: agent_id, agent_name, thread_id, run_id, model_name, provider_name,
    started_at, dialect, request (the body of the request to the server), end (complete, aborted, error, disconnected).
    """
    out = click.get_binary_stream("stdout")
    refused: list[UnknownDialect] = []
    for file in files:
        try:
            wire = find_dialect(file) if dialect == AUTO else DIALECTS[dialect]
        except UnknownDialect as error:
            refused.append(error)
            continue
        result = assemble_file(file, wire, FORMATS[form])
        if dialect == AUTO:
            result["dialect"] = wire.name
        out.write(json_text.line(result).encode() + b"\n")
    out.flush()
    for earlier in refused[:-1]:
        click.echo(f"turnmill: {earlier}", err=True)
    if refused:
        raise refused[-1]


def find_dialect(file: Path) -> Dialect:
    """Return the dialect that FILE.run.json names, or else the recognised dialect. Raises CallerError."""
    info = run_info(file)
    named = info.get("dialect")
    if named is not None:
        if not isinstance(named, str) or named not in DIALECTS:
            raise CallerError(f"{file}{CONTEXT}: no dialect is called {named!r:.80}")
        return DIALECTS[named]
    try:
        recognised = recognise(read_file(file), info.get("request"))
    except UnknownWire as error:
        raise UnknownDialect(f"{file}: {error}{error.hint}") from None
    if recognised is None:
        raise UnknownDialect(f"{file}: no event is in it; name its dialect with --dialect")
    return recognised


def assemble_file(file: Path, dialect: Dialect, form: Format) -> dict[str, Any]:
    """Return the object to print for one run's stream. Raises CallerError if the file can't be read."""
    items = decode(read_file(file), dialect.wire)
    envelope = envelope_of(file, dialect, [item.event for item in items if item.event is not None])
    records, refused = assemble_run(dialect, [envelope])
    document = thread_document(envelope["thread_id"], records)
    return {
        "source": str(file),
        "thread": document,
        "messages": [] if form.is_document else form.made(document),
        "dead_letters": [
            *({"reason": item.error.reason, "detail": item.error.detail} for item in items if item.error is not None),
            *({"reason": letter.reason, "detail": letter.detail} for letter in refused),
        ],
    }


def envelope_of(file: Path, dialect: Dialect, events: list[Any]) -> dict[str, Any]:
    """Return the envelope of a run whose events are in a file. Raises CallerError if FILE.run.json is malformed."""
    info = run_info(file)
    conversation = info.get("thread_id") or dialect.conversation_of(events)
    thread_id, external_id = thread_uuid(str(conversation or file.name))
    started = epoch_ms(info.get("started_at"))
    envelope: dict[str, Any] = {
        "v": VERSION,
        "thread_id": thread_id,
        "run_id": str(info.get("run_id") or file.name),
        "agent_id": str(info.get("agent_id") or info.get("agent_name") or "agent"),
        "seq": 0,
        "ts": NO_TIME if started is None else started,
        "dialect": dialect.name,
        "events": events,
        "run": {key: info[key] for key in RUN_INFO if info.get(key) is not None},
        "end": info.get("end"),
    }
    if external_id is not None and conversation:
        envelope["run"]["external_id"] = external_id
    return envelope


def read_file(file: Path) -> bytes:
    """Return the file's bytes. Raises CallerError if it can't be read."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise CallerError(f"can't read {file}: {error.strerror}; name files that hold one run's stream each") from None


def run_info(file: Path) -> dict[str, Any]:
    """Return the run's context from FILE.run.json; empty without that file. Raises CallerError if it is malformed."""
    sidecar = file.with_name(f"{file.name}{CONTEXT}")
    if not sidecar.exists():
        return {}
    try:
        info = load_json(read_file(sidecar))
    except InvalidRecord as error:
        raise CallerError(f"{sidecar}: {error.detail}; mend it, or take it away") from None
    if not isinstance(info, dict):
        raise CallerError(f"{sidecar}: a JSON object with the run's context is expected")
    if info.get("end") is not None and info["end"] not in ENDS:
        raise CallerError(f"{sidecar}: 'end' must be one of {', '.join(sorted(ENDS))}, got {info['end']!r:.80}")
    return info
