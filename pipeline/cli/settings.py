"""`threadmill settings`: the options in force."""

from __future__ import annotations

import json

import click
from rich.table import Table
from rich.text import Text

from pipeline.cli.output import wide_console
from pipeline.settings import load, table

COLUMNS = ("variable", "value", "default", "meaning")


@click.command(short_help="Show every THREADMILL_* variable and its value.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object: variable -> value, default, meaning.")
@click.option("--markdown", is_flag=True, help="A Markdown table of the variables and their defaults, for documents.")
def settings(*, as_json: bool, markdown: bool) -> None:
    """Show every THREADMILL_* variable: the value in force, the default, what it means. Passwords are masked."""
    rows = table(load())
    if as_json:
        click.echo(json.dumps({name: dict(zip(COLUMNS[1:], rest, strict=True)) for name, *rest in rows}, indent=2))
    elif markdown:
        click.echo("| variable | default | meaning |\n|---|---|---|")
        for name, _, default, meaning in rows:
            click.echo(f"| `{name}` | {f'`{default}`' if default else ''} | {meaning.replace('|', '&#124;')} |")
    else:
        view = Table(*COLUMNS, box=None, pad_edge=False)
        view.columns[0].no_wrap = True
        for name, value, default, meaning in rows:
            style = "" if value == default or not value else "bold"
            view.add_row(name, Text(value, style=style), Text(default), Text(meaning))
        wide_console().print(view)


commands = [settings]
