"""The hash of the content that several wires can all carry: a run has the same hash over each of them."""

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
    """Return the turn's essence without anything that one of these wires can't carry."""
    lossy = {name for wire in wires for name in _with_those_below(wire)}
    shared = essence(turn)
    for carrier in CARRIERS.values():  # in the order of CARRIERS, not the caller's: some rows build on those before
        for loss in carrier.losses if carrier.name in lossy else ():
            shared = loss.drop(shared)
    return shared


def _with_those_below(wire: str) -> list[str]:
    over = CARRIERS[wire].over
    return [wire, *(_with_those_below(over) if over is not None else ())]


def shared_hash(turn: Fields, *wires: str) -> str:
    """Return the SHA-256 of `shared_essence`, hex: equal if turns differ only in what one of the wires can't carry."""
    return hashlib.sha256(jcs(shared_essence(turn, *wires))).hexdigest()
