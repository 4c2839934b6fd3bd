"""Losses that several wires have in common: what the hash leaves out, since a wire can't carry it."""

from dataclasses import dataclass
from typing import Final

from pipeline.turns import essence_filters as drop
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


def unnamed(becomes: str) -> Loss:
    """Return the loss of what names a response."""
    fields = drop.response_fields("model_name", "provider_name", "provider_response_id")
    return Loss("model, provider, response id", becomes, fields)


PROVIDER: Final = Loss(
    "provider, response id",
    "provider from the publisher's `run`",
    drop.response_fields("provider_name", "provider_response_id"),
)
BY_CALLS: Final = "`tool_call` where it has calls, else `stop`"
REASONS: Final = Loss("why a response ended", BY_CALLS, drop.finish_reasons(but_the_last=False))
EARLIER_REASONS: Final = Loss(
    "why a response ended, but the last one", BY_CALLS, drop.finish_reasons(but_the_last=True)
)
RETRIES: Final = Loss(
    "that the answer was refused and the model asked again, where no tool is involved",
    "the second response follows on the first",
    drop.parts(drop.is_retry_without_tool),
)
