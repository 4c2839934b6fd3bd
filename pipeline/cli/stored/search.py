"""`turnmill search`: searches the text of stored turns."""

from __future__ import annotations

import html
import json
import re
from dataclasses import asdict
from typing import Any, Final

import click
from rich.text import Text

from pipeline.cli.output import wide_console
from pipeline.cli.stored.selection import in_store
from pipeline.cli.stored.thread_view import plain, short_time
from pipeline.settings import load
from pipeline.stores.search.hits import MAX_HITS, ROLES, SearchQuery, find_turns
from pipeline.turns.spoken_text import KINDS, Kind
from pipeline.turns.times import epoch_ms
from turnmill.errors import CallerError

MARK: Final = re.compile("<mark>(.*?)</mark>")


@click.command(short_help="Search in conversations.")
@click.argument("q", metavar="QUERY")
@click.option("--tenant", help="Only turns of this tenant; '': without a tenant.")
@click.option("--agent", "agent_id", help="Only turns of this agent's runs.")
@click.option("--role", type=click.Choice(list(ROLES)), help="Only text of this role.")
@click.option("--since", help="Said at or after: 2026-01-20, 2026-01-20T10:00Z, or milliseconds since 1970.")
@click.option("--until", help="Said before this time.")
@click.option("--in", "kinds", type=click.Choice(KINDS), multiple=True, help="What is searched; may be repeated.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, MAX_HITS), help="Hits on a page.")
@click.option("--cursor", help="`next` of the previous page.")
@click.option("--json", "as_json", is_flag=True, help='Print {"results": […], "next": …}.')
def search(
    q: str, since: str | None, until: str | None, kinds: tuple[Kind, ...], *, as_json: bool, **more: Any
) -> None:
    """Search conversations: print the newest turns that contain the words, best match first.

    QUERY is `word "some words" begin* -without`: all must match; case and accents are ignored. Thoughts and results of
    tools are searched with --in, if TURNMILL_SEARCH is `all`.
    """
    if load().search == "off":
        raise CallerError("TURNMILL_SEARCH is off: nothing is kept to search in")
    within = _moment("--since", since), _moment("--until", until)
    query = SearchQuery(q, kinds or KINDS[:1], since=within[0], until=within[1], **more)
    page = in_store(lambda store: find_turns(store, query))
    if as_json:
        click.echo(json.dumps(asdict(page)))
        return
    console = wide_console()
    for hit in page.results:
        console.print(Text(f"{short_time(hit.at)}  {hit.role:5}  {hit.thread_id}  {hit.turn_id}", style="dim"))
        console.print(_readable(hit.snippet))
    if not page.results:
        console.print("nothing of that was said", style="dim")
    if page.next:
        console.print(f"more: --cursor {page.next}", style="dim")


def _moment(option: str, value: str | None) -> int | None:
    if value is None:
        return None
    moment = epoch_ms(int(value) if value.isascii() and value.isdigit() else value)
    if moment is None:
        raise CallerError(f"{option}: a time is ISO 8601, or milliseconds since 1970")
    return moment


def _readable(snippet: str) -> Text:
    """Return HTML with marks as text, with the hits in bold."""
    text = Text("  ")
    for number, piece in enumerate(MARK.split(snippet)):
        text.append(plain(html.unescape(piece)), style="bold" if number % 2 else "")
    return text
