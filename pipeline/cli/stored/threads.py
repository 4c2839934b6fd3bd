"""`turnmill threads` and `turnmill search`: the stored threads, and searches in their turns."""

import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Final

import click
from rich.table import Table
from rich.text import Text

from pipeline.cli.groups import Group
from pipeline.cli.options import Moment
from pipeline.cli.output import dollars, many, wide_console
from pipeline.cli.running import load_running
from pipeline.cli.stored import selection
from pipeline.cli.stored.steps import steps
from pipeline.cli.stored.thread_view import plain, short_time, view
from pipeline.observability.audit import about, audit, local_user
from pipeline.observability.logs import set_up
from pipeline.stores.content.store import ContentStore
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import erase, erase_user
from pipeline.stores.keeping.holding import held_threads, hold_thread, release_thread
from pipeline.stores.search.hits import MAX_HITS, ROLES, SearchQuery, find_turns
from pipeline.stores.search.threads import list_threads
from pipeline.stores.threads.list_statements import SORTS, UPDATED, ListQuery
from pipeline.stores.threads.pages import MAX_PAGE, PAGE, PageWanted
from pipeline.stores.threads.reading import spawned_threads
from pipeline.stores.threads.summaries import ThreadPage, ThreadSummary
from pipeline.turns.partial_turns import with_partials
from pipeline.turns.searched_text import KINDS, Kind
from topics import json_text
from turnmill.errors import CallerError
from turnmill.labels import KINDS as LABELS

GIVEN_CHARACTERS: Final = 40  # of an id that its producer gave: more would leave no room for the rest
COLUMNS: Final = ("thread", "title", "agents", "model", "turns", "status", "tokens", "cost", "updated")
MARK: Final = re.compile("<mark>(.*?)</mark>")


@click.group(cls=Group)
def threads() -> None:
    """List, show and delete stored threads.

    A thread is named by its id, or by the conversation id that its producer gave.
    """


@threads.command("list")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="Threads on a page.")
@click.option("--cursor", help="`cursor` of the previous page.")
@selection.filters
@click.option("--tenant", help="Only threads of this tenant.")
@click.option("--tool", help="Only threads in which this tool was called.")
@click.option("--dataset", metavar="NAME", help="Only threads with turns in this data set.")
@click.option(
    "--sort", default=UPDATED, show_default=True, type=click.Choice(list(SORTS)), help="Sort by this, descending."
)
@click.option("--json", "as_json", is_flag=True, help='Print {"threads": […], "cursor": …}.')
def list_(limit: int, cursor: str | None, *, as_json: bool, **wanted: Any) -> None:
    """List threads, the last updated first.

    Sorted by anything but the update, it lists only threads among the 10,000 that were updated last.
    """
    if wanted["tool"] is not None and load_running().search == "off":
        raise CallerError("--tool: tools are found by the words of turns, and TURNMILL_SEARCH is off")
    page = selection.with_store(lambda store: list_threads(store, limit, cursor, ListQuery(**wanted)))
    if as_json:
        click.echo(json.dumps(asdict(page)))
        return
    console = wide_console()
    if not page.threads:
        console.print("no threads here: `turnmill publish` sends recorded runs, `turnmill worker` stores them")
        return
    console.print(thread_table(page))
    if page.cursor:
        console.print(f"more: --cursor {page.cursor}", style="dim")


def thread_table(page: ThreadPage) -> Table:
    """Return threads as a table."""
    judged = any(thread.feedback for thread in page.threads)
    table = Table(*COLUMNS, *(["feedback"] if judged else []), box=None, pad_edge=False)
    table.columns[0].no_wrap = table.columns[8].no_wrap = True
    for number in (4, 6, 7):
        table.columns[number].justify = "right"
    for thread in page.threads:
        given = plain(thread.external_id or "")
        table.add_row(
            Text(given if 0 < len(given) <= GIVEN_CHARACTERS else thread.thread_id),
            Text(plain(thread.title or "")),
            Text(plain(", ".join(thread.agents))),
            Text(plain(thread.model or "")),
            str(thread.turns),
            Text(thread.status or "", style="red" if thread.status == "interrupted" else ""),
            f"{thread.tokens:,}",
            dollars(thread.cost_usd),
            short_time(thread.updated_at),
            *([Text(plain("; ".join(map(_judged, thread.feedback))))] if judged else []),
        )
    return table


def _judged(said: Mapping[str, Any]) -> str:
    value, comment = said["value"], said.get("comment")
    shown = {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
    return f"{said['name']} {shown}{f': {comment}' if comment else ''}"


@threads.command(short_help="Show one thread.")
@click.argument("thread", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print the ThreadProtocol document.")
@click.option("--inline", is_flag=True, help="Include large values from the content store.")
@click.option("--partial", is_flag=True, help="With what interrupted turns had shown and do not keep, marked.")
@click.option("--last", type=click.IntRange(1, MAX_PAGE), help=f"A page: this number of turns, else {PAGE}.")
@click.option("--before", metavar="TURN", help="A page: the turns before this one.")
@click.option("--after", metavar="TURN", help="A page: the turns after this one; '': from the beginning.")
@selection.branch_option
@selection.tenant_option
def show(
    thread: str,
    branch: str | None,
    tenant: str | None,
    last: int | None,
    before: str | None,
    after: str | None,
    *,
    as_json: bool,
    inline: bool,
    partial: bool,
) -> None:
    """Show a thread, with sub-agents' runs indented after the run that started them.

    Of a long thread, --last, --before and --after show a page, with the names of the turns where its neighbours begin.
    """
    contents = ContentStore.of(load_running()) if inline else None
    is_page = last is not None or before is not None or after is not None
    wanted = PageWanted(last or PAGE, before, after, branch) if is_page else None
    document, ends, children = selection.with_store(lambda store: _family(store, contents, thread, tenant, wanted))
    if branch is not None and not is_page:
        document = selection.on_branch(document, branch)
    if partial:
        document = with_partials(document)
    if as_json:
        click.echo(json_text.dumps({**document, **ends}))
        return
    console = wide_console()
    for piece in view(document, children):
        console.print(piece)
    for option, end in (("--before", "previous"), ("--after", "next")):
        if ends.get(end):
            console.print(f"more: {option} {plain(ends[end])}", style="dim", markup=False)


@threads.command(short_help="Delete threads with all their data.")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--user", help="Instead of ID: all threads with a run of this user, of --tenant, or without a tenant.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@selection.tenant_option
def delete(ids: Sequence[str], user: str | None, tenant: str | None, *, yes: bool) -> None:
    """Delete threads for good: turns, usage, large values, and their rows in the archive.

    Threads that only their sub-agents used are deleted, too. Records on the topics remain until the topics' retention
    removes them; a replay brings nothing back. Other threads' links to them are not shown any more. A command that was
    interrupted can be repeated.
    """
    if bool(ids) == (user is not None):
        raise CallerError("say which threads are deleted: either by ID or by --user")
    if not yes:
        wanted = ", ".join(ids) if user is None else f"all threads of the user {plain(user)!r}"
        click.confirm(f"Delete {wanted} for good?", abort=True)

    settings = load_running()
    set_up(settings.log_level, settings.log_format)

    async def run(store: ThreadStore) -> None:
        for key in [await selection.find_thread(store, given, tenant) for given in ids]:
            erased = await erase(settings, store, key, local_user())
            also = [many(len(erased.sub_agents), "sub-agent thread")] if erased.sub_agents else []
            also += [many(erased.objects, "large value")] if erased.objects else []
            also += [f"of {many(erased.segments, 'segment')} of the archive"] if erased.segments else []
            also += [f"{many(len(erased.held), 'sub-agent thread')} left, which is held"] if erased.held else []
            click.echo(f"deleted {key.thread_id}{''.join(f', {what}' for what in also)}")
        if user is not None:
            count, held = await erase_user(settings, store, user, tenant or "", local_user())
            click.echo(
                f"deleted {many(count, 'thread')}{''.join(f', not {key.thread_id}: it is held' for key in held)}"
            )

    selection.with_store(run)


@threads.command(short_help="Hold threads, so that they are not deleted and don't expire.")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--release", is_flag=True, help="Release the threads.")
@selection.tenant_option
def hold(ids: Sequence[str], tenant: str | None, *, release: bool) -> None:
    """Hold threads: until released, they can't be deleted, and don't expire, whatever the retention.

    Without ID, list the held threads.
    """
    if ids:
        settings = load_running()
        set_up(settings.log_level, settings.log_format)
    if release and not ids:
        raise CallerError("say which threads are released: `turnmill threads hold` lists those that are held")

    async def run(store: ThreadStore) -> None:
        if not ids:
            for key in sorted(await held_threads(store), key=lambda key: key.text):
                if tenant is None or (key.tenant or "") == tenant:
                    click.echo(key.text)
        for key in [await selection.find_thread(store, given, tenant) for given in ids]:
            changed = await (release_thread(store, key) if release else hold_thread(store, key))
            what, action = ("released", "thread.release") if release else ("held", "thread.hold")
            audit.info("%s thread %s, by %s", what, key.text, local_user(), extra=about(key, action))
            done = ("released" if changed else "not held:") if release else ("held" if changed else "held already:")
            click.echo(f"{done} {key.thread_id}")

    selection.with_store(run)


threads.add_command(steps)


async def _family(
    store: ThreadStore, contents: ContentStore | None, given: str, tenant: str | None, wanted: PageWanted | None
) -> tuple[dict[str, Any], dict[str, Any], Sequence[ThreadSummary]]:
    """Return the thread's document or a page of it with {"previous", "next"}, and the threads that it spawned."""
    ends: dict[str, Any] = {}
    if wanted is None:
        key, document = await selection.find_document(store, given, tenant)
    else:
        key, page = await selection.find_page(store, given, tenant, wanted)
        document, ends = page.document, {"previous": page.previous, "next": page.next}
    whole = document if contents is None else await contents.inlined(key, document)
    return whole, ends, await spawned_threads(store, key)


@click.command(short_help="Search in conversations.")
@click.argument("q", metavar="QUERY")
@click.option("--tenant", help="Only turns of this tenant; '': without a tenant.")
@click.option("--agent", "agent_id", help="Only turns of this agent's runs.")
@click.option("--role", type=click.Choice(list(ROLES)), help="Only text of this role.")
@click.option("--since", type=Moment(), help="Said at or after this time, or 7d, 12h ago.")
@click.option("--until", type=Moment(), help="Said before this time.")
@click.option("--in", "kinds", type=click.Choice(KINDS), multiple=True, help="What is searched; may be repeated.")
@partial(selection.labels, text="Only turns of runs of this {}.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, MAX_HITS), help="Hits on a page.")
@click.option("--cursor", help="`next` of the previous page.")
@click.option("--json", "as_json", is_flag=True, help='Print {"results": […], "next": …}.')
def search(q: str, kinds: tuple[Kind, ...], *, as_json: bool, **more: Any) -> None:
    """Search conversations: print the newest turns that contain the words, best match first.

    QUERY is `word "some words" begin* -without`: all must match; case and accents are ignored. Thoughts and results of
    tools are searched with --in, if TURNMILL_SEARCH is `all`.
    """
    if load_running().search == "off":
        raise CallerError("TURNMILL_SEARCH is off: nothing is kept to search in")
    labels = tuple((kind, label) for kind in LABELS if (label := more.pop(kind)) is not None)
    query = SearchQuery(q, kinds or KINDS[:1], labels=labels, **more)
    page = selection.in_store(lambda store: find_turns(store, query))
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


def _readable(snippet: str) -> Text:
    """Return HTML with marks as text, with the hits in bold."""
    text = Text("  ")
    for number, piece in enumerate(MARK.split(snippet)):
        text.append(plain(html.unescape(piece)), style="bold" if number % 2 else "")
    return text
