"""`turnmill convert` and `turnmill hash`: thread documents in files."""

from __future__ import annotations

from collections.abc import Sequence

import click

from pipeline.cli.files.json_files import each_object
from pipeline.dialects.shared_hash import CARRIERS, shared_hash
from pipeline.turns.canonical import turn_hash
from topics import json_text
from topics.thread import VERSION
from topics.thread_versions import OLD, downgrade, repeat_user_prompt, upgrade
from turnmill.errors import CallerError, InvalidRecord


@click.command("convert", short_help="Convert documents between versions of ThreadProtocol.")
@click.option("--to-version", "version", required=True, type=click.Choice([OLD, VERSION]), help="Version to write.")
@click.option("--repeat-user-prompt", "repeat", is_flag=True, help="Begin each agent turn with the user's prompt.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
def convert(version: str, files: Sequence[str], *, repeat: bool) -> None:
    """Convert thread documents between versions of ThreadProtocol; prints one JSON document a line.

    Each FILE has one document, or one on each line; `-` reads standard input. Version 0.0.3 has no interrupted turns,
    so they are left out. A repeated user prompt in the input is not doubled.
    """
    for place, document in each_object(files):
        try:
            converted = upgrade(document) if version == VERSION else downgrade(document)
            click.echo(json_text.dumps(repeat_user_prompt(converted) if repeat else converted))
        except InvalidRecord as error:
            raise CallerError(f"{place}: {error.detail}; `turnmill validate` says what is wrong") from None


@click.command("hash", short_help="Print the canonical hash of each turn of a document.")
@click.option(
    "--wire", "wires", multiple=True, type=click.Choice(sorted(CARRIERS)), help="Hash only what this wire carries."
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
def hash_(wires: Sequence[str], files: Sequence[str]) -> None:
    """Print the canonical hash of each turn of documents; with --wire, of the content that all these wires carry.

    One JSON object a line: {"source", "turn", "turn_type", "turn_id", "hash"}. A run that was recorded over two wires
    has the same hash in both recordings, if both wires are named.
    """
    for place, document in each_object(files):
        turns = document.get("turns")
        if not isinstance(turns, list):
            raise CallerError(f"{place}: no thread document: `turns` is missing")
        for number, turn in enumerate(turns):
            try:
                digest = shared_hash(turn, *wires) if wires else turn_hash(turn)
            except (AttributeError, KeyError, TypeError) as error:
                why = "`turnmill validate` says what is wrong"
                raise CallerError(f"{place}: turns[{number}] can't be hashed; {why} ({error!r:.80})") from None
            about = {"turn_type": turn.get("turn_type"), "turn_id": turn.get("meta:turn_id"), "hash": digest}
            click.echo(json_text.dumps({"source": place, "turn": number, **about}))
