"""`turnmill budgets`, `webhooks` and `feedback`: what is used, what waits, and what people said of threads."""

from collections.abc import Iterable
from typing import Any, Final

import click
from rich.table import Table
from rich.text import Text

from pipeline.cli.output import wide_console
from pipeline.cli.running import asked, load_running
from pipeline.cli.stored import selection
from pipeline.cli.stored.thread_view import plain, short_time
from pipeline.gateway.budgets.routes import shown_state
from pipeline.gateway.reading.webhooks import listed_webhooks
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.feedback import feedback_of, newest_feedback
from pipeline.stores.usage.budgets import states
from topics import json_text
from topics.feedback import FeedbackRecord
from turnmill.clock import now_ms

EVERY: Final = "all"  # tenants, agents or models, where none is named

json_option = click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")


@click.command(short_help="List budgets, and how much of each is used.")
@json_option
def budgets(*, as_json: bool) -> None:
    """List the budgets of TURNMILL_BUDGETS, and how much of each is used in its hour, day or month.

    The gateway at the configured address is asked, where there is one; else the settings here, and the store.
    """

    async def here(store: ThreadStore) -> dict[str, Any]:
        known = await states(store, load_running().budget_list, now_ms())
        return {"budgets": [shown_state(state).model_dump() for state in known]}

    found = asked("/v1/budgets") or selection.in_store(here)
    rows = (
        (
            *(budget["name"], *(budget[name] or EVERY for name in ("tenant", "agent", "model"))),
            *(f"{budget['used']:,g} of {budget['limit']:,g} {budget['unit']}", f"{budget['ratio']:.0%}"),
            *(budget["per"], budget["end"]),
        )
        for budget in found["budgets"]
    )
    head = ("budget", "tenant", "agent", "model", "used", "", "per", "until")
    _print(found, head, rows, "there are no budgets: TURNMILL_BUDGETS sets them (docs/budgets.md)", as_json=as_json)


@click.command(short_help="List webhooks, and how many events wait for each.")
@json_option
def webhooks(*, as_json: bool) -> None:
    """List the webhooks of TURNMILL_WEBHOOKS and of the API, without their secrets.

    The gateway at the configured address is asked, where there is one; else the settings here, and the store.
    """

    async def here(store: ThreadStore) -> dict[str, Any]:
        return (await listed_webhooks(store, load_running().webhook_list)).model_dump()

    found = asked("/v1/webhooks") or selection.in_store(here)
    rows = (
        (hook["id"], hook["url"], hook["tenant"] or EVERY, ", ".join(hook["events"]), f"{hook['waiting']:,}")
        for hook in found["webhooks"]
    )
    head = ("webhook", "address", "tenant", "events", "waiting")
    _print(found, head, rows, "there are no webhooks: docs/webhooks.md says how they are set up", as_json=as_json)


@click.command(short_help="Show feedback on a thread, or the newest.")
@click.argument("thread", metavar="[ID]", required=False)
@click.option("--name", help="Only feedback of this name.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Number of the newest.")
@selection.tenant_option
@json_option
def feedback(thread: str | None, name: str | None, limit: int, tenant: str | None, *, as_json: bool) -> None:
    """Show the feedback on thread ID, oldest first; without ID, the newest of all threads."""

    async def here(store: ThreadStore) -> list[FeedbackRecord]:
        if thread is None:
            return await newest_feedback(store, name, tenant, limit)
        key = await selection.find_thread(store, thread, tenant)
        of_thread = (await feedback_of(store, [key]))[key]
        return [record for record in of_thread if name in (None, record["name"])][-limit:]

    found = selection.in_store(here)
    rows = (
        (
            *(short_time(record["at"]), record["thread_id"], record.get("turn_id") or record.get("run_id") or ""),
            *(record["name"], json_text.dumps(record["value"]), record.get("by", ""), record.get("comment", "")),
        )
        for record in found
    )
    head = ("at", "thread", "of turn or run", "name", "value", "by", "comment")
    _print({"feedback": found}, head, rows, "no feedback is stored", as_json=as_json)


def _print(found: Any, head: Iterable[str], rows: Iterable[Iterable[str]], none: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(json_text.dumps(found))
        return
    table = Table(*head, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    wide_console().print(table if table.rows else none)
