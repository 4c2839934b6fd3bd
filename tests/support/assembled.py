"""One run's events -> what becomes of them, without a broker: what the tests of dialects and exports look at."""

from dataclasses import dataclass
from typing import Any

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS, FORMATS
from pipeline.turns.thread_document import thread_document
from topics.turn_record import TurnRecord

THREAD_ID = "0b0c4a3e-6a53-4a9e-9d0f-0d8f4c9d1a11"
START = 1_768_928_342_000


@dataclass(frozen=True, slots=True)
class Assembled:
    """A run's turns, its thread document, and what was refused."""

    records: list[TurnRecord]
    document: dict[str, Any]
    refused: list[str]  # reason: detail

    @property
    def turns(self) -> list[dict[str, Any]]:
        return self.document["turns"]

    @property
    def agent_turns(self) -> list[dict[str, Any]]:
        return [turn for turn in self.turns if turn["turn_type"] == "agent"]

    @property
    def user_turns(self) -> list[dict[str, Any]]:
        return [turn for turn in self.turns if turn["turn_type"] == "user"]

    def messages(self, kind: str) -> list[dict[str, Any]]:
        return [m for turn in self.agent_turns for m in turn["messages"] if m["message_type"] == kind]

    def parts(self, kind: str) -> list[dict[str, Any]]:
        return [part for message in self.messages(kind) for part in message["parts"]]

    def export(self, form: str) -> list[dict[str, Any]]:
        return FORMATS[form].write(self.document)


def assembled(dialect: str, *batches: list[dict[str, Any]], ts: int = START, step: int = 10, **rest: Any) -> Assembled:
    """Assemble batches of events, each event `step` ms after the one before; `rest`: run, end of the envelope."""
    envelopes: list[dict[str, Any]] = []
    seq = 0
    for batch in batches:
        identity = {"v": 1, "thread_id": THREAD_ID, "run_id": "run-1", "agent_id": "agent-1", "dialect": dialect}
        dt = [step * n for n in range(len(batch))]
        envelopes.append({**identity, "seq": seq, "ts": ts + step * seq, "events": batch, "dt": dt})
        seq += len(batch)
    if "run" in rest:
        envelopes[0]["run"] = rest["run"]
    if "end" in rest:
        envelopes[-1]["end"] = rest["end"]
    records, refused = assemble(DIALECTS[dialect], envelopes)
    return Assembled(records, thread_document(THREAD_ID, records), [f"{r.reason}: {r.detail}" for r in refused])
