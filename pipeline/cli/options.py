"""Options that several commands have."""

from __future__ import annotations

from typing import Final

import click

from pipeline.dialects import DIALECTS
from pipeline.dialects.recognition import AUTO

dialect_option: Final = click.option(
    "--dialect",
    default=AUTO,
    show_default=True,
    type=click.Choice([AUTO, *sorted(DIALECTS)]),
    help="What the files hold; auto: what FILE.run.json names, or what the first events are recognised as.",
)
