"""Commands that list budgets with their use, alerts, webhooks with their waiting events, and feedback on threads."""

from typing import Any

import click
from rich.table import Table
from rich.text import Text

from pipeline.cli.output import wide_console
from pipeline.cli.running import asked, load_running
from pipeline.cli.stored import selection
from pipeline.cli.stored.thread_view import plain, short_time
from pipeline.gateway.budgets.routes import shown_state
from pipeline.gateway.reading.alerts import listed_alerts
from pipeline.gateway.reading.webhooks import listed_webhooks
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.feedback import feedback_of, newest_feedback
from pipeline.stores.usage.alerts import alerts_on
from pipeline.stores.usage.budgets import states
from topics import json_text
from turnmill.clock import now_ms

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

    names = ("name", "tenant", "agent", "model", "used", "limit", "unit", "ratio", "per", "end")
    none = "there are no budgets: TURNMILL_BUDGETS sets them (docs/budgets.md)"
    _print(asked("/v1/budgets") or selection.in_store(here), names, none, as_json=as_json)


@click.command(short_help="List alerts, and which of them are on.")
@json_option
def alerts(*, as_json: bool) -> None:
    """List the alerts of TURNMILL_ALERTS, and which of them are on.

    The gateway at the configured address is asked, where there is one; else the settings here, and the store.
    """

    async def here(store: ThreadStore) -> dict[str, Any]:
        return listed_alerts(load_running().alert_list, await alerts_on(store)).model_dump()

    names = ("name", "figure", "feedback", "above", "below", "within_ms", "by", "of", "on")
    none = "there are no alerts: TURNMILL_ALERTS sets them (docs/alerts.md)"
    _print(asked("/v1/alerts") or selection.in_store(here), names, none, as_json=as_json)


@click.command(short_help="List webhooks, and how many events wait for each.")
@json_option
def webhooks(*, as_json: bool) -> None:
    """List the webhooks of TURNMILL_WEBHOOKS and of the API, without their secrets.

    The gateway at the configured address is asked, where there is one; else the settings here, and the store.
    """

    async def here(store: ThreadStore) -> dict[str, Any]:
        return (await listed_webhooks(store, load_running().webhook_list)).model_dump()

    none = "there are no webhooks: docs/webhooks.md says how they are set up"
    found = asked("/v1/webhooks") or selection.in_store(here)
    _print(found, ("id", "url", "tenant", "events", "waiting"), none, as_json=as_json)


@click.command(short_help="Show feedback on a thread, or the newest.")
@click.argument("thread_id", metavar="[ID]", required=False)
@click.option("--name", help="Only feedback of this name.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Number of the newest.")
@selection.tenant_option
@json_option
def feedback(thread_id: str | None, name: str | None, limit: int, tenant: str | None, *, as_json: bool) -> None:
    """Show the feedback on thread ID, oldest first; without ID, the newest of all threads."""

    async def here(store: ThreadStore) -> dict[str, Any]:
        if thread_id is None:
            return {"feedback": await newest_feedback(store, name, tenant, limit)}
        key = await selection.find_thread(store, thread_id, tenant)
        of_thread = (await feedback_of(store, [key]))[key]
        return {"feedback": [record for record in of_thread if name in (None, record["name"])][-limit:]}

    names = ("at", "thread_id", "turn_id", "run_id", "name", "value", "by", "comment")
    _print(selection.in_store(here), names, "no feedback is stored", as_json=as_json)


def _print(found: dict[str, Any], names: tuple[str, ...], none: str, *, as_json: bool) -> None:
    """Print a JSON object whose first member is a list of objects: as it is, or these members as a table."""
    if as_json:
        click.echo(json_text.dumps(found))
        return
    table = Table(*names, box=None, pad_edge=False)
    for row in next(iter(found.values())):
        cells = (short_time(row[name]) if name == "at" else row.get(name) for name in names)
        table.add_row(*("" if cell is None else Text(plain(_words(cell))) for cell in cells))
    wide_console().print(table if table.rows else none)


def _words(cell: Any) -> str:
    if isinstance(cell, list):
        return ", ".join(map(_words, cell))
    return cell if isinstance(cell, str) else json_text.dumps(cell)
