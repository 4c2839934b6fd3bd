"""What a hostile or broken tenant sends beside the good ones, straight to the events topic.

Each attack knows what nobody could hide from it: the ids of a good tenant's run, and how many events it will have. It
yields the records of one attacker in order, each with the pause before it, in seconds.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tests.simulation.stores import BREAKS, REFUSED
from tests.simulation.tenants import Run
from tests.simulation.wire import mark
from tests.simulation.worker import RAISES
from turnmill.wire.envelope import MAX_INTEGER, encode

EVIL: Final = "evil"
LATER: Final = 20.0  # seconds: longer than a run may be silent, and than a short memory


@dataclass(frozen=True, slots=True)
class Scene:
    """What an attack is made of. `victim`: a good run; `at`: epoch ms."""

    victim: Run
    number: int
    rng: random.Random
    at: int
    record_bytes: int
    turn_bytes: int

    @property
    def same(self) -> Run:
        """A run of the attacker with the victim's thread and run ids."""
        return replace(self.victim, tenant=EVIL, info=None)

    @property
    def own(self) -> Run:
        """One with a run id of its own, in the victim's thread."""
        return replace(self.victim, tenant=EVIL, run_id=f"evil-{self.number}", info=None)

    def said(self, run: Run, seq: int, **more: Any) -> dict[str, Any]:
        """An event with a text."""
        return {"type": "text", "text": f"{mark(run.tenant, run.run_id, seq)} evil", **more}

    def whole(self, run: Run, *extra: dict[str, Any], end: str = "complete") -> bytes:
        """A whole run in one record."""
        events = [self.said(run, 0), *extra, {"type": "step"}]
        return encode(run.envelope(0, events, self.at, end=end))


Sent = Iterator[tuple[float, bytes | None]]
Attack = Callable[[Scene], Sent]


def hijack(scene: Scene) -> Sent:
    """The end of the victim's run, before, amid or behind its events."""
    seq = scene.rng.randint(0, len(scene.victim.events))
    for _ in range(3):
        yield scene.rng.uniform(0, 4), encode(scene.same.envelope(seq, [], scene.at, end="complete"))


def only_end(scene: Scene) -> Sent:
    """A run that says nothing but its end, one that says so twice, and one whose end comes without what it ends."""
    for number, seqs in enumerate(((0,), (0, 0), (2,), (2, 0))):
        run = replace(scene.own, run_id=f"end-{scene.number}-{number}")
        for seq in seqs:
            end = scene.rng.choice(("complete", "aborted"))
            yield scene.rng.uniform(0, 2), encode(run.envelope(seq, [], scene.at, end=end))


def twin(scene: Scene) -> Sent:
    """A whole run of the same ids, once more and longer."""
    run = scene.same
    events = [scene.said(run, seq) for seq in range(len(scene.victim.events) + 3)]
    yield scene.rng.uniform(0, 3), encode(run.envelope(0, events[:2], scene.at))
    yield scene.rng.uniform(0, 3), encode(run.envelope(2, events[2:], scene.at, end="complete"))


def squat(scene: Scene) -> Sent:
    """The victim's thread, dated far ahead, with a title."""
    title = {"type": "title", "title": f"{mark(EVIL, scene.own.run_id, 1)} mine"}
    run = scene.own
    yield 0.0, encode(run.envelope(0, [scene.said(run, 0), title], 4_070_908_800_000, end="complete"))


def no_tenant(scene: Scene) -> Sent:
    """The same ids with an empty tenant, and with none: the same nobody's run."""
    run = replace(scene.victim, tenant=None, run_id=f"nobody-{scene.number}", info=None)
    yield 0.1, encode({**run.envelope(0, [scene.said(run, 0)], scene.at), "tenant": ""})
    yield 0.5, encode({**run.envelope(1, [scene.said(run, 1), {"type": "step"}], scene.at, end="complete")})


def gap(scene: Scene) -> Sent:
    """Events behind a hole that never fills."""
    run = scene.own
    for number in range(12):
        seq = 5 + 2 * number
        yield 0.3, encode(run.envelope(seq, [scene.said(run, seq, pad="x" * 2000)], scene.at))


def huge_seq(scene: Scene) -> Sent:
    """The last numbers that there are."""
    run = scene.own
    yield 0.2, encode(run.envelope(MAX_INTEGER - 1, [scene.said(run, MAX_INTEGER - 1)], scene.at))
    yield 0.2, encode(run.envelope(0, [scene.said(run, 0)], scene.at, end="complete"))
    yield 0.2, encode(run.envelope(MAX_INTEGER, [scene.said(run, MAX_INTEGER)], MAX_INTEGER, dt=[0], end="complete"))


def deep(scene: Scene) -> Sent:
    """JSON that is nested deeper than some part of us might read."""
    run, levels = scene.own, scene.rng.choice((400, 900, 1021, 1021, 1100))  # 1021: the most that an envelope may hold
    nested = b"[" * levels + b"]" * levels + b',"pad":"%s"' % (b"x" * 4000)  # so large that the turn has large values
    events = b'[{"type":"%s","data":' % scene.rng.choice((b"usage", b"note")) + nested + b"}]"
    yield 0.5, encode(run.envelope(0, ["EVENTS"], scene.at)).replace(b'["EVENTS"]', events)
    yield 0.5, encode(run.envelope(1, [scene.said(run, 1), {"type": "step"}], scene.at, end="complete"))


def unstorable(scene: Scene) -> Sent:
    """What a database refuses, or what breaks the code that writes to it."""
    title = scene.rng.choice((REFUSED, BREAKS))
    yield scene.rng.uniform(0, 3), scene.whole(scene.own, {"type": "title", "title": title})


def same_columns(scene: Scene) -> Sent:
    """Two agents whose ids a database takes for one."""
    agents = [{"type": "agent", "id": name, "mark": mark(EVIL, scene.own.run_id, 1)} for name in ("x\0", "x\\u0000")]
    yield scene.rng.uniform(0, 3), scene.whole(scene.own, *agents)


def sums(scene: Scene) -> Sent:
    """Tokens whose sum is more than a column holds."""
    steps: list[dict[str, Any]] = []
    for _ in range(scene.rng.choice((3, 100))):
        steps += [
            {"type": "text", "text": "x"},
            {"type": "usage", "data": {"total_tokens": MAX_INTEGER}},
            {"type": "step"},
        ]
    yield 0.5, scene.whole(scene.own, *steps)


def sums_of_a_thread(scene: Scene) -> Sent:
    """Runs whose tokens are more than a column holds once they are summed."""
    said = ({"type": "text", "text": "x"}, {"type": "usage", "data": {"total_tokens": MAX_INTEGER}}, {"type": "step"})
    for number in range(11):
        run = replace(scene.own, run_id=f"sums-{scene.number}-{number}")
        events = [scene.said(run, 0), *said * 100]
        yield 0.2, encode(run.envelope(0, events, scene.at, end="complete"))


def far_times(scene: Scene) -> Sent:
    """Events behind the end of every calendar and column: of a turn, and of what is said of a thread alone."""
    far = scene.rng.choice((2**53, 2**63, 2**64 - 1))
    for number, kind in enumerate(("text", "facts")):
        run = replace(scene.own, run_id=f"far-{scene.number}-{number}")
        event = {**scene.said(run, 0), "type": kind, "id": "x", "mark": mark(run.tenant, run.run_id, 0)}
        yield scene.rng.uniform(0, 3), encode(run.envelope(0, [event], scene.at, dt=[far], end="complete"))


def too_large(scene: Scene) -> Sent:
    """A record that is not taken; and a turn of acceptable records that no topic takes."""
    yield 0.1, scene.whole(scene.own, {"type": "note", "data": "x" * scene.record_bytes})
    run = replace(scene.own, run_id=f"large-{scene.number}")
    part = scene.record_bytes // 2
    for seq in range(scene.turn_bytes // part + 2):
        text = f"{mark(EVIL, run.run_id, seq)}{'y' * part}"
        yield scene.rng.uniform(0, 0.5), encode(run.envelope(seq, [{"type": "text", "text": text}], scene.at))
    yield 0.2, encode(run.envelope(seq + 1, [{"type": "finish"}], scene.at, end="complete"))


def backwards(scene: Scene) -> Sent:
    """The end comes first, then nothing for long, then the beginning."""
    run = scene.own
    yield 0.1, encode(run.envelope(2, [scene.said(run, 2), {"type": "step"}], scene.at, end="complete"))
    yield (
        scene.rng.choice((0.5, 3.0, LATER)),
        encode(run.envelope(0, [scene.said(run, 0), scene.said(run, 1)], scene.at)),
    )


def late_tail(scene: Scene) -> Sent:
    """A head that is over; long after that, more events than it had."""
    run = scene.own
    end = scene.rng.choice(("aborted", "complete", None))
    yield 0.1, encode(run.envelope(0, [scene.said(run, 0), {"type": "step"}], scene.at, end=end))
    events = [event for seq in range(2, 8, 2) for event in (scene.said(run, seq), {"type": "step"})]
    yield LATER, encode(run.envelope(2, events, scene.at, end=scene.rng.choice(("complete", None))))


def native_tail(scene: Scene) -> Sent:
    """The same over a wire whose turns come whole: the tail's turns have the numbers of the head's."""
    run = scene.own

    def native(seq: int) -> dict[str, Any]:
        return {"type": "native", "parts": [{"part_kind": "user-prompt", "content": mark(EVIL, run.run_id, seq)}]}

    yield 0.1, encode(run.envelope(0, [native(0), native(1)], scene.at, end="complete"))
    yield LATER, encode(run.envelope(2, [native(2), native(3), native(4)], scene.at, end="complete"))


def telemetry(scene: Scene) -> Sent:
    """Telemetry of shapes that nobody expects."""
    shapes: list[Any] = [None, [], "x", {"output_tokens": 2**70}, {"output_tokens": {"a": []}}, {"cost": "NaN"}, -1]
    events = [{"type": "usage", "data": data} for data in scene.rng.sample(shapes, 3)]
    yield 0.5, scene.whole(scene.own, *events)


def unredactable(scene: Scene) -> Sent:
    """Texts, and telemetry, at which a rule of redaction raises."""
    kind = scene.rng.choice(("text", "usage"))
    event = {"type": "text", "text": RAISES} if kind == "text" else {"type": "usage", "data": {"x": RAISES}}
    yield scene.rng.uniform(0, 3), scene.whole(scene.own, event)


def unbuildable(scene: Scene) -> Sent:
    """A turn that can't be built, open for so long that it was spilled."""
    run = scene.own
    yield 0.2, encode(run.envelope(0, [scene.said(run, 0), {"type": "poison"}], scene.at))
    yield scene.rng.choice((0.1, 3.0)), encode(run.envelope(2, [scene.said(run, 2)], scene.at))
    yield scene.rng.choice((0.1, 3.0)), encode(run.envelope(3, [{"type": "finish"}], scene.at, end="complete"))


def garbage(scene: Scene) -> Sent:
    """No envelope at all."""
    same = scene.victim.envelope(0, [], scene.at)
    for value in (
        b"",
        None,
        b"\xff\xfe",
        b"[]",
        b'{"v":2}',
        encode({**same, "tenant": 7}),
        encode({**same, "seq": -1}),
    ):
        yield 0.1, value


def other_wire(scene: Scene) -> Sent:
    """The victim's ids, over another wire and by another agent."""
    run = replace(scene.same, agent_id="b")
    yield scene.rng.uniform(0, 3), encode({**run.envelope(0, [{"type": "x"}], scene.at), "dialect": "other"})
    yield 0.3, encode({**run.envelope(1, [{"type": "y"}], scene.at, end="error"), "dialect": "nonsense"})


ATTACKS: Final[Mapping[str, Attack]] = {
    attack.__name__: attack
    for attack in (
        *(hijack, only_end, twin, squat, no_tenant, gap, huge_seq, deep, unstorable, same_columns),
        *(sums, sums_of_a_thread, far_times, too_large, backwards, late_tail, native_tail),
        *(telemetry, unredactable, unbuildable, garbage, other_wire),
    )
}
