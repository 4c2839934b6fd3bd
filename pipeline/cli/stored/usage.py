"""`turnmill usage`: tokens, cost, turns, errors and times, from the stored turns."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import click
from rich.table import Column, Table
from rich.text import Text

from pipeline.cli.groups import Group
from pipeline.cli.options import Moment
from pipeline.cli.output import UNKNOWN, dollars, many, wide_console
from pipeline.cli.running import load_running
from pipeline.cli.stored.reconcile import reconcile
from pipeline.cli.stored.selection import in_store, labels, recorded
from pipeline.cli.stored.steps import tools
from pipeline.cli.stored.thread_view import plain
from pipeline.observability.audit import audit, local_user
from pipeline.observability.audit import of as of_action
from pipeline.observability.logs import set_up
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
RARE = {  # columns where any row has such a count
    "cache_write_1h_tokens": "write 1 h",
    "input_audio_tokens": "audio in",
    "output_audio_tokens": "audio out",
    "cache_audio_read_tokens": "audio cached",
    "input_image_tokens": "images in",
    "output_image_tokens": "images out",
    "cache_image_read_tokens": "images cached",
    "web_searches": "web searches",
    "storage_searches": "file searches",
    "audio_seconds": "audio s",
}
LISTED = {"service_tier": "standard", "purpose": "answer"}  # what an empty name stands for


@click.group(cls=Group, invoke_without_command=True, short_help="Sum up tokens, cost, turns, errors and times.")
@click.option("--group-by", default="model", show_default=True, help=f"Any of {', '.join(GROUPS)}, or nothing.")
@click.option("--bucket", type=click.Choice(BUCKETS), help="Also split by this unit of time.")
@click.option("--tz", default="UTC", show_default=True, help="Time zone of buckets, and of times without one.")
@click.option("--since", "start", help="From this time on: 2026-01-20, 2026-01-20T10:00, or 24h, 7d ago.")
@click.option("--until", "end", help="Before this time.")
@click.option("--model", multiple=True, help="Only this model; this and the next filters may be repeated.")
@click.option("--provider", multiple=True)
@click.option("--agent", multiple=True)
@click.option("--tenant", multiple=True)
@click.option("--prompt", multiple=True, help="Only this system prompt with these tools, by their hash.")
@click.option("--thread", multiple=True)
@click.option("--finish-reason", multiple=True)
@click.option("--service-tier", multiple=True, help="As flex, priority, batch, fast; empty for the standard tier.")
@click.option("--purpose", multiple=True, help="Of calls beside the answer, as compaction; empty for the answer.")
@partial(labels, text="Only runs of this {}.", multiple=True)
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
    settings = load_running()
    sums: dict[tuple[str, str, str], list[int | None]] = {}

    async def run(store: ThreadStore) -> None:
        async for cost in reprice(store, since, until, dry_run=dry_run):
            key = cost.model or UNKNOWN, cost.source_before or "no price", cost.source_after or "no price"
            sums[key] = _sums([sums.get(key, [None] * 3), [1, cost.before, cost.after]])

    with recorded():
        if not dry_run:
            set_up(settings.log_level, settings.log_format)
            stretch = f"{iso(since)} to {iso(until)}"
            audit.info("costs from %s computed anew, by %s", stretch, local_user(), extra=of_action(RECOMPUTE, stretch))
        in_store(run, prices=settings.price_list)
    for (model, before, after), (count, old, new) in sorted(sums.items()):
        change = f"{_exact(old)} by {plain(before)} -> {_exact(new)} by {plain(after)}"
        click.echo(f"{plain(model)}: {many(count or 0, 'response')}, {change}")
    count, old, new = _sums([[None] * 3, *sums.values()])
    done = "would change" if dry_run else "changed"
    click.echo(f"{many(count or 0, 'response')} {done}: {_exact(old)} -> {_exact(new)}")


def _sums(rows: Sequence[Sequence[int | None]]) -> list[int | None]:
    """Return the sum of each column: of what is known, None where nothing is."""
    known = ([value for value in column if value is not None] for column in zip(*rows, strict=True))
    return [sum(values) if values else None for values in known]


def _exact(nano: int | None) -> str:
    return UNKNOWN if nano is None else f"${nano / NANO:.9f}"


usage.add_command(reconcile)
usage.add_command(tools)


def _show(report: UsageReport) -> None:
    console = wide_console()
    query = report.query
    head = [*(["from"] if query.bucket else []), *query.group_by]
    rare = [name for name in RARE if getattr(report.total, name)]
    figures = ["resp.", "turns", "cut", "err.", "input", "output", "thinking", "cache r/w"]
    figures += [*(RARE[name] for name in rare), "cost"]
    figures += ["first token", "duration", *(plain(name) for name in query.feedback)]
    columns = (Column(name, justify="right", no_wrap=True) for name in figures)
    table = Table(*head, *columns, box=None, pad_edge=False)
    for row in report.rows:
        table.add_row(*_names(row, query), *_cells(row.figures, rare))
    if report.rows:
        table.add_section()
    table.add_row(*["total", *[""] * len(head)][: len(head)], *_cells(report.total, rare), style="bold")
    console.print(table)
    console.print("times: p50 / p95 / p99", style="dim")
    for line in _of_cost(report.total):
        console.print(Text(line, style="dim"))
    if report.unpriced:
        named = ", ".join(f"{plain(model)} ({count:,})" for model, count in report.unpriced.items())
        without = f"no price is known for responses of: {named}; the cost leaves them out"
        console.print(Text(without, style="yellow"))
        for reason, count in report.unpriced_reasons.items():
            console.print(Text(f"  {plain(reason)} ({count:,})", style="yellow"))


def _of_cost(total: Figures) -> Iterator[str]:
    """Yield a line with the parts of the cost, unless prices gave all of it, and a line for told costs that differ."""
    if total.told_nano_usd or total.assumed_nano_usd:
        parts = (f"{dollars(part)} {kind}" for kind, part in total.parts_of_cost.items() if part)
        yield f"cost: {', '.join(parts)}"
    if total.differing:
        told, computed = (dollars(nano / NANO) for nano in (total.differing_nano_usd, total.computed_nano_usd))
        of = many(total.differing, "response")
        yield f"told and computed differ by more than 1 % in {of}: {told} told, {computed} computed"


def _names(row: UsageRow, query: UsageQuery) -> list[Text]:
    start = [] if row.bucket is None else [Text(label(row.bucket, query.tz))]
    names = [OTHER if row.other else row.group[name] or LISTED.get(name, UNKNOWN) for name in query.group_by]
    return [*start, *(Text(plain(name)) for name in names)]


def _cells(figures: Figures, rare: Sequence[str]) -> list[Any]:
    counts = [_count(figures, name) for name in COUNTS]
    cached = " / ".join(_count(figures, name) for name in CACHED)
    cost = dollars(figures.cost_usd) + ("*" if figures.unpriced and figures.cost_usd is not None else "")
    if figures.estimated_tokens:
        cost += f" ≈{dollars(figures.estimated_cost_usd)}"
    judged = [
        f"{mean.total / mean.count:.2f} ({mean.count:,})" if mean.count else UNKNOWN
        for mean in figures.feedback.values()
    ]
    more = (_count(figures, name) for name in rare)
    return [*counts, cached, *more, cost, _times(figures.ttft_ms), _times(figures.duration_ms), *judged]


def _count(figures: Figures, name: str) -> str:
    value = figures.known(name)
    return UNKNOWN if value is None else f"{value:,}"


def _times(times: Percentiles) -> str:
    if times.p50 is None:
        return UNKNOWN
    return " / ".join(f"{(value or 0) / 1000:.2f}" for value in (times.p50, times.p95, times.p99)) + " s"
