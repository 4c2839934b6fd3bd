"""Who publishes: good tenants, whose runs must be stored whole, and what they send."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.simulation.wire import mark
from tests.simulation.worker import SECRET
from topics.state import RunKey
from turnmill.identity import thread_uuid

GOOD: Final = ("acme", "globex", None)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a tenant: its events, and how its publisher ends it; None: it never says.

    `screen`: of a conversation's run, the texts that its client has before it goes on.
    """

    tenant: str | None
    thread_id: str
    run_id: str
    events: Sequence[dict[str, Any]]
    end: str | None = "complete"
    agent_id: str = "a"
    info: dict[str, Any] | None = None
    screen: tuple[str, ...] = ()

    @property
    def key(self) -> bytes:
        """The key of its records."""
        return self.thread_id.encode()

    @property
    def identity(self) -> dict[str, Any]:
        """What each of its records says of it."""
        tenant = {} if self.tenant is None else {"tenant": self.tenant}
        return {
            "thread_id": self.thread_id,
            "run_id": self.run_id,
            "agent_id": self.agent_id,
            "dialect": "sim",
            **tenant,
        }

    def envelope(self, seq: int, events: Sequence[Any], at: int, **more: Any) -> dict[str, Any]:
        """A record of it, as anybody might write it."""
        return {"v": 1, **self.identity, "seq": seq, "ts": at, "events": list(events), **more}


def good_run(number: int, rng: random.Random, *, large: bool = False) -> Run:
    """A run that keeps to the rules. One of five is cut off, one never says that it is over."""
    tenant = rng.choice(GOOD)
    run_id = f"run-{number}"
    thread_id = thread_uuid(f"order-{number // 2}", tenant)[0]
    events: list[dict[str, Any]] = []

    def word() -> str:
        return f"{mark(tenant, run_id, len(events))} {rng.choice(('so', 'be', SECRET, 'it'))}"

    for step in range(rng.randint(1, 3)):
        events.append({"type": "text", "text": word()})
        if rng.random() < 0.4:
            events.append({"type": "usage", "data": {"output_tokens": rng.randrange(100), "mark": word()}})
        if rng.random() < 0.4:
            key = f"p{step}"
            events.append({"type": "open", "id": key})
            events += [{"type": "delta", "id": key, "delta": word()} for _ in range(rng.randint(1, 3))]
            events.append({"type": "shut", "id": key})
        if rng.random() < 0.2 or large:
            size = rng.choice((10, 5_000, 20_000)) if large else rng.choice((10, 5_000))
            events.append({"type": "tool", "id": f"c{step}", "mark": word(), "result": word() * (size // 20)})
        if rng.random() < 0.1:
            events.append({"type": "agent", "id": f"sub-{rng.randrange(2)}", "mark": word()})
        events.append({"type": "step"})
    kind = number % 5
    if kind < 3:
        events.append({"type": "finish"})
    end = {0: "complete", 1: "complete", 3: "aborted"}.get(kind)
    request = f"{mark(tenant, run_id, 0)} prompt"
    return Run(tenant, thread_id, run_id, events, end, info={"model_name": "m", "request": request})


def key_of(envelope: dict[str, Any]) -> RunKey:
    """Whose run a record belongs to: (tenant, thread_id, run_id)."""
    return envelope.get("tenant") or None, envelope["thread_id"].lower(), envelope["run_id"]  # type: ignore[return-value]
