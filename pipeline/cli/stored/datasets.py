"""`turnmill datasets`: turns that people have chosen under a name; `turnmill export --dataset` exports them."""

import re

import click

from pipeline.cli.groups import Group
from pipeline.cli.output import many
from pipeline.cli.running import load_running
from pipeline.cli.stored import selection
from pipeline.cli.stored.thread_view import plain, short_time
from pipeline.observability.audit import about, audit, local_user, of
from pipeline.observability.logs import set_up
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads import datasets as stored
from turnmill.clock import now_ms
from turnmill.errors import CallerError


@click.group(cls=Group)
def datasets() -> None:
    """List and change data sets: turns chosen under a name.

    `turnmill export --dataset NAME` exports a set. It is there as long as it has turns; those of a thread that is
    deleted, or expires, leave it.
    """
    settings = load_running()
    set_up(settings.log_level, settings.log_format)


@datasets.command("list")
@click.option("--tenant", help="Only those of this tenant; '': none.")
def list_(tenant: str | None) -> None:
    """List data sets, with how many turns they have."""
    for each in selection.in_store(lambda store: stored.datasets_of(store, tenant)):
        whose = f"  tenant {plain(each.tenant)}" if each.tenant else ""
        click.echo(f"{each.name}  {many(each.turns, 'turn')}  {short_time(each.newest)}{whose}")


@datasets.command()
@click.argument("name")
@click.argument("thread", metavar="ID")
@click.option("--turn", help="Id of the turn; by default all turns of the thread.")
@selection.tenant_option
def add(name: str, thread: str, turn: str | None, tenant: str | None) -> None:
    """Add a turn, or all that thread ID has now, to a data set."""
    if not re.match(stored.NAME_PATTERN, name) or len(name) > stored.NAME_CHARACTERS:
        raise CallerError(f"a name has at most {stored.NAME_CHARACTERS} letters, digits, _, -, . and spaces")

    async def run(store: ThreadStore) -> None:
        key = await selection.find_thread(store, thread, tenant)
        with selection.named():
            new = await stored.add_turns(store, key, name, turn, now_ms())
        audit.info("added %d turns to data set %r, by %s", new, name, local_user(), extra=about(key, "dataset.add"))
        click.echo(f"added {many(new, 'turn')} to {name}")

    selection.with_store(run)


@datasets.command()
@click.argument("name")
@click.argument("thread", metavar="[ID]", required=False)
@click.option("--turn", help="Id of the turn; by default all turns of the thread.")
@selection.tenant_option
def remove(name: str, thread: str | None, turn: str | None, tenant: str | None) -> None:
    """Take turns out of a data set, or delete it.

    With --turn that turn of thread ID, else all of its turns; without ID all turns of the set NAME, which is then gone.
    The turns stay in their threads.
    """

    async def run(store: ThreadStore) -> None:
        if thread is None:
            gone = await stored.drop_dataset(store, tenant or "", name)
            extra = of("dataset.delete", name, tenant or "")
        else:
            key = await selection.find_thread(store, thread, tenant)
            gone, extra = await stored.take_out(store, key, name, turn), about(key, "dataset.remove")
        if not gone:
            raise CallerError(f"there is no such turn in {name!r:.200}: `turnmill datasets list` names the data sets")
        audit.info("took %d turns out of data set %r, by %s", gone, name, local_user(), extra=extra)
        click.echo(f"took {many(gone, 'turn')} out of {name}")

    selection.with_store(run)
