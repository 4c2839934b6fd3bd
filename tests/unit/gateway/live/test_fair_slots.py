"""Turns by tenant, also where callers go while they wait."""

from __future__ import annotations

import asyncio
import random

import pytest

from pipeline.gateway.live.fair_slots import FairSlots


async def test_one_with_many_delays_another_by_one_turn() -> None:
    """Found by the review: whoever opened many streams from far back held up the readers of all other tenants."""
    slots, order = FairSlots(2), list[str]()

    async def read(tenant: str) -> None:
        async with slots.taken(tenant):
            order.append(tenant)
            await asyncio.sleep(0)

    readers = [asyncio.create_task(read("evil")) for _ in range(100)]
    await asyncio.sleep(0)
    readers += [asyncio.create_task(read("acme")) for _ in range(3)]
    await asyncio.gather(*readers)
    assert [place for place, tenant in enumerate(order) if tenant == "acme"][-1] < 10
    assert (slots._free, slots._waiting) == (2, {})


@pytest.mark.parametrize("seed", range(30))
async def test_who_goes_takes_no_place_along(seed: int) -> None:
    slots, rng, inside = FairSlots(3), random.Random(seed), 0

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
    assert (inside, slots._free, slots._waiting) == (0, 3, {})
