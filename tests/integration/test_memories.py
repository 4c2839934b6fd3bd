"""Nothing of a gateway and a worker grows with what they are sent, but memories whose bytes are bounded."""

import asyncio
import json
from base64 import b64encode
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from pydantic import SecretStr

from pipeline.gateway.access import limits
from pipeline.settings import Settings
from pipeline.worker.host.roles import roles_named
from pipeline.worker.host.worker import Worker
from pipeline.worker.sinks import store
from tests.support.gateways import Running, Tokens, client, running, sse, talk
from tests.support.growing import memories, sizes
from tests.support.upstream import Answering, Asked, chat_answer, playing
from tests.support.waiting import until

SMALL: Final = 8_000  # bytes of memories, so that they are full
OF_AN_ENTRY: Final = 8_000  # bytes
BOUNDED: Final = {  # what is bounded in another way
    "pipeline.assembly.partition": "keys of spilled runs, which are open",
    "pipeline.assembly.run": "TURNMILL_ASSEMBLY_BYTES bounds open runs",
    "pipeline.assembly.builder": "as above",
    "pipeline.assembly.run_states": "as above",
    "pipeline.assembly.run_ends": "as above",
    "pipeline.assembly.spilled_runs": "as above",
    "pipeline.assembly.segment_names": "as above",
    "pipeline.assembly.marks": "two positions for each tenant that has closed runs, which share a bound",
    "pipeline.assembly.offline": "a shape for each class of what an open run holds",
    "pipeline.worker.sinks.archive.Segment.entries": "TURNMILL_ARCHIVE_BYTES bounds segments",
    "pipeline.worker.sinks.housekeeping.Notifying._step.records": "a batch of notices on their way",
    "topics.turn_record._newest": "eight ends of records, of at most 100 KB",
    "pipeline.turns.times": "its cached functions take short texts, and numbers",
}
LOOKS: Final = 30  # at most; a slow machine may still handle batches at the first
PLANTED: Final = ".planted"
MOST: Final = 10  # entries by which what belongs to no caller may grow: connections, partitions, open requests
ROLES: Final = ["assemble", "metrics", "store", "feedback", "archive", "feedback-archive", "webhooks", "notices"]
SECRET: Final = f"whsec_{b64encode(bytes(range(32))).decode()}"
CHAT: Final = "/proxy/openai/v1/chat/completions"


async def answered(asked: Asked, answer: Answering) -> None:
    await answer.whole(chat_answer("Yes."))


class Loaded:
    """A gateway and a worker in this process, and two tenants that use all of their doors."""

    def __init__(self, gateway: Running, worker: Worker, tokens: Tokens) -> None:
        self.gateway = gateway
        self.worker = worker
        self.tokens = tokens
        self.sent = 0

    @property
    def roots(self) -> list[Any]:
        return [self.gateway.app, self.gateway.server, self.worker]

    async def load(self, rounds: int) -> None:
        """Send so many rounds, each with names of its own, and wait until the worker has stored them."""
        async with AsyncExitStack() as stack:
            tenants = {
                tenant: await stack.enter_async_context(client(self.gateway.url, getattr(self.tokens, tenant)))
                for tenant in ("acme", "globex")
            }
            for number in range(self.sent, self.sent + rounds):
                rounds_of = (self._round(f"{tenant}-{number}", http) for tenant, http in tenants.items())
                await asyncio.gather(*rounds_of)
                last = [(http, f"/v1/threads/{tenant}-{number}") for tenant, http in tenants.items()]
            self.sent += rounds

            async def stored() -> bool:
                return all([(await http.get(path)).status_code == 200 for http, path in last])

            await until(stored)

    async def _round(self, name: str, http: httpx.AsyncClient) -> None:
        body = sse([{"type": "start"}, *talk(3)[1:]])
        run = await http.post(f"/v1/threads/{name}/runs/{name}/stream?dialect=vercel-ai&agent={name}", content=body)
        assert run.status_code == 200, run.text
        envelope = {"v": 1, "thread_id": f"open {name}", "run_id": name, "agent_id": name, "dialect": "vercel-ai"}
        events = [{"type": "start"}, {"type": "start-step"}]
        record = json.dumps({**envelope, "seq": 0, "ts": 1, "events": events, "run": {"model_name": name}})
        assert (await http.post("/v1/records", content=record + "\n")).status_code == 200
        headers = {
            "Authorization": "Bearer sk-x",
            "Turnmill-Token": http.headers["authorization"].removeprefix("Bearer "),
            "Turnmill-Run": name,
        }
        question = [{"role": "user", "content": f"Is it {name}?"}]
        chat = await http.post(CHAT, json={"model": name, "messages": question}, headers=headers)
        assert chat.status_code == 200, chat.text
        await http.post(f"/v1/threads/{name}/feedback", json={"name": name, "value": 1})
        for kind in ("stop", "steer"):
            at = f"/v1/threads/open {name}/runs/{name}/{kind}"
            await http.post(at, json={"text": name} if kind == "steer" else {})
        for path in (f"/v1/threads/{name}", f"/v1/threads?agent={name}", f"/v1/search?q={name}"):
            await http.get(path)
        for path in ("/v1/runs", f"/v1/usage?by=model&agent={name}", "/v1/audit", f"/v1/threads/no-{name}"):
            await http.get(path)
        for path in (f"/v1/threads/{name}/live", "/v1/figures/live"):
            await http.get(path, params={"follow": "false"})
        await http.get(f"/v1/threads/{name}", headers={"Authorization": f"Bearer tk_{name}"})


def grown(before: Counter[str], after: Counter[str], most: int = MOST) -> dict[str, int]:
    more = {owner: count - before[owner] for owner, count in after.items() if count - before[owner] > most}
    bounded = {owner for owner in more if owner in BOUNDED or ".".join(owner.split(".")[:3]) in BOUNDED}
    return {owner: count for owner, count in more.items() if owner not in bounded}


async def grown_for_good(loaded: Loaded, before: Counter[str], *, indexes: bool = False) -> set[str]:
    """Return the containers that have grown at each of many looks: those of a task under way go when the task ends.

    The looks end early at the first few of which only what was planted is left.
    """
    looks: list[set[str]] = []
    for _ in range(LOOKS):
        looks.append(set(grown(before, sizes(loaded.roots, indexes=indexes))))
        left = set.intersection(*looks)
        if len(looks) > 2 and all(owner.endswith(PLANTED) for owner in left):
            break
        await asyncio.sleep(1)
    return left


@pytest.fixture
async def loaded(applied_settings: Settings, tmp_path: Path) -> AsyncIterator[Loaded]:
    tokens = Tokens()
    async with playing(answered) as upstream:
        changes: dict[str, Any] = {
            "gateway_port": 0,
            "gateway_tokens": SecretStr(tokens.setting),
            "gateway_proxy": f"openai={upstream.url}",
            "gateway_rate": 10_000.0,
            "checkpoint_interval": 0.2,
            "control": True,
            "archive": f"file://{tmp_path / 'archive'}",
            "webhooks": SecretStr(json.dumps([{"name": "all", "url": f"{upstream.url}/hooks", "secret": SECRET}])),
            "webhooks_allow": "127.0.0.0/8",
            "prices": '[{"model": "gpt*", "input": 1, "output": 2}]',
            "budgets": '[{"name": "all", "tokens": 1000000000, "per": "day", "enforce": "stop"}]',
        }
        settings = applied_settings.model_copy(update=changes)
        worker = Worker(settings, roles_named(ROLES))
        await worker.start()
        waiting = asyncio.create_task(worker.wait())
        try:
            async with running(settings) as gateway:
                yield Loaded(gateway, worker, tokens)
        finally:
            waiting.cancel()
            with suppress(asyncio.CancelledError):
                await waiting
            await worker.stop()


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Containers that grow, put into the gateway, the worker and a module: the test must see them, and no others."""
    taken, handled = limits.Rate.take, store.StoreWork.handle
    everyone: list[int] = []

    def take(self: limits.Rate, caller: Any, own_rate: float | None = None) -> None:
        vars(self).setdefault("planted", {})[len(vars(self)["planted"])] = caller
        everyone.append(1)
        taken(self, caller, own_rate)

    async def handle(self: store.StoreWork, partition: int, records: Any) -> None:
        vars(self).setdefault("planted", deque()).extend(record.offset for record in records)
        await handled(self, partition, records)

    monkeypatch.setattr(limits.Rate, "take", take)
    monkeypatch.setattr(store.StoreWork, "handle", handle)
    monkeypatch.setattr(limits, "planted", everyone, raising=False)
    return {f"{limits.__name__}.Rate.planted", f"{store.__name__}.StoreWork.planted", f"{limits.__name__}.planted"}


async def test_only_memories_grow(loaded: Loaded, planted: set[str]) -> None:
    await loaded.load(2)
    before = sizes(loaded.roots)
    await loaded.load(8)
    assert await grown_for_good(loaded, before) == planted, "these grow and are no memories"

    before_it = {id(memory): memory.shares.total for memory in memories(loaded.roots)}
    for memory in memories(loaded.roots):
        memory.size = SMALL
        assert memory.shares.total < OF_AN_ENTRY * (len(memory) + 1), f"{memory.pool.name} has what is not its"
    await loaded.load(3)
    before = sizes(loaded.roots, indexes=True)
    await loaded.load(8)
    more = await grown_for_good(loaded, before, indexes=True)
    assert more == planted, "these keep what memories have forgotten"
    for memory in memories(loaded.roots):
        most = max(memory.size + OF_AN_ENTRY, before_it.get(id(memory), 0))  # SMALL, unless it was made since then
        assert memory.shares.total <= most, memory.pool.name
