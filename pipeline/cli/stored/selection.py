"""The store of a command, its audit entries, and the options and look-ups by id of commands on stored threads."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click

from pipeline.cli.running import load_running
from pipeline.observability.audit import Actor, Entry, acting, user_name
from pipeline.settings import load
from pipeline.stores.accounts.audit import add_audit
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.pages import Page, PageWanted, read_page
from pipeline.stores.threads.reading import find_threads, read_thread
from pipeline.turns.branches import UnknownBranch, one_branch
from pipeline.turns.judged import Condition, condition
from pipeline.turns.thread_document import UnknownTurn
from topics.thread_key import ThreadKey
from turnmill.errors import CallerError
from turnmill.labels import KINDS

T = TypeVar("T")
FILTERS: Final = ("agent", "model", "min_cost", "status", "search", "feedback", *KINDS)
MAX_TENANTS_SHOWN: Final = 10  # tenants named in a message

branch_option = click.option("--branch", metavar="RUN", help="Only the branch with this run, if the thread forks.")
tenant_option = click.option("--tenant", help="The tenant, if several have such a thread; '': none.")
HERE = "command line"


def filters(command: Callable[..., None], model: str = "--model") -> Callable[..., None]:
    """Return a command with the options that filter threads, except --tenant.

    `model`: name of the option for the model.
    """
    for option in (
        click.option("--search", help="Only threads with this text in title, first prompt or id."),
        click.option(
            "--feedback",
            metavar="NAME<VALUE",
            callback=_condition,
            help="Only threads, or turns of data sets, with such feedback: helpful=false, score>=0.5.",
        ),
        click.option("--status", type=click.Choice(["complete", "interrupted"]), help="Status of the last turn."),
        click.option("--min-cost", type=click.FloatRange(0), metavar="USD", help="Only threads of at least this cost."),
        click.option(model, "model", help="Only threads whose last response is of this model."),
        click.option("--agent", help="Only threads with an agent of this id or name."),
    ):
        command = option(command)
    return labels(command, "Only threads with a run of this {}.")


def _condition(_context: click.Context, _option: click.Parameter, text: str | None) -> Condition | None:
    try:
        return None if text is None else condition(text)
    except ValueError as error:
        raise CallerError(f"--feedback: {error}") from None


def labels(command: Callable[..., None], text: str, **more: Any) -> Callable[..., None]:
    """Return a command with an option for each kind of label; `text`: what it does, with {} for the kind."""
    for kind in reversed(KINDS):
        command = click.option(f"--{kind}", help=text.format(kind), **more)(command)
    return command


def with_store(use: Callable[[ThreadStore], Awaitable[T]]) -> T:
    """As `in_store`, and store the audit entries of the command."""
    with recorded():
        return in_store(use)


async def find_thread(store: ThreadStore, given: str, tenant: str | None) -> ThreadKey:
    """Return the thread of an id. Raises CallerError if there is none, or several tenants have one."""
    keys = await find_threads(store, given, tenant)
    if not keys:
        raise _missing(given)
    if len(keys) > 1:
        tenants = ", ".join(repr(key.tenant or "") for key in keys[:MAX_TENANTS_SHOWN])
        raise CallerError(
            f"several tenants have a thread {given!r:.200}: name one by --tenant ('' for none): {tenants}"
        )
    return keys[0]


def _missing(given: str) -> CallerError:
    return CallerError(f"no thread {given!r} in the store; `turnmill threads list` shows those that are there")


async def find_document(store: ThreadStore, given: str, tenant: str | None) -> tuple[ThreadKey, dict[str, Any]]:
    """Return the thread of an id, and its document. Raises CallerError as `find_thread` does."""
    key = await find_thread(store, given, tenant)
    document = await read_thread(store, key)
    if document is None:
        raise _missing(given)
    return key, document


async def find_page(store: ThreadStore, given: str, tenant: str | None, wanted: PageWanted) -> tuple[ThreadKey, Page]:
    """Return the thread of an id, and a page. Raises CallerError as `find_document` and `on_branch` do."""
    key = await find_thread(store, given, tenant)
    with named():
        page = await read_page(store, key, wanted)
    if page is None:
        raise _missing(given)
    return key, page


def on_branch(document: dict[str, Any], branch: str) -> dict[str, Any]:
    """Return the document with the branch of a run alone. Raises CallerError if the thread has no such run."""
    with named():
        return one_branch(document, branch)


@contextmanager
def named() -> Iterator[None]:
    """Raise CallerError for names of runs and turns that a thread does not have."""
    try:
        yield
    except (UnknownBranch, UnknownTurn) as error:
        raise CallerError(f"{error}; `turnmill threads show --json` has them: meta:run_id, meta:turn_id") from None


def in_store(use: Callable[[ThreadStore], Awaitable[T]], **options: Any) -> T:
    """Return what `use` returns, called with the store; `options`: see `ThreadStore.open`."""
    settings = load_running()
    if settings.home != load().home:
        click.echo(f"in {settings.store_url}, of the gateway on this machine", err=True)
    return _within(settings.store_url, use, **options)


def _within(url: str, use: Callable[[ThreadStore], Awaitable[T]], **options: Any) -> T:
    async def run() -> T:
        async with await ThreadStore.open(url, **options) as store:
            return await use(store)

    return asyncio.run(run())


@contextmanager
def recorded() -> Iterator[None]:
    """Store the audit entries of the block when it ends, even if it fails."""
    settings, entries = load_running(), list[Entry]()
    before = acting.set(Actor(user_name(), address=HERE, keep=entries.append if settings.audit_retention else None))
    try:
        yield
    finally:
        acting.reset(before)
        if entries:
            try:
                _within(
                    settings.store_url, lambda store: add_audit(store, entries, notify=settings.webhooks is not None)
                )
            except StoreError as error:
                click.echo(f"turnmill: {len(entries)} audit entries are in the log alone: {error}", err=True)
