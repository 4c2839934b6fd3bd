"""Turns by tenant, also where callers go while they wait."""

import asyncio
import random

import pytest

from pipeline.policies.slots import Slots


async def test_one_with_many_delays_another_by_one_turn() -> None:
    """Found by the review: whoever opened many streams from far back held up the readers of all other tenants."""
    slots, order = Slots(2), list[str]()

    async def read(tenant: str) -> None:
        async with slots.taken(tenant):
            order.append(tenant)
            await asyncio.sleep(0)

    readers = [asyncio.create_task(read("evil")) for _ in range(100)]
    await asyncio.sleep(0)
    readers += [asyncio.create_task(read("acme")) for _ in range(3)]
    await asyncio.gather(*readers)
    assert [place for place, tenant in enumerate(order) if tenant == "acme"][-1] < 10
    assert (slots._shares.total, slots._waiting) == (0, {})


@pytest.mark.parametrize("seed", range(30))
async def test_who_goes_takes_no_place_along(seed: int) -> None:
    slots, rng, inside = Slots(3), random.Random(seed), 0

    async def read(tenant: str) -> None:
        nonlocal inside
        async with slots.taken(tenant):
            inside += 1
            assert inside <= 3
            try:
                await asyncio.sleep(0)
            finally:
                inside -= 1

    readers = [asyncio.create_task(read(rng.choice("abc"))) for _ in range(60)]
    for reader in rng.sample(readers, 30):
        for _ in range(rng.randrange(3)):
            await asyncio.sleep(0)
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    assert (inside, slots._shares.total, slots._waiting) == (0, 0, {})


async def test_a_newcomer_finds_a_slot_at_once_however_many_wait() -> None:
    slots, done = Slots(4), asyncio.Event()

    async def read(tenant: str) -> None:
        async with slots.taken(tenant):
            await done.wait()

    readers = [asyncio.create_task(read("evil")) for _ in range(100)]
    await asyncio.sleep(0)
    assert slots.waiting("evil") == 97
    async with slots.taken("acme"):  # all others are held for good
        assert slots.waiting("acme") == 0
    done.set()
    await asyncio.gather(*readers)
    assert slots._shares.total == 0
