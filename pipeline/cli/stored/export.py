"""`turnmill export`: stored threads as JSON lines, in the SDKs' own formats, or as data sets."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

import click
from rich.console import Console
from rich.progress import Progress

from pipeline.assembly.dialect import Format, WrongOption
from pipeline.cli.options import Moment
from pipeline.cli.running import load_running
from pipeline.cli.stored import selection
from pipeline.cli.stored.dataset_files import COLUMNS, DATASETS, DPO, PARQUET, Export, Kept, Lines, dataset
from pipeline.dialects import FORMATS
from pipeline.dialects.training import needed
from pipeline.observability.audit import about, audit, local_user, of
from pipeline.stores.content.store import ContentStore
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.agents_and_requests import request_bodies
from pipeline.stores.threads.datasets import chosen_in, datasets_of
from pipeline.stores.threads.feedback import feedback_of
from pipeline.stores.threads.list_statements import ListQuery
from pipeline.stores.threads.reading import all_documents, count_rows
from pipeline.turns.requests import named_in, with_bodies
from pipeline.turns.searched_text import tools_called
from pipeline.turns.thread_document import only_turns
from topics.feedback import FeedbackRecord
from topics.thread_key import ThreadKey
from turnmill.errors import CallerError

EXPORTED: Final = "thread.export"


@click.command(short_help="Print threads, one JSON object a line.")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--format", "form", default="thread", show_default=True, type=click.Choice([*FORMATS, *DATASETS]))
@click.option("--inline", is_flag=True, help="Include values from the content store; other formats always do.")
@click.option("--for-version", help="Release of pydantic-ai that is to load the messages, as 1.20.")
@click.option("--viewing-agent", help="Id of the agent whose history it is; other agents' turns as it saw them.")
@click.option("--repeat-user-prompt", is_flag=True, help="Threads: begin agent turns with the user's words.")
@click.option("--partial", is_flag=True, help="With what interrupted turns had shown and do not keep, marked.")
@click.option("--requests", is_flag=True, help="Threads: include the requests to models, as `meta:requests`.")
@selection.filters
@click.option("--tool", help="Only threads in which this tool was called.")
@click.option("--dataset", metavar="NAME", help="Only the turns in this data set of the store.")
@click.option("--since", type=Moment(), help="Only threads updated at or after this time, or 7d, 12h ago.")
@click.option("--until", type=Moment(), help="Only threads updated before this time.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to this file instead of standard output; a data set as Parquet if it is named *.parquet.",
)
@selection.tenant_option
def export(
    ids: Sequence[str],
    form: str,
    out: Path | None,
    tenant: str | None,
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

    Of a thread that forks, `thread` has all branches, other formats the newest, or that with the run of --branch;
    without ID, --branch is that of a project.

    `sft`, `dpo` and `atif` are data sets: `sft` has a line for each complete agent turn, with the turns before it and
    the model's request; `dpo` for each answer with versions that feedback ranks; `atif` a trajectory for each thread.

    With --dataset, only turns in that data set of the store are exported; `sft` and `dpo` keep the turns before them.
    """
    branch = options.pop("branch") if ids else None
    wanted = {name: options.pop(name, None) for name in (*selection.FILTERS, "since", "until", "dataset")}
    chosen_set = wanted["dataset"]
    filtered = [name for name, value in {**wanted, "tool": tool}.items() if value is not None]
    criterion = wanted["feedback"]
    if ids and (named := [name for name in filtered if name != "feedback" or form not in DATASETS]):
        raise CallerError(f"--{named[0].replace('_', '-')} chooses among all threads: leave out the ids")
    if form in DATASETS:
        if branch or partial or requests or any(options.values()):
            raise CallerError(
                f"{form} is a data set: it has no branches, partial turns, requests, or options of formats"
            )
        columns = COLUMNS[form] if out is not None and out.suffix == PARQUET else None
        chosen = Export(dataset(form, criterion), needed, columns, judged=criterion is not None or form == DPO)
    else:
        if requests and not FORMATS[form].is_document:
            raise CallerError(f"--requests: the format {form} has no place for what the model was asked")
        lines = _lines(FORMATS[form], options, branch=branch, partial=partial, requests=requests)
        chosen = Export(lines, named_in if requests else lambda _: ())
    contents = ContentStore.of(load_running()) if inline or form in DATASETS or not FORMATS[form].is_document else None

    async def run(store: ThreadStore, file: IO[bytes]) -> None:
        if chosen_set is not None and chosen_set not in {each.name for each in await datasets_of(store, tenant)}:
            raise CallerError(f"there is no data set {chosen_set!r:.200}: `turnmill datasets list` names those")
        if not ids:
            audit.info("export of threads, by %s", local_user(), extra=of(EXPORTED, "*", tenant))
        documents = _documents(store, ids, tenant) if ids else all_documents(store, ListQuery(tenant=tenant, **wanted))
        total = len(ids) or (None if filtered else (await count_rows(store)).threads)
        await _export(store, contents, documents, total, chosen, file, tool, chosen_set)

    if out is None:
        stream = click.get_binary_stream("stdout")
        selection.with_store(lambda store: run(store, stream))
        stream.flush()
        return
    try:
        with out.open("wb") as file:
            selection.with_store(lambda store: run(store, file))
    except OSError as error:
        raise CallerError(f"can't write {out}: {error.strerror}; name another file by --out") from None


def _lines(form: Format, options: Mapping[str, Any], *, branch: str | None, partial: bool, requests: bool) -> Lines:
    """Return a function that makes the printed object of a document and its requests to models.

    Raises CallerError for options that don't fit the format; the function raises it if a thread has no such branch.
    """
    try:
        checked = form.checked(options)
    except WrongOption as error:
        raise CallerError(f"--{error.option.replace('_', '-')}: {error.why}") from None

    def lines(
        document: dict[str, Any], bodies: Mapping[str, dict[str, Any]], _: Sequence[FeedbackRecord], kept: Kept
    ) -> Iterator[dict[str, Any]]:
        document = document if kept is None else only_turns(document, kept)
        made = form.printed(
            document if branch is None else selection.on_branch(document, branch), partial=partial, **checked
        )
        yield with_bodies(made, bodies) if requests else made

    return lines


async def _export(
    store: ThreadStore,
    contents: ContentStore | None,
    documents: AsyncIterator[tuple[ThreadKey, dict[str, Any]]],
    total: int | None,
    chosen: Export,
    out: IO[bytes],
    tool: str | None,
    dataset_name: str | None,
) -> None:
    console = Console(stderr=True)
    quiet = not console.is_terminal or out.isatty()
    with Progress(console=console, disable=quiet, transient=True) as progress, chosen.writing(out) as put:
        task = progress.add_task("exporting", total=total)
        async for key, stored in documents:
            progress.advance(task)
            if tool is not None and not any(tool in tools_called(turn) for turn in stored["turns"]):
                continue
            document = stored if contents is None else await contents.inlined(key, stored)
            names = chosen.names(document)
            bodies = await request_bodies(store, names, key.tenant or "") if names else {}
            judged = (await feedback_of(store, [key]))[key] if chosen.judged else ()
            kept = None if dataset_name is None else await chosen_in(store, key, dataset_name, document)
            for line in chosen.lines(document, bodies, judged, kept):
                put(line)


async def _documents(
    store: ThreadStore, ids: Sequence[str], tenant: str | None
) -> AsyncIterator[tuple[ThreadKey, dict[str, Any]]]:
    for given in ids:
        key, document = await selection.find_document(store, given, tenant)
        audit.info("export of thread %s, by %s", key.text, local_user(), extra=about(key, EXPORTED))
        yield key, document
