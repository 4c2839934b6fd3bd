"""Records of four topics -> figures. Pure: no client, no clock; unreadable records are ignored.

Tokens are counted from telemetry, as responses end; turns, their errors and their cost from finished turns, priced as
in the store. A repeated record counts once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from pipeline.dialects import text_of
from pipeline.gateway.dashboard.figures import Figures, Series
from pipeline.gateway.live.event_record import EventRecord
from pipeline.observability.telemetry_meter import MODEL, Seen
from pipeline.policies.prices import NONE, Prices
from pipeline.stores.costs.rows import usage_rows
from pipeline.turns import tokens
from pipeline.turns.reading import Reading
from topics import telemetry, turn_record
from topics.catalog import DEAD_LETTERS, TELEMETRY, TURNS
from topics.thread_key import ThreadKey
from turnmill.errors import InvalidRecord
from turnmill.limits import NAME_CHARACTERS

MAX_TURNS: Final = 20_000
TAIL_CHARACTERS: Final = 160  # characters kept of a run's text, at its end


class Intake:
    """The figures of the last minutes; a gateway has one."""

    def __init__(self, own: Prices = NONE) -> None:
        """Begin without figures; `own`: prices of the settings."""
        self._own = own
        self.figures = Figures()
        self._telemetry = Seen(20_000)
        self._turns: OrderedDict[tuple[ThreadKey, str], None] = OrderedDict()  # (thread, turn_id)
        self._handlers: Final[dict[str, Callable[[bytes, int], None]]] = {
            TELEMETRY.name: self._usage,
            TURNS.name: self._turn,
            DEAD_LETTERS.name: self._dead_letter,
        }

    def take(self, topic: str, value: bytes | None, at: int) -> None:
        """Take one record of a topic other than events; `at`: its time by the broker, epoch ms."""
        try:
            self._handlers[topic](value or b"", at)
        except (InvalidRecord, ValueError, TypeError, KeyError, AttributeError):
            return  # malformed: the worker's stage that reads it makes a dead letter, or logs it

    def event(self, record: EventRecord) -> None:
        """Take one record of the events topic, and keep the end of its run's text."""
        envelope, run = record.envelope, record.run
        if envelope is not None and run is not None and not run.imported:
            if text := text_of(envelope["dialect"], envelope["events"]):
                run.text = (run.text + text)[-TAIL_CHARACTERS:]
            series = Series(run.model, run.agent_id, run.key.tenant)
            self.figures.add(record.at // 1000, series, {"events": len(envelope["events"])})

    def _usage(self, value: bytes, at: int) -> None:
        record = telemetry.decode(value)
        data = record["data"]
        if record["type"] != "data-sys-usage" or not isinstance(data, dict):
            return
        if not self._telemetry.first(record):
            return
        reading = Reading(data)
        known = tokens.read(reading)
        figures = {name: known.get(name, 0) for name in ("input_tokens", "output_tokens")}
        model = reading.text(MODEL) or record.get("model_name")
        self.figures.add(
            at // 1000, Series(_name(model), _name(record["agent_id"]), _name(record.get("tenant"))), figures
        )

    def _turn(self, value: bytes, at: int) -> None:
        record = turn_record.decode(value)
        if record.get("imported"):
            return
        thread = ThreadKey.of(record["thread_id"], record.get("tenant"))
        turn = thread, record["turn_id"]
        if turn in self._turns:  # a repetition or a revision
            return
        self._turns[turn] = None
        if len(self._turns) > MAX_TURNS:
            self._turns.popitem(last=False)
        for row in usage_rows(record, self._own):
            figures = {name: int(row[name] or 0) for name in ("turns", "interrupted", "errors", "cost_nano_usd")}
            figures["unpriced"] = int(row["cost_nano_usd"] is None and bool(row["total_tokens"]))
            self.figures.add(at // 1000, Series(_name(row["model"]), _name(row["agent_id"]), row["tenant"]), figures)

    def _dead_letter(self, value: bytes, at: int) -> None:
        self.figures.add(at // 1000, Series(None, None, None), {"dead_letters": 1})


def _name(value: object) -> str | None:
    return value[:NAME_CHARACTERS] if isinstance(value, str) and value else None
