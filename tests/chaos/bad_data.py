"""Loads of publishers that misbehave, and what must come of them."""

import asyncio
import random
import uuid
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from tests.chaos.load import Answer, Load, Record, cut, load_of, mixed
from tests.chaos.memory import rss
from tests.chaos.scene import Scene
from tests.support.fleet import START, AgentRun, interleaved, vercel_events
from turnmill.limits import RECORD_BYTES
from turnmill.wire.envelope import encode

LOST_EVENTS: Final = 3.0  # gap_timeout of these plays
SILENT: Final = 5.0  # idle_timeout


async def usual(scene: Scene) -> None:
    """Three workers; the trouble is in the load."""
    await scene.start()
    scene.publish()
    await scene.all_published()


# ---- ten kinds of poison


def _envelope(number: int, **wrong: Any) -> bytes:
    good = {"v": 1, "thread_id": str(uuid.UUID(int=number, version=4)), "run_id": f"poison-{number}", "agent_id": "a"}
    return encode({**good, "seq": 0, "ts": START, "dialect": "vercel-ai", "events": [], **wrong})


POISON: Final[dict[str, Callable[[int], bytes]]] = {
    "not UTF-8": lambda n: b"\xff\xfe %d" % n,
    "half of a record": lambda n: _envelope(n)[:-20],
    "no object": lambda n: b"[%d]" % n,
    "another version": lambda n: _envelope(n, v=9),
    "a thread id that is none": lambda n: _envelope(n, thread_id=f"chat-{n}"),
    "a negative seq": lambda n: _envelope(n, seq=-1),
    "an unknown dialect": lambda n: _envelope(n, dialect="morse"),
    "events that are no list": lambda n: _envelope(n, events="many"),
    "too large": lambda n: _envelope(n, events=[{"type": "text-delta", "id": "t", "delta": "x" * 1_100_000}]),
    "too deep": lambda n: b'{"n":%d,"v":' % n + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


def poison(seed: int, runs: int) -> Load:
    """Three of each kind among good runs, on their keys; and runs with events that break their dialect's rules."""
    rng = random.Random(f"poison/{seed}")
    fleet = mixed(seed, runs)
    for number in rng.sample(range(runs), 20):
        if fleet[number].envelopes[0]["dialect"] == "vercel-ai":
            fleet[number] = _with_bad_events(rng, fleet[number])
    good = load_of(fleet, seed)
    records = list(good.records)
    for number, make in enumerate([*POISON.values()] * 3):
        value = make(1000 * seed + number)
        records.insert(rng.randrange(len(records)), (rng.choice(fleet).key, value))
        good.answer.letters.add(value)
    return replace(good, records=records, published=runs + 3 * len(POISON))


def _with_bad_events(rng: random.Random, run: AgentRun) -> AgentRun:
    """An event of the wrong shape, and one that refers to nothing, in the middle."""
    events = [event for envelope in run.envelopes for event in envelope["events"]]
    wrong: list[Any] = [{"type": "text-delta", "id": "nobody", "delta": "x"}, {"type": 7}]
    at = rng.randrange(1, len(events)) if len(events) > 1 else 1
    events[at:at] = wrong
    base = {key: value for key, value in run.envelopes[0].items() if key not in ("seq", "ts", "dt", "events", "end")}
    envelopes = [
        {**(base if seq == 0 else {key: value for key, value in base.items() if key != "run"})}
        | {"seq": seq, "ts": START + 13 * seq, "events": [event]}
        for seq, event in enumerate(events)
    ]
    envelopes[-1]["end"] = "complete"
    return AgentRun(run.thread_id, run.run_id, envelopes)


# ---- twice, out of order, with holes, without an end, after the end


def duplicated(seed: int, runs: int) -> Load:
    """Two records of five come twice, close by; every fourth run comes once more at the end, in other batches."""
    rng = random.Random(f"duplicated/{seed}")
    load = load_of(mixed(seed, runs), seed)
    records: list[Record] = []
    copies: list[tuple[int, Record]] = []
    for place, record in enumerate(load.records):
        while copies and copies[0][0] <= place:
            records.append(copies.pop(0)[1])
        records.append(record)
        if rng.random() < 0.4:
            copies.append((place + rng.randint(1, 40), record))
            copies.sort(key=lambda copy: copy[0])
    records += [record for _, record in copies]
    again = [_rebatched(rng, run) for run in load.runs[::4]]
    return replace(load, records=[*records, *interleaved(again, seed + 1)])


def _rebatched(rng: random.Random, run: AgentRun) -> AgentRun:
    """The same events in other records."""
    events = [event for envelope in run.envelopes for event in envelope["events"]]
    base = {key: value for key, value in run.envelopes[0].items() if key not in ("seq", "ts", "dt", "events", "end")}
    envelopes, at = [], 0
    while at < len(events):
        some = events[at : at + rng.randint(1, 7)]
        envelopes.append({**base, "seq": at, "ts": START + 13 * at, "events": some})
        at += len(some)
    envelopes[-1]["end"] = "complete"
    return AgentRun(run.thread_id, run.run_id, envelopes)


def disordered(seed: int, runs: int) -> Load:
    """Two publishers share each run, and each run's records have changed places within a window of six."""
    rng = random.Random(f"disordered/{seed}")
    load = load_of(mixed(seed, runs), seed)
    shuffled = []
    for run in load.runs:
        places = sorted(range(len(run.envelopes)), key=lambda n: n + rng.uniform(0, 6))
        shuffled.append(cut(run, places))
    return replace(load, records=list(interleaved(shuffled, seed)), producers=2)


def holes(seed: int, runs: int) -> Load:
    """Of every fifth run a record is lost; of half of these it comes after all, when the gap was given up."""
    rng = random.Random(f"holes/{seed}")
    answer, sent, later = Answer(), [], []
    fleet = mixed(seed, runs)
    for number, run in enumerate(fleet):
        if number % 5 or len(run.envelopes) < 3:
            sent.append(run)
            answer.add(run)
            continue
        lost = rng.randrange(1, len(run.envelopes) - 1)
        left = cut(run, [n for n in range(len(run.envelopes)) if n != lost])
        sent.append(left)
        if number % 10:
            answer.add(left)
        else:
            answer.add(run)
            later.append((run.key, run.values()[lost]))
    return Load(fleet, list(interleaved(sent, seed)), answer, runs, later)


async def filled_later(scene: Scene) -> None:
    """What was lost comes when every gap is closed."""
    await scene.start()
    scene.publish()
    await scene.all_published()
    await asyncio.sleep(2 * LOST_EVENTS)
    await scene.publish_later()


def endless(seed: int, runs: int) -> Load:
    """The publishers of every fourth run die in the middle of it."""
    rng = random.Random(f"endless/{seed}")
    answer, sent = Answer(), []
    fleet = mixed(seed, runs)
    for number, run in enumerate(fleet):
        stays = rng.randrange(1, len(run.envelopes)) if number % 4 == 0 and len(run.envelopes) > 1 else None
        sent.append(run if stays is None else cut(run, range(stays)))
        answer.add(sent[-1], silent_end="timeout")
    return Load(fleet, list(interleaved(sent, seed)), answer, runs)


def after_close(seed: int, runs: int) -> Load:
    """Every sixth run goes on when it is complete: dead letters. Every sixth broke off, and goes on: a new revision."""
    rng = random.Random(f"after/{seed}")
    answer, sent = Answer(), []
    fleet = mixed(seed, runs)
    for number, run in enumerate(fleet):
        if number % 6 == 0 and _is_complete(run):
            last = run.envelopes[-1]
            late = {key: value for key, value in last.items() if key not in ("run", "end", "dt")}
            late |= {"seq": last["seq"] + len(last["events"]), "events": [{"type": "late", "n": number}]}
            sent.append(replace(run, envelopes=[*run.envelopes, late]))
            answer.add(run)
            answer.letters.add(encode(late))
        else:
            if number % 6 == 1 and len(run.envelopes) > 1:
                broken = rng.randrange(len(run.envelopes) - 1)
                envelopes = [{**e, "end": "disconnected"} if n == broken else e for n, e in enumerate(run.envelopes)]
                run = replace(run, envelopes=envelopes)  # noqa: PLW2901
            sent.append(run)
            answer.add(run)
    return Load(fleet, list(interleaved(sent, seed)), answer, runs)


def _is_complete(run: AgentRun) -> bool:
    answer = Answer()
    answer.add(run)
    return all(right.status == "complete" for right in answer.turns.values())


# ---- large, hot, many


def hot(seed: int, runs: int) -> Load:
    """One thread has half of all runs, so one partition half of the load."""
    return load_of(mixed(seed, runs, hot=True), seed)


def large(seed: int, runs: int) -> Load:
    """Ten runs of records of 900 KB, texts and tool results, among usual ones."""
    rng = random.Random(f"large/{seed}")
    fleet = mixed(seed, runs)
    for number in range(10):
        fleet.append(_large_run(rng, number))
    return load_of(fleet, seed)


def _large_run(rng: random.Random, number: int) -> AgentRun:
    room = RECORD_BYTES - 2_000
    said = [rng.randbytes(room // 2).hex() for _ in range(2)]
    output = {"rows": rng.randbytes(room // 2 - 100).hex()}
    records: list[list[dict[str, Any]]] = [
        [{"type": "start"}, {"type": "start-step"}, {"type": "text-start", "id": "t"}],
        *([{"type": "text-delta", "id": "t", "delta": text}] for text in said),
        [
            {"type": "text-end", "id": "t"},
            {"type": "tool-input-start", "toolCallId": "c", "toolName": "query"},
            {"type": "tool-input-available", "toolCallId": "c", "toolName": "query", "input": {"n": number}},
        ],
        [{"type": "tool-output-available", "toolCallId": "c", "output": output}],
        [{"type": "finish-step"}, {"type": "finish", "finishReason": "stop"}],
    ]
    thread_id = str(uuid.UUID(int=rng.getrandbits(128), version=4))
    base = {"v": 1, "thread_id": thread_id, "run_id": f"large-{number}", "agent_id": "a", "dialect": "vercel-ai"}
    envelopes, seq = [], 0
    for events in records:
        envelopes.append({**base, "seq": seq, "ts": START + 13 * seq, "events": events})
        seq += len(events)
    envelopes[-1]["end"] = "complete"
    return AgentRun(thread_id, f"large-{number}", envelopes)


def many_open(seed: int, runs: int) -> Load:
    """All runs begin before any goes on, and all go on before any ends."""
    rng = random.Random(f"many/{seed}")
    fleet, answer = [], Answer()
    for number in range(runs):
        thread_id = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        events = vercel_events(rng, words=8)
        base = {"v": 1, "thread_id": thread_id, "run_id": f"run-{number}", "agent_id": "a", "dialect": "vercel-ai"}
        third = max(1, len(events) // 3)
        places = [0, third, 2 * third, len(events)]
        envelopes = [
            {**base, "seq": start, "ts": START + 13 * start, "events": events[start:end]}
            for start, end in pairwise(places)
        ]
        envelopes[-1]["end"] = "complete"
        run = AgentRun(thread_id, f"run-{number}", envelopes)
        fleet.append(run)
        answer.add(run)
    values = [(run.key, run.values()) for run in fleet]
    return Load(fleet, [(key, some[turn]) for turn in range(3) for key, some in values], answer, runs)


async def killed_while_all_are_open(scene: Scene) -> None:
    """A worker is killed when every run is open, and comes back."""
    await scene.start()
    scene.publish(times=2)
    await scene.published(0.6)
    most = max(rss(worker.process.pid) for worker in scene.crew if worker.process)
    scene.note = f"{most / 2**20:.0f} MB in the largest worker"
    scene.crew[0].kill()
    await asyncio.sleep(1)
    scene.crew[0].start()
