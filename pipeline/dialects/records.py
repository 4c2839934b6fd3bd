"""The record of a wire, from the names in its package, so that a package says only in what its wire differs."""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from pipeline.assembly.dialect import Dialect, Format
from pipeline.dialects.deltas import stretches
from pipeline.turns.losses import Carrier, Loss
from turnmill.wire.registry import WIRES

OF_PACKAGE: Final = ("recognises", "shows", "ended", "conversation")
OF_EVENTS: Final = {"handlers": "HANDLERS", "stretches": "STRETCHES", "deltas": "DELTAS"} | {
    name: name for name in ("unknown", "begin", "finish")
}


def dialect(package: str, losses: tuple[Loss, ...] = (), **differs: Any) -> Dialect:
    """Return the record of the wire of a package, which calls this in its last statement.

    Its fields are the functions OF_PACKAGE there, the tables and functions OF_EVENTS in its module `events`, and the
    format of `messages` and `READER` in its module `formats`, as far as there are such. Deltas without STRETCHES get
    those of plain deltas. `losses`: what the wire can't carry. `differs`: fields that are not found by these names.
    """
    name, here = package.rpartition(".")[2].replace("_", "-"), vars(sys.modules[package])
    wire, events = WIRES[name], import_module(f"{package}.events")
    fields: dict[str, Any] = {field: here[field] for field in OF_PACKAGE if field in here}
    fields |= {field: getattr(events, member) for field, member in OF_EVENTS.items() if hasattr(events, member)}
    if "deltas" in fields and "stretches" not in fields:
        fields["stretches"] = stretches(fields["deltas"], wire.kind)
    if "formats" not in differs and find_spec(f"{package}.formats"):
        formats = import_module(f"{package}.formats")
        fields["formats"] = (Format(name, formats.messages, getattr(formats, "READER", None)),)
    if losses:
        fields["carriers"] = (Carrier(name, losses),)
    return Dialect(name, wire, **{**fields, **differs})
