"""`turnmill topics`: the topics of the catalog, and those on the broker."""

import asyncio
import dataclasses
import json
from collections.abc import Sequence
from importlib.metadata import version
from typing import Final

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from pipeline.cli.groups import Group
from pipeline.kafka.admin import apply_topics, describe_topics, topic_changes
from pipeline.kafka.topic_plan import Found
from pipeline.settings import load
from pipeline.worker.host.roles import OPERATIONS
from topics.asyncapi import document
from topics.catalog import CATALOG, DAY_MS

DONE: Final = {
    "create": "[green]created[/]",
    "configure": "[green]configured[/]",
    "grow": "[green]grown[/]",
    "left": "[yellow]left[/]",
}
TO_DO: Final = {"create": "missing", "configure": "differs", "grow": "too small", "left": "differs"}


@click.group("topics", cls=Group, short_help="List, create and describe the topics.")
def topics() -> None:
    """List, create and describe the topics."""


@topics.command("list", short_help="List the topics that Turnmill declares.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array of the topics.")
def list_topics(*, as_json: bool) -> None:
    """List the topics that Turnmill declares, whether they are on the broker or not."""
    prefix = load().topic_prefix
    if as_json:
        rows = [{"topic": t.full_name(prefix), **dataclasses.asdict(t), "config": t.config()} for t in CATALOG]
        click.echo(json.dumps(rows, indent=2))
        return
    table = _table("topic", "value", "kept")
    table.add_column("what it holds")
    for t in CATALOG:
        kept = f"{t.retention_ms / DAY_MS:g} days" + (", compacted" if "compact" in t.cleanup else "")
        table.add_row(t.full_name(prefix), t.value, kept, t.summary)
    Console(highlight=False).print(table)


@topics.command("apply", short_help="Create missing topics; correct the others.")
@click.option("--grow", is_flag=True, help="Also add partitions where there are fewer than TURNMILL_PARTITIONS.")
def apply(*, grow: bool) -> None:
    """Create missing topics, and correct the configuration of others; nothing is ever deleted."""
    settings = load()
    console = Console(highlight=False)
    changes = asyncio.run(apply_topics(settings, grow=grow))
    for change in changes:
        console.print(f"{DONE[change.action]} {escape(change.topic)}: {escape(change.detail)}", soft_wrap=True)
    if not changes:
        console.print(f"All {len(CATALOG)} topics of {settings.topic_prefix} are as they should be.")


@topics.command("describe", short_help="Show the topics that are on the broker.")
@click.option("--partitions", is_flag=True, help="A line for each partition.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object: topics with partitions, and differences.")
def describe(*, partitions: bool, as_json: bool) -> None:
    """Show the topics on the broker: partitions, replicas, offsets, and differences from the catalog."""
    settings = load()
    described, changes = asyncio.run(describe_topics(settings)), asyncio.run(topic_changes(settings))
    if as_json:
        rows = [{**dataclasses.asdict(t), "replication": t.replication} for t in described]
        differences = [dataclasses.asdict(change) for change in changes]
        click.echo(json.dumps({"topics": rows, "differences": differences}, indent=2))
        return
    console = Console(highlight=False)
    console.print(_by_partition(described) if partitions else _by_topic(described))
    for change in changes:
        difference = f"{escape(change.topic)}: {escape(change.detail)}"
        console.print(f"[yellow]{TO_DO[change.action]}[/] {difference}", soft_wrap=True)
    if any(change.action != "left" for change in changes):
        console.print("`turnmill topics apply` puts that right.")


@topics.command("asyncapi")
def asyncapi() -> None:
    """Print the AsyncAPI 3 document of the topics, as JSON."""
    settings = load()
    described = document(
        settings.topic_prefix,
        operations=OPERATIONS,
        version=version("turnmill"),
        brokers=settings.broker_list,
        partitions=settings.partitions,
        replicas=settings.replication,
    )
    click.echo(json.dumps(described, indent=2, ensure_ascii=False))


def _table(*columns: str) -> Table:
    """Return a table without rules, whose `columns` are not wrapped."""
    return Table(*(Column(name, no_wrap=True) for name in columns), box=None, pad_edge=False, collapse_padding=True)


def _by_topic(topics: Sequence[Found]) -> Table:
    table = _table("topic", "partitions", "replicas", "in sync", "records", "cleanup", "days")
    for topic in topics:
        records = sum(p.end - p.begin for p in topic.partitions if p.begin is not None and p.end is not None)
        behind = [p.id for p in topic.partitions if len(p.in_sync) < len(p.replicas)]
        table.add_row(
            topic.name,
            str(len(topic.partitions)),
            str(topic.replication),
            f"all but partitions {', '.join(map(str, behind))}" if behind else "all",
            f"{records:,}",
            topic.config.get("cleanup.policy", ""),
            f"{int(topic.config.get('retention.ms', 0)) / DAY_MS:g}",
        )
    return table


def _by_partition(topics: Sequence[Found]) -> Table:
    table = _table("topic", "partition", "leader", "replicas", "in sync", "begin", "end")
    for topic in topics:
        for p in topic.partitions:
            numbers = (p.leader, p.begin, p.end)
            leader, begin, end = ("none" if number is None else str(number) for number in numbers)
            copies, in_sync = (", ".join(map(str, ids)) for ids in (p.replicas, p.in_sync))
            table.add_row(topic.name, str(p.id), leader, copies, in_sync, begin, end)
    return table
