"""`turnmill.control` among a run's events: its program has heard a command. The same on all wires."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Dialect
from topics.json_text import Fields
from turnmill.control_record import EVENT

STOPPED_BY: Final = "meta:stopped_by"


def heard(builder: Builder, event: Fields) -> None:
    """Note in the agent's turn who stopped it; the first command counts."""
    command, by = event["id"], event.get("by")
    if event.get("state") == "acknowledged" and STOPPED_BY not in builder.turn_fields:
        builder.turn_fields[STOPPED_BY] = {"command_id": str(command), "by": str(by)}


def with_control(dialect: Dialect) -> Dialect:
    """Return a dialect that takes acknowledgements, whatever its wire; its own handlers never see them."""
    return replace(dialect, handlers={**dialect.handlers, EVENT: heard})
