"""What helpers of frameworks publish in the thread of the process, whose broker is away."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from tests.support.spools import away, spooled
from turnmill.capture import runtime


@dataclass(frozen=True)
class Heard:
    """One run that was published."""

    thread: str | None  # as the program called it
    first: dict[str, Any]  # its first record
    events: list[Any]
    end: str | None

    def turns(self) -> list[dict[str, Any]]:
        """What is assembled of it: nothing is refused."""
        found, refused = assemble(
            DIALECTS[self.first["dialect"]],
            [{**self.first, "events": self.events, "dt": [0] * len(self.events), "end": self.end}],
        )
        assert refused == []
        return [record["turn"] for record in found if record["turn"]]

    def said(self) -> list[list[tuple[Any, ...]]]:
        """The content of its messages, the user's first."""
        user, *agents = self.turns()
        messages = [user, *(message for agent in agents for message in agent["messages"])]
        return [[spoken(part) for part in message["parts"]] for message in messages if "parts" in message]


def spoken(part: dict[str, Any]) -> tuple[Any, ...]:
    return (part["part_kind"], part["args"] if "args" in part else part["content"])


@pytest.fixture
def heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[Heard]]]:
    """A function that ends the publishing -> the runs, in order of their beginning."""
    monkeypatch.setattr(runtime, "KEEP_AFTER", 0.1)
    settings = away(tmp_path)
    runtime.restart(settings)

    def ended() -> list[Heard]:
        runtime.runtime().stop()
        runs: dict[str, list[dict[str, Any]]] = {}
        for record in spooled(settings):
            runs.setdefault(record["run_id"], []).append(record)
        return [
            Heard(
                records[0].get("run", {}).get("external_id"),
                records[0],
                [event for record in records for event in record["events"]],
                records[-1].get("end"),
            )
            for records in runs.values()
        ]

    yield ended
    runtime.restart()
