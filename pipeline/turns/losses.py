"""Losses that several wires have in common: what the hash leaves out, since a wire can't carry it."""

from dataclasses import dataclass

from pipeline.turns.essence_filters import Drop


@dataclass(frozen=True, slots=True)
class Loss:
    """One loss. `what` is lost, and `becomes` is there instead. `drop` removes it from a turn's essence.

    What no essence includes (times, tokens, `meta:*`) needs no entry.
    """

    what: str
    becomes: str
    drop: Drop


@dataclass(frozen=True, slots=True)
class Carrier:
    """A wire, or an SDK's form of it, by which turns come. It also has all losses of the carrier `over`.

    Losses are applied in their order, since some build on earlier ones.
    """

    name: str
    losses: tuple[Loss, ...] = ()
    over: str | None = None
