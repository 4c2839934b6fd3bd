"""`turnmill usage`: tokens, cost, turns, errors and times, from the stored turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from rich.table import Column, Table
from rich.text import Text

from pipeline.cli.options import Moment
from pipeline.cli.output import many, wide_console
from pipeline.cli.stored.reconcile import reconcile
from pipeline.cli.stored.selection import in_store, recorded
from pipeline.cli.stored.thread_view import plain
from pipeline.observability.audit import audit, local_user
from pipeline.observability.audit import of as of_action
from pipeline.observability.logs import set_up
from pipeline.settings import load
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.usage.query import usage_report
from pipeline.stores.usage.report import (
    BUCKETS,
    GROUPS,
    ORDERS,
    OTHER,
    Figures,
    Percentiles,
    UsageQuery,
    UsageReport,
    UsageRow,
)
from pipeline.stores.usage.rows import reprice
from pipeline.stores.usage.time_buckets import label
from pipeline.turns.times import iso
from pipeline.turns.tokens import NANO
from topics import json_text
from turnmill.clock import now_ms

COUNTS = ("requests", "turns", "interrupted", "errors", "input_tokens", "output_tokens", "thinking_tokens")
RECOMPUTE = "usage.recompute"
CACHED = ("cache_read_tokens", "cache_write_tokens")


@click.group(invoke_without_command=True, short_help="Sum up tokens, cost, turns, errors and times.")
@click.option("--group-by", default="model", show_default=True, help=f"Any of {', '.join(GROUPS)}, or nothing.")
@click.option("--bucket", type=click.Choice(BUCKETS), help="Also split by this unit of time.")
@click.option("--tz", default="UTC", show_default=True, help="Time zone of buckets, and of times without one.")
@click.option("--from", "start", help="From this time on: 2026-01-20, 2026-01-20T10:00, or 24h, 7d ago.")
@click.option("--to", "end", help="Before this time.")
@click.option("--model", multiple=True, help="Only this model; this and the next filters may be repeated.")
@click.option("--provider", multiple=True)
@click.option("--agent", multiple=True)
@click.option("--tenant", multiple=True)
@click.option("--prompt", multiple=True, help="Only this system prompt with these tools, by their hash.")
@click.option("--thread", multiple=True)
@click.option("--finish-reason", multiple=True)
@click.option("--limit", default=50, show_default=True, help="Number of groups; the rest is summed as `other`.")
@click.option("--order", type=click.Choice(ORDERS), default="total_tokens", help="What the top groups are chosen by.")
@click.option("--feedback", multiple=True, help="Add the mean feedback of this name; may be repeated.")
@click.option("--json", "form", flag_value="json", help="Print a JSON object.")
@click.option("--csv", "form", flag_value="csv", help="Print CSV.")
@click.pass_context
def usage(
    context: click.Context,
    /,
    group_by: str,
    bucket: str | None,
    tz: str,
    start: str | None,
    end: str | None,
    limit: int,
    order: str,
    feedback: Sequence[str],
    form: str | None,
    **where: Sequence[str],
) -> None:
    """Sum up usage from the stored turns, so that a replay never counts twice.

    A turn, and its interruption or error, counts in the group of its last response; times are per response.
    """
    if context.invoked_subcommand is not None:
        return
    now = now_ms()
    query = UsageQuery.of([group_by], bucket, tz, (start, end), where, limit, order, now, feedback)
    report = in_store(lambda store: usage_report(store, query))
    if form == "json":
        click.echo(json_text.dumps(report.document()))
    elif form == "csv":
        click.echo(report.csv(), nl=False)
    else:
        _show(report)


@usage.command(short_help="Compute costs again, by today's prices.")
@click.option("--since", type=Moment(), required=True, help="From this time on, or 7d, 12h ago.")
@click.option("--until", type=Moment(), default="now", show_default=True, help="Before this time.")
@click.option("--dry-run", is_flag=True, help="Print what would change, and store nothing.")
def recompute(since: int, until: int, *, dry_run: bool) -> None:
    """Compute costs and estimates of a time range again, from the stored turns, by today's prices.

    Use it after a change of TURNMILL_PRICES or of the package `genai-prices`. Values from streams are kept.
    """
    settings = load()
    sums: dict[tuple[str, str, str], list[int]] = {}

    async def run(store: ThreadStore) -> None:
        async for cost in reprice(store, since, until, dry_run=dry_run):
            key = cost.model or "–", cost.source_before or "no price", cost.source_after or "no price"
            before = sums.get(key, [0, 0, 0])
            sums[key] = [n + more for n, more in zip(before, (1, cost.before or 0, cost.after or 0), strict=True)]

    with recorded():
        if not dry_run:
            set_up(settings.log_level, settings.log_format)
            stretch = f"{iso(since)} to {iso(until)}"
            audit.info("costs from %s computed anew, by %s", stretch, local_user(), extra=of_action(RECOMPUTE, stretch))
        in_store(run, prices=settings.price_list)
    for (model, before, after), (count, old, new) in sorted(sums.items()):
        change = f"${old / NANO:.9f} by {plain(before)} -> ${new / NANO:.9f} by {plain(after)}"
        click.echo(f"{plain(model)}: {many(count, 'response')}, {change}")
    count, old, new = (sum(row[column] for row in sums.values()) for column in range(3))
    done = "would change" if dry_run else "changed"
    click.echo(f"{many(count, 'response')} {done}: ${old / NANO:.9f} -> ${new / NANO:.9f}")


usage.add_command(reconcile)


def _show(report: UsageReport) -> None:
    console = wide_console()
    query = report.query
    head = [*(["from"] if query.bucket else []), *query.group_by]
    figures = ["resp.", "turns", "cut", "err.", "input", "output", "thinking", "cache r/w", "cost $"]
    figures += ["first token", "duration", *(plain(name) for name in query.feedback)]
    columns = (Column(name, justify="right", no_wrap=True) for name in figures)
    table = Table(*head, *columns, box=None, pad_edge=False)
    for row in report.rows:
        table.add_row(*_names(row, query), *_cells(row.figures))
    if report.rows:
        table.add_section()
    table.add_row(*["total", *[""] * len(head)][: len(head)], *_cells(report.total), style="bold")
    console.print(table)
    console.print("times: p50 / p95 / p99", style="dim")
    if report.unpriced:
        named = ", ".join(f"{plain(model)} ({count:,})" for model, count in report.unpriced.items())
        without = f"no price is known for responses of: {named}; the cost leaves them out"
        console.print(Text(without, style="yellow"))


def _names(row: UsageRow, query: UsageQuery) -> list[Text]:
    start = [] if row.bucket is None else [Text(label(row.bucket, query.tz))]
    names = [OTHER if row.other else row.group[name] or "–" for name in query.group_by]
    return [*start, *(Text(plain(name)) for name in names)]


def _cells(figures: Figures) -> list[Any]:
    counts = [f"{getattr(figures, name):,}" for name in COUNTS]
    cached = " / ".join(f"{getattr(figures, name):,}" for name in CACHED)
    cost = f"{figures.cost_usd:,.4f}" + ("*" if figures.unpriced else "")
    cost += f" ≈{figures.estimated_cost_usd:,.4f}" if figures.estimated_tokens else ""
    judged = [
        f"{mean.total / mean.count:.2f} ({mean.count:,})" if mean.count else "" for mean in figures.feedback.values()
    ]
    return [*counts, cached, cost, _times(figures.ttft_ms), _times(figures.duration_ms), *judged]


def _times(times: Percentiles) -> str:
    if times.p50 is None:
        return ""
    return " / ".join(f"{(value or 0) / 1000:.2f}" for value in (times.p50, times.p95, times.p99)) + " s"
