"""`turnmill threads` and `turnmill export`: the stored threads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import click
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from pipeline.assembly.format import Format, WrongOption
from pipeline.cli.dataset_files import COLUMNS, DATASETS, DPO, PARQUET, Export, Lines, dataset
from pipeline.cli.options import Moment
from pipeline.cli.output import many, wide_console
from pipeline.cli.recording import recorded
from pipeline.cli.thread_view import plain, short_time, view
from pipeline.dialects import FORMATS
from pipeline.dialects.training import needed
from pipeline.observability.audit import about, audit, local_user, of
from pipeline.observability.logs import set_up
from pipeline.settings import load
from pipeline.stores.content import ContentStore
from pipeline.stores.erasure import erase
from pipeline.stores.list_statements import SORTS, UPDATED, ListQuery
from pipeline.stores.sql import ThreadStore
from pipeline.stores.summaries import ThreadPage, ThreadSummary
from pipeline.turns.branches import UnknownBranch, one_branch
from pipeline.turns.judged import Condition, condition
from pipeline.turns.partial_turns import with_partials
from pipeline.turns.requests import named_in, with_bodies
from pipeline.turns.spoken_text import tools_called
from topics import json_text
from topics.feedback import FeedbackRecord
from topics.thread_key import ThreadKey
from turnmill.errors import CallerError

T = TypeVar("T")
FILTERS: Final = ("agent", "model", "min_cost", "status", "search")
SHOWN: Final = 10  # tenants named in a message
EXPORTED: Final = "thread.export"

one_of = click.option("--branch", metavar="RUN", help="Only the branch with this run, if the thread forks.")
whose = click.option("--tenant", help="The tenant, if several have such a thread; '': none.")


@click.group()
def threads() -> None:
    """List, show and delete stored threads.

    A thread is named by its id, or by the conversation id that its producer gave.
    """


def filters(command: Callable[..., None], model: str = "--model") -> Callable[..., None]:
    """Return a command with the options that filter threads, except --tenant.

    `model`: name of the option for the model.
    """
    for option in (
        click.option("--search", help="Only threads with this text in title, first prompt or id."),
        click.option("--status", type=click.Choice(["complete", "interrupted"]), help="Status of the last turn."),
        click.option("--min-cost", type=click.FloatRange(0), metavar="USD", help="Only threads of at least this cost."),
        click.option(model, "model", help="Only threads whose last response is of this model."),
        click.option("--agent", help="Only threads with an agent of this id or name."),
    ):
        command = option(command)
    return command


@threads.command("list")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 1000), help="Threads on a page.")
@click.option("--cursor", help="`cursor` of the previous page.")
@filters
@click.option("--tenant", help="Only threads of this tenant.")
@click.option("--tool", help="Only threads in which this tool was called.")
@click.option(
    "--sort", default=UPDATED, show_default=True, type=click.Choice(list(SORTS)), help="Sort by this, descending."
)
@click.option("--json", "as_json", is_flag=True, help='Print {"threads": […], "cursor": …}.')
def list_(limit: int, cursor: str | None, *, as_json: bool, **wanted: Any) -> None:
    """List threads, the last updated first.

    Sorted by anything but the update, it lists only threads among the 10,000 that were updated last.
    """
    if wanted["tool"] is not None and load().search == "off":
        raise CallerError("--tool: tools are found by the words of turns, and TURNMILL_SEARCH is off")
    page = _with_store(lambda store: store.threads(limit, cursor, ListQuery(**wanted)))
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
    names = ("thread", "title", "agents", "model", "turns", "status", "tokens", "cost", "updated")
    table = Table(*names, box=None, pad_edge=False)
    table.columns[0].no_wrap = table.columns[8].no_wrap = True
    for number in (4, 6, 7):
        table.columns[number].justify = "right"
    for thread in page.threads:
        table.add_row(
            thread.thread_id,
            Text(plain(thread.title or thread.external_id or "")),
            Text(plain(", ".join(thread.agents))),
            Text(plain(thread.model or "")),
            str(thread.turns),
            Text(thread.status or "", style="red" if thread.status == "interrupted" else ""),
            f"{thread.tokens:,}",
            "?" if thread.cost_usd is None else f"${thread.cost_usd:,.4f}",
            short_time(thread.updated_at),
        )
    return table


@threads.command(short_help="Show one thread.")
@click.argument("thread", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print the ThreadProtocol document.")
@click.option("--inline", is_flag=True, help="Include large values from the content store.")
@click.option("--partial", is_flag=True, help="With what interrupted turns had shown and do not keep, marked.")
@one_of
@whose
def show(thread: str, branch: str | None, tenant: str | None, *, as_json: bool, inline: bool, partial: bool) -> None:
    """Show one thread, with sub-agents' runs indented after the run that started them."""
    contents = ContentStore.of(load()) if inline else None
    document, children = _with_store(lambda store: _family(store, contents, thread, tenant))
    if branch is not None:
        document = _only(document, branch)
    if partial:
        document = with_partials(document)
    if as_json:
        click.echo(json_text.dumps(document))
        return
    console = wide_console()
    for piece in view(document, children):
        console.print(piece)


@threads.command(short_help="Delete threads with all their data.")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Don't ask.")
@whose
def delete(ids: Sequence[str], tenant: str | None, *, yes: bool) -> None:
    """Delete threads for good: turns, usage, large values, and their rows in the archive.

    Threads that only their sub-agents used are deleted, too. Records on the topics remain until the topics' retention
    removes them; a replay brings nothing back. Other threads' links to them are not shown any more. A command that was
    interrupted can be repeated.
    """
    if not yes:
        click.confirm(f"Delete {', '.join(ids)} for good?", abort=True)

    settings = load()
    set_up(settings)

    async def run(store: ThreadStore) -> None:
        for key in [await find_thread(store, given, tenant) for given in ids]:
            erased = await erase(settings, store, key, local_user())
            also = [many(len(erased.sub_agents), "sub-agent thread")] if erased.sub_agents else []
            also += [many(erased.objects, "large value")] if erased.objects else []
            also += [f"of {many(erased.segments, 'segment')} of the archive"] if erased.segments else []
            also += [f"{many(len(erased.held), 'sub-agent thread')} left, which is held"] if erased.held else []
            click.echo(f"deleted {key.thread_id}{''.join(f', {what}' for what in also)}")

    _with_store(run)


@threads.command(short_help="Hold threads, so that they are not deleted and don't expire.")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--release", is_flag=True, help="Release the threads.")
@whose
def hold(ids: Sequence[str], tenant: str | None, *, release: bool) -> None:
    """Hold threads: until released, they can't be deleted, and don't expire, whatever the retention.

    Without ID, list the held threads.
    """
    if ids:
        set_up(load())
    if release and not ids:
        raise CallerError("say which threads are released: `turnmill threads hold` lists those that are held")

    async def run(store: ThreadStore) -> None:
        if not ids:
            for key in sorted(await store.held(), key=lambda key: key.text):
                if tenant is None or (key.tenant or "") == tenant:
                    click.echo(key.text)
        for key in [await find_thread(store, given, tenant) for given in ids]:
            changed = await (store.release(key) if release else store.hold(key))
            what, action = ("released", "thread.release") if release else ("held", "thread.hold")
            audit.info("%s thread %s, by %s", what, key.text, local_user(), extra=about(key, action))
            done = ("released" if changed else "not held:") if release else ("held" if changed else "held already:")
            click.echo(f"{done} {key.thread_id}")

    _with_store(run)


@click.command(short_help="Print threads, one JSON object a line.")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--format", "form", default="thread", show_default=True, type=click.Choice([*FORMATS, *DATASETS]))
@click.option("--inline", is_flag=True, help="Include values from the content store; other formats always do.")
@click.option("--for-version", help="Release of pydantic-ai that is to load the messages, as 1.20.")
@click.option("--viewing-agent", help="Id of the agent whose history it is; other agents' turns as it saw them.")
@click.option("--repeat-user-prompt", is_flag=True, help="Threads: begin agent turns with the user's words.")
@click.option("--partial", is_flag=True, help="With what interrupted turns had shown and do not keep, marked.")
@click.option("--requests", is_flag=True, help="Threads: include the requests to models, as `meta:requests`.")
@one_of
@filters
@click.option("--feedback", metavar="NAME>=VALUE", help="Only threads, or turns of data sets, with such feedback.")
@click.option("--tool", help="Only threads in which this tool was called.")
@click.option("--since", type=Moment(), help="Only threads updated at or after this time, or 7d, 12h ago.")
@click.option("--until", type=Moment(), help="Only threads updated before this time.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to this file instead of standard output; a data set as Parquet if it is named *.parquet.",
)
@whose
def export(
    ids: Sequence[str],
    form: str,
    branch: str | None,
    out: Path | None,
    tenant: str | None,
    feedback: str | None,
    tool: str | None,
    *,
    inline: bool,
    partial: bool,
    requests: bool,
    **options: Any,
) -> None:
    """Print threads, one JSON object a line; without ID, all of them, or all of --tenant.

    `thread`: the ThreadProtocol document. Any other format: {"thread_id", "messages"}, the SDK's own messages.
    `--for-version` and `--viewing-agent` are for pydantic-ai. With `--partial`, messages with content that interrupted
    turns had shown are marked: in a thread by `meta:partial`, else by their places in {"partial": [2]}.

    Of a thread that forks, `thread` has all branches, other formats the newest one, or that of --branch.

    `sft`, `dpo` and `atif` are data sets: `sft` has a line for each complete agent turn, with the turns before it and
    the model's request; `dpo` for each answer with versions that feedback ranks; `atif` a trajectory for each thread.
    """
    wanted = {name: options.pop(name) for name in (*FILTERS, "since", "until")}
    filtered = [name for name, value in {**wanted, "tool": tool}.items() if value is not None]
    try:
        said = None if feedback is None else condition(feedback)
    except ValueError as error:
        raise CallerError(f"--feedback: {error}") from None
    if filtered and ids:
        raise CallerError(f"--{filtered[0].replace('_', '-')} chooses among all threads: leave out the ids")
    if form in DATASETS:
        if branch or partial or requests or any(options.values()):
            raise CallerError(
                f"{form} is a data set: it has no branches, partial turns, requests, or options of formats"
            )
        columns = COLUMNS[form] if out is not None and out.suffix == PARQUET else None
        chosen = Export(dataset(form, said), needed, columns, judged=said is not None or form == DPO)
    else:
        if requests and not FORMATS[form].is_document:
            raise CallerError(f"--requests: the format {form} has no place for what the model was asked")
        lines = _lines(FORMATS[form], options, said, branch=branch, partial=partial, requests=requests)
        chosen = Export(lines, named_in if requests else lambda _: (), judged=said is not None)
    contents = ContentStore.of(load()) if inline or form in DATASETS or not FORMATS[form].is_document else None

    async def run(store: ThreadStore, file: IO[bytes]) -> None:
        if not ids:
            audit.info("export of threads, by %s", local_user(), extra=of(EXPORTED, "*", tenant))
        found = _documents(store, ids, tenant) if ids else store.documents(ListQuery(tenant=tenant, **wanted))
        total = len(ids) or (None if filtered else (await store.counts()).threads)
        await _export(store, contents, found, total, chosen, file, tool)

    if out is None:
        stream = click.get_binary_stream("stdout")
        _with_store(lambda store: run(store, stream))
        stream.flush()
        return
    try:
        with out.open("wb") as file:
            _with_store(lambda store: run(store, file))
    except OSError as error:
        raise CallerError(f"can't write {out}: {error.strerror}; name another file by --out") from None


def _lines(
    form: Format,
    options: Mapping[str, Any],
    said: Condition | None,
    *,
    branch: str | None,
    partial: bool,
    requests: bool,
) -> Lines:
    """Return a function that makes the printed object of a document, its requests to models, and feedback.

    `said`: print only threads with such feedback.

    Raises CallerError for options that don't fit the format; the function raises it if a thread has no such branch.
    """
    try:
        checked = form.checked(options)
    except WrongOption as error:
        raise CallerError(f"--{error.option.replace('_', '-')}: {error.why}") from None

    def lines(
        document: dict[str, Any], bodies: Mapping[str, dict[str, Any]], judged: Sequence[FeedbackRecord]
    ) -> Iterator[dict[str, Any]]:
        if said is not None and not any(map(said.holds, judged)):
            return
        made = form.printed(document if branch is None else _only(document, branch), partial=partial, **checked)
        yield with_bodies(made, bodies) if requests else made

    return lines


def _only(document: dict[str, Any], branch: str) -> dict[str, Any]:
    try:
        return one_branch(document, branch)
    except UnknownBranch as error:
        raise CallerError(f"{error}; `turnmill threads show --json` has them: meta:run_id") from None


async def _export(
    store: ThreadStore,
    contents: ContentStore | None,
    found: AsyncIterator[tuple[ThreadKey, dict[str, Any]]],
    total: int | None,
    chosen: Export,
    out: IO[bytes],
    tool: str | None,
) -> None:
    console = Console(stderr=True)
    quiet = not console.is_terminal or out.isatty()
    with Progress(console=console, disable=quiet, transient=True) as progress, chosen.writing(out) as put:
        task = progress.add_task("exporting", total=total)
        async for key, stored in found:
            progress.advance(task)
            if tool is not None and not any(tool in tools_called(turn) for turn in stored["turns"]):
                continue
            document = stored if contents is None else await contents.inlined(key, stored)
            names = chosen.names(document)
            bodies = await store.asked(names, key.tenant or "") if names else {}
            judged = (await store.feedback_of([key]))[key] if chosen.judged else ()
            for line in chosen.lines(document, bodies, judged):
                put(line)


async def _documents(
    store: ThreadStore, ids: Sequence[str], tenant: str | None
) -> AsyncIterator[tuple[ThreadKey, dict[str, Any]]]:
    for given in ids:
        key, document = await _document(store, given, tenant)
        audit.info("export of thread %s, by %s", key.text, local_user(), extra=about(key, EXPORTED))
        yield key, document


async def _document(store: ThreadStore, given: str, tenant: str | None) -> tuple[ThreadKey, dict[str, Any]]:
    key = await find_thread(store, given, tenant)
    document = await store.thread(key)
    if document is None:
        raise _missing(given)
    return key, document


async def _family(
    store: ThreadStore, contents: ContentStore | None, given: str, tenant: str | None
) -> tuple[dict[str, Any], Sequence[ThreadSummary]]:
    """Return the thread's document, and the threads that it spawned."""
    key, document = await _document(store, given, tenant)
    whole = document if contents is None else await contents.inlined(key, document)
    return whole, await store.spawned(key)


async def find_thread(store: ThreadStore, given: str, tenant: str | None) -> ThreadKey:
    """Return the thread of an id. Raises CallerError if there is none, or several tenants have one."""
    found = await store.find(given, tenant)
    if not found:
        raise _missing(given)
    if len(found) > 1:
        tenants = ", ".join(repr(key.tenant or "") for key in found[:SHOWN])
        raise CallerError(
            f"several tenants have a thread {given!r:.200}: name one by --tenant ('' for none): {tenants}"
        )
    return found[0]


def _missing(given: str) -> CallerError:
    return CallerError(f"no thread {given!r} in the store; `turnmill threads list` shows those that are there")


def _with_store(use: Callable[[ThreadStore], Awaitable[T]]) -> T:
    async def run() -> T:
        async with await ThreadStore.open(load().store_url) as store:
            return await use(store)

    with recorded():
        return asyncio.run(run())


commands = [threads, export]
