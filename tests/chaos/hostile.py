"""A tenant that means harm beside one that does not, and a record that no store takes."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from tests.chaos.load import Answer, Load, load_of, mixed
from tests.chaos.scene import Scene
from tests.support.fleet import START, AgentRun, interleaved, run_of
from topics import turn_record

YEAR_2099: Final = 4_070_908_800_000
LEVELS: Final = 900  # of nesting: more than orjson writes, less than is refused
REFUSED: Final = "agent-refused"


def of_tenant(run: AgentRun, tenant: str) -> AgentRun:
    """The same run as another tenant's."""
    return replace(run, envelopes=[{**envelope, "tenant": tenant} for envelope in run.envelopes])


def _hijack(run: AgentRun) -> AgentRun:
    """An end before the beginning, without an event."""
    last = {key: value for key, value in run.envelopes[0].items() if key not in ("run", "dt")}
    return replace(run, envelopes=[{**last, "seq": 8, "events": [], "end": "complete"}])


def _squat(run: AgentRun) -> AgentRun:
    """Words of its own under the same ids, of a far future."""
    other = run_of(2099, len(run.envelopes))
    ids = {"thread_id": run.thread_id, "run_id": run.run_id}
    return AgentRun(**ids, envelopes=[{**e, **ids, "ts": e["ts"] - START + YEAR_2099} for e in other.envelopes])


def _copy(run: AgentRun) -> AgentRun:
    """Record by record what the other one sends."""
    return run


def _tail(run: AgentRun) -> AgentRun:
    """The end of the run alone."""
    return replace(run, envelopes=run.envelopes[-2:])


def _deep(run: AgentRun) -> AgentRun:
    """Telemetry that few parsers read."""
    nested: Any = 1
    for _ in range(LEVELS):
        nested = [nested]
    event = {"type": "data-sys-x", "data": nested}
    base = {key: value for key, value in run.envelopes[0].items() if key not in ("run", "dt")}
    stream = [{"type": "start"}, event, {"type": "finish"}]
    return replace(run, envelopes=[{**base, "dialect": "vercel-ai", "events": stream, "end": "complete"}])


HARM: Final[tuple[Callable[[AgentRun], AgentRun], ...]] = (_hijack, _squat, _copy, _tail, _deep)


def two_tenants(seed: int, runs: int) -> Load:
    """`acme` sends runs; `evil` knows all their ids, and sends its own of the same, half of them before acme does."""
    rng = random.Random(f"hostile/{seed}")
    good = [of_tenant(run, "acme") for run in mixed(seed, runs)]
    bad = [of_tenant(HARM[number % len(HARM)](run), "evil") for number, run in enumerate(good[::2])]
    rng.shuffle(bad)
    early = len(bad) // 2
    answer = Answer()
    for run in (*good, *bad):
        answer.add(run)
    records = [*interleaved(bad[:early], seed), *interleaved([*good, *bad[early:]], seed)]
    return Load([*good, *bad], records, answer, len(good) + len(bad))


def refused_turns(seed: int, runs: int) -> Load:
    """The store takes no turn of every tenth run; see `store_refuses`. Some of these hold events that are refused."""
    fleet = mixed(seed, runs)
    kept, letters, refused = [], set(), Answer()
    for number, run in enumerate(fleet):
        if number % 10 or run.envelopes[0]["dialect"] == "thread-protocol":
            kept.append(run)
            continue
        fleet[number] = replace(run, envelopes=[{**e, "agent_id": REFUSED} for e in run.envelopes])
        made = assemble(DIALECTS[run.envelopes[0]["dialect"]], fleet[number].envelopes)[0]
        letters |= {turn_record.encode(record) for record in made}
        refused.add(fleet[number])
    load = load_of(kept, seed)
    load.answer.letters |= letters | refused.letters
    return replace(load, runs=fleet, records=list(interleaved(fleet, seed)), published=len(fleet))


async def store_refuses(scene: Scene) -> None:
    """The database refuses rows of one agent, as a constraint of its operators may."""
    await scene.start()
    await scene.store.refuse(REFUSED)
    scene.publish()
    await scene.all_published()
