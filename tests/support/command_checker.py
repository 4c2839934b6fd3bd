"""What must hold of commands to runs, said by the topics alone: of events, of control, and of turns. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnmill.control.record import EVENT, Command, command_of

Subject = tuple[str, str, str]  # tenant, thread, run


@dataclass(slots=True)
class Said:
    """What the runs have said: each acknowledgement with its run, and where each run ended."""

    acknowledged: list[tuple[Subject, int, dict[str, Any]]] = field(default_factory=list)  # with its seq
    ended_at: dict[Subject, int] = field(default_factory=dict)  # the first seq that may not be there
    last: dict[Subject, int] = field(default_factory=dict)
    parents: dict[Subject, Subject] = field(default_factory=dict)


def said_by(envelopes: Iterable[dict[str, Any]]) -> Said:
    """Fold the records of the events topic; the same record twice is one."""
    found = Said()
    seen: set[tuple[Subject, int]] = set()
    for envelope in envelopes:
        of = envelope.get("tenant") or "", envelope["thread_id"], envelope["run_id"]
        facts = envelope.get("run") or {}
        if facts.get("parent_run_id"):
            found.parents[of] = of[0], facts.get("parent_thread_id") or of[1], facts["parent_run_id"]
        for seq, event in enumerate(envelope["events"], envelope["seq"]):
            found.last[of] = max(found.last.get(of, -1), seq)
            if isinstance(event, dict) and EVENT in event.values() and (of, seq) not in seen:
                seen.add((of, seq))
                found.acknowledged.append((of, seq, event))
        if envelope.get("end") is not None:
            found.ended_at[of] = envelope["seq"] + len(envelope["events"])
    return found


def problems(
    envelopes: Iterable[dict[str, Any]], control: Sequence[dict[str, Any]], turns: Iterable[dict[str, Any]]
) -> Iterator[str]:
    """Yield what is wrong. `control`: the records of its topic in their order; `turns`: records of the turns topic."""
    said = said_by(envelopes)
    commands: dict[str, Command] = {}
    first: dict[tuple[Any, str, str], Command] = {}  # answers that count
    for record in control:
        command = command_of(record)
        if command is not None:
            commands.setdefault(command.id, command)
            if command.kind == "answer":
                first.setdefault((command.tenant, command.thread_id, command.payload["answer_id"]), command)
    winners = {one.id for one in first.values()}
    yield from _applied(said, commands, winners)
    yield from _told(said, commands, winners, control)
    for turn in turns:
        stopped = (turn.get("turn") or {}).get("meta:stopped_by")
        command = commands.get(stopped["command_id"]) if stopped else None
        if command is not None and command.mode == "now" and turn["turn"]["completion_status"] == "complete":
            yield f"the run {turn['run_id']} was stopped by {command.id}, and is stored as complete"


def _applied(said: Said, commands: dict[str, Command], winners: set[str]) -> Iterator[str]:
    applied: Counter[tuple[str, Subject]] = Counter()
    for of, seq, event in said.acknowledged:
        command = commands.get(str(event["id"]))
        if command is None:
            yield f"{of} acknowledges {event['id']}, which nobody gave"
            continue
        if seq >= said.ended_at.get(of, seq + 1):
            yield f"{of} acknowledges {command.id} behind its end"
        own = command.tenant or "", command.thread_id, command.run_id
        of_thread = command.kind == "answer" and of[:2] == own[:2]
        above = _above(said, of) if command.kind == "stop" else ()
        if not of_thread and own not in (of, *above):
            yield f"{of} acknowledges {command.id}, which is for {own}"
        if event.get("state") != "acknowledged":
            continue
        applied[command.id, of if command.kind == "stop" else own] += 1
        if command.kind == "answer" and command.id not in winners:
            yield f"{of} goes on with the answer {command.id}, and another one came first"
    yield from (f"{command_id} was applied {times} times" for (command_id, _), times in applied.items() if times > 1)


def _above(said: Said, of: Subject) -> Iterator[Subject]:
    while of in said.parents:
        of = said.parents[of]
        yield of


def _told(
    said: Said, commands: dict[str, Command], winners: set[str], control: Sequence[dict[str, Any]]
) -> Iterator[str]:
    heard: dict[str, set[Subject]] = defaultdict(set)
    for of, _, event in said.acknowledged:
        if event.get("state") == "acknowledged":
            heard[str(event["id"])].add(of)
    for record in control:
        payload = record.get("payload", {})
        command = commands.get(str(payload.get("command_id"))) if record["kind"] == "state" else None
        if command is None:
            continue
        state, own = payload["state"], (command.tenant or "", command.thread_id, command.run_id)
        if state in ("acknowledged", "ended") and not heard[command.id]:
            yield f"{command.id} is called {state}, and no run has said so"
        if state in ("ended", "completed") and own not in said.ended_at:
            yield f"{command.id} is called {state}, and its run goes on"
        if command.kind == "answer" and command.id not in winners and state not in ("refused", "unanswered"):
            yield f"{command.id} is called {state}, and another answer came first"
        if command.kind == "answer" and command.id in winners and state == "refused":
            yield f"{command.id} came first, and is refused"
    for of, end in said.ended_at.items():
        if said.last.get(of, -1) >= end:
            yield f"{of} goes on behind its end"
