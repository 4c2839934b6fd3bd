"""Every pool that tenants share is in the registry, and has a share for each of them."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from pipeline.gateway.serving.parts import PACKAGE, PARTS
from pipeline.policies.pools import POOLS
from pipeline.policies.slots import Slots
from turnmill import pools
from turnmill.capture.passing import Passing
from turnmill.pools import LEFT_FREE, OLDEST, OLDEST_OF_MOST, Pool
from turnmill.remembered import ENTRY_BYTES, Remembered
from turnmill.shares import Room, Shares

ROOT: Final = Path(__file__).resolve().parents[3]
SHARED: Final = ("Slots", "Room")  # what has shares
BOUNDS: Final = {"Semaphore", "BoundedSemaphore", "ThreadPoolExecutor", "ProcessPoolExecutor", "CapacityLimiter"}
# Bounds within one request, one batch or one process of a program: no two tenants' callers wait at them.
OF_ONE: Final = {
    "pipeline/stores/content/store.py": "fetches of one response",
    "pipeline/stores/content/offload.py": "uploads of one batch",
    "pipeline/stores/archive/parquet.py": "objects of one command",
    "pipeline/gateway/dashboard/dead_letters.py": "an operator's page",
    "pipeline/worker/webhooks/sender.py": "threads as many as LOOKUPS has slots, taken before",
    "turnmill/loop_thread.py": "one call of a program",
}
LOOKS: Final = {"pipeline/worker/webhooks/sender.py"}
WAITS: Final = {"to_thread", "run_in_executor", "deque", "OrderedDict"}  # what may be a queue, or a bounded memory
# Modules of gateway and worker that have one, or compare a length with a bound, and no pool of the registry.
NO_POOL: Final = {
    **{f"{PACKAGE}.{module}".replace(".", "/") + ".py": why for part in PARTS for module, why in part.unshared.items()},
    "pipeline/worker/assemble/checkpoint.py": (
        "one partition at a time: the runs of its tenants are shared out in assembly"
    ),
    "pipeline/worker/assemble/state_reads.py": "a restart's single reader, before records of any tenant are taken",
    "pipeline/worker/processes/parent.py": "questions of the parent",
    "pipeline/worker/processes/health.py": "an operator's figures",
    "pipeline/worker/sinks/store.py": "the dead letters of one batch",
}


def calls() -> Iterator[tuple[str, str, ast.Call]]:
    for folder in ("pipeline/gateway", "pipeline/worker", "pipeline/stores", "pipeline/kafka", "turnmill"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call):
                    names = [node.func, *node.args]  # also `partial(ThreadPoolExecutor, …)`
                    for name in names:
                        text = name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "")
                        yield str(path.relative_to(ROOT)), text, node


def test_no_bound_is_without_shares() -> None:
    found = {path for path, name, _ in calls() if name in BOUNDS}
    assert found == OF_ONE.keys(), (
        "a bound that tenants share is a pool of pipeline/policies/pools.py; another one is listed here"
    )


def test_no_queue_and_no_bounded_memory_is_without_shares() -> None:
    found = {
        path for path, name, _ in calls() if name in WAITS and path.startswith(("pipeline/gateway", "pipeline/worker"))
    }
    found |= set(bounded_lengths())
    known = {pool.used_by.replace(".", "/") + ".py" for pool in POOLS}
    known |= {path for path, name, _ in calls() if name == "Remembered"}
    assert found - known <= NO_POOL.keys() <= found, (
        "a queue that tenants share is a pool of pipeline/policies/pools.py; else say why"
    )


def bounded_lengths() -> Iterator[str]:
    """Modules that compare `len(self.…)` with something larger than nothing."""
    for folder in ("pipeline/gateway", "pipeline/worker"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Gt | ast.GtE):
                    left = ast.unparse(node.left)
                    if left.startswith("len(self.") and ast.unparse(node.comparators[0]) not in ("0", "1"):
                        yield str(path.relative_to(ROOT))


def test_each_pool_of_slots_and_bytes_has_its_size_from_the_registry() -> None:
    others = OF_ONE.keys() - LOOKS
    sized = [ast.unparse(node) for path, name, node in calls() if name in SHARED and path not in others]
    every = vars(pools) | vars(import_module("pipeline.policies.pools"))
    named = {name: pool for name, pool in every.items() if isinstance(pool, Pool)}
    for name, pool in named.items():
        if pool.unit == "slots" and name != "DELIVERIES":  # its slots are rows of the store
            assert any(f"{name}.size" in text for text in sized), name
    assert sized
    assert all(any(f"{name}.size" in text for name in named) for text in sized), sized
    assert set(named.values()) == set(POOLS)
    made = [[ast.unparse(arg) for arg in node.args] for _, name, node in calls() if name == "Remembered"]
    remembering = {next(text for text in texts if text != "Remembered") for texts in made if texts}
    assert remembering <= {*named, "pool", "Generic[Key, Value]"}, "a memory has its row"


@pytest.mark.parametrize("pool", [one for one in POOLS if one.unit == "slots"], ids=lambda one: one.name)
async def test_a_greedy_tenant_leaves_a_slot(pool: Pool) -> None:
    slots, greedy = Slots(pool.size), Shares()
    while greedy.allows("evil", 1, pool.size):
        await slots.take("evil")
        greedy.add("evil", 1)
    await slots.take("acme")
    assert slots.waiting("acme") == 0


@pytest.mark.parametrize("pool", [one for one in POOLS if one.unit == "bytes"], ids=lambda one: one.name)
def test_a_greedy_tenant_leaves_bytes(pool: Pool) -> None:
    room, queue = Room(pool.size), Passing[str](pool.size)
    most = pool.size // 64
    while room.take("evil", most):
        queue.put("call", "data", b"", most - ENTRY_BYTES - 28, "evil")
    assert not queue.put("call", "data", b"", most, "evil")
    assert room.take("acme", pool.size // 20)
    assert queue.put("call", "data", b"", pool.size // 25, "acme")


@pytest.mark.parametrize("pool", [one for one in POOLS if one.unit == "bytes"], ids=lambda one: one.name)
def test_a_greedy_tenant_makes_nothing_of_anothers_forgotten(pool: Pool) -> None:
    known = Remembered[int, int](pool, lambda _: 1_000, size=1_000_000)
    for number in range(100):
        known.put("acme", number, number)
    refused = 0
    for number in range(10_000):
        if pool.share == LEFT_FREE and not known.fits("evil", number, number):
            refused += 1
        else:
            known.put("evil", number, number)
    assert known.shares.total <= known.size or pool.share not in (OLDEST, OLDEST_OF_MOST)
    if pool.share == OLDEST:  # it has one scope: whose they are is no matter, as they are somewhere else, too
        return
    assert all(known.get("acme", number) == number for number in range(100))
    assert (refused > 0) == (pool.share == LEFT_FREE)


def test_each_is_held_by_the_module_that_it_names() -> None:
    for pool in POOLS:
        assert import_module(pool.used_by)
