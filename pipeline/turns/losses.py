"""The rows of losses that several wires have in common: what the hash leaves out, since a wire can't carry it."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.turns.essence_filters import Drop


@dataclass(frozen=True, slots=True)
class Loss:
    """One thing that is lost. `becomes`: what is there in its place. `drop` takes it out of a turn's essence.

    What is in no essence (times, tokens, `meta:*`) needs no row.
    """

    what: str
    becomes: str
    drop: Drop


@dataclass(frozen=True, slots=True)
class Carrier:
    """One way in which turns come: a wire, or what an SDK makes of it. It lacks all that the carrier `over` lacks, too.

    Rows are applied in their order: some build on those before.
    """

    name: str
    losses: tuple[Loss, ...] = ()
    over: str | None = None
