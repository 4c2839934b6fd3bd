"""The hash of what several wires share: a run has one, whichever of these wires it came over."""

from __future__ import annotations

import hashlib
from typing import Final

from pipeline.dialects import DIALECTS
from pipeline.turns.canonical import essence, jcs
from pipeline.turns.losses import Carrier
from topics.json_text import Fields

CARRIERS: Final[dict[str, Carrier]] = {
    carrier.name: carrier for dialect in DIALECTS.values() for carrier in dialect.carriers or (Carrier(dialect.name),)
}


def shared_essence(turn: Fields, *wires: str) -> Fields:
    """What is hashed of a turn, without what any of these wires can't carry: names in CARRIERS, or KeyError."""
    lossy = {name for wire in wires for name in _with_those_below(wire)}
    said = essence(turn)
    for carrier in CARRIERS.values():  # in this order, whatever the caller's: some rows build on those before
        for loss in carrier.losses if carrier.name in lossy else ():
            said = loss.drop(said)
    return said


def _with_those_below(wire: str) -> list[str]:
    over = CARRIERS[wire].over
    return [wire, *(_with_those_below(over) if over is not None else ())]


def shared_hash(turn: Fields, *wires: str) -> str:
    """Hex SHA-256 of `shared_essence`: alike where a run says the same on what all of these wires carry."""
    return hashlib.sha256(jcs(shared_essence(turn, *wires))).hexdigest()
