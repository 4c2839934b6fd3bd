"""`turnmill settings`: the options in force."""

import json
import shutil
import textwrap
from typing import Final

import click

from pipeline.settings import load, table

COLUMNS: Final = ("variable", "value", "default", "meaning")
INDENT: Final = "    "
WIDTH: Final = 120  # maximum columns of a text


@click.command(short_help="Show every TURNMILL_* variable and its value.")
@click.option("--json", "as_json", is_flag=True, help="A JSON object: variable -> value, default, meaning.")
@click.option("--markdown", is_flag=True, help="A Markdown table of the variables and their defaults, for documents.")
def settings(*, as_json: bool, markdown: bool) -> None:
    """Show every TURNMILL_* variable: the value in force, the default, the meaning. Passwords are masked."""
    rows = table(load())
    if as_json:
        click.echo(json.dumps({name: dict(zip(COLUMNS[1:], rest, strict=True)) for name, *rest in rows}, indent=2))
    elif markdown:
        click.echo("| variable | default | meaning |\n|---|---|---|")
        for name, _, default, meaning in rows:
            click.echo(f"| `{name}` | {f'`{default}`' if default else ''} | {meaning.replace('|', '&#124;')} |")
    else:
        width = min(shutil.get_terminal_size((WIDTH, 0)).columns, WIDTH)
        for name, value, default, meaning in rows:
            differs = value not in ("", default)
            shown = f"{click.style(value, bold=True)}{f' (default {default})' if default else ''}" if differs else value
            click.echo(f"{name} = {shown}")
            click.echo(textwrap.fill(meaning, width, initial_indent=INDENT, subsequent_indent=INDENT))
