"""Attacks by webhooks: on what only our own network reaches, with receivers that are slow, and on secrets in logs."""

import asyncio
from typing import Any, Final

from pydantic import SecretStr

from tests.attack.attack import Attack
from tests.attack.stage import Stage, spoken
from tests.support.receiver import receiving
from tests.support.waiting import until

KEY: Final = "key-in-a-query"
SETTINGS: Final[dict[str, Any]] = {"webhooks": SecretStr("[]")}
REACHES: Final[dict[str, Any]] = {**SETTINGS, "webhooks_allow": "127.0.0.1/32"}
# Names and spellings of this machine, and of a cloud's metadata.
INSIDE: Final = (
    *("http://127.0.0.1:{port}/", "https://127.0.0.1:{port}/", "http://localhost:{port}/", "https://localhost:{port}/"),
    *("http://127.1:{port}/", "http://2130706433:{port}/", "http://0x7f000001:{port}/", "http://0:{port}/"),
    *("http://[::1]:{port}/", "http://[::ffff:127.0.0.1]:{port}/", "https://[64:ff9b::7f00:1]:{port}/"),
    *("http://169.254.169.254/latest/meta-data/", "https://169.254.169.254/", "https://[fd00:ec2::254]/"),
)


async def inside(stage: Stage) -> None:
    """Webhooks that lead to this machine: none hears anything, and the log says nothing of their queries."""
    async with receiving() as receiver:
        port = receiver.url.rpartition(":")[2]
        for url in INSIDE:
            made = await stage.evil.post("/v1/webhooks", json={"url": url.format(port=port) + f"?{KEY}"})
            assert made.status_code == 201, made.text
        await speaks(stage)
        await stage.is_whole(await stage.speak())

        async def tried() -> bool:
            return all(one["id"] in stage.worker.text() for one in await theirs(stage))

        await until(tried, stage.worker.text)  # the log names each that has not taken its event
        assert receiver.came == []
    assert KEY not in stage.worker.text()
    await gone(stage)


async def slow(stage: Stage) -> None:
    """A webhook whose receiver takes each request and never answers: the victim's turns are stored all the same."""

    async def never(event: dict[str, Any], before: int) -> int:
        await asyncio.sleep(3600)
        return 200

    async with receiving(never) as receiver:
        made = await stage.evil.post("/v1/webhooks", json={"url": receiver.url})
        assert made.status_code == 201, made.text
        await speaks(stage)
        for _ in range(5):
            await stage.is_whole(await stage.speak())
        assert made.json()["secret"] not in stage.worker.text()
    await gone(stage)


async def speaks(stage: Stage) -> None:
    """The attacker's own turn, of which the attacker's webhooks are to hear."""
    answer = await stage.upload(stage.evil, "evil", "r", spoken("anything at all "))
    assert answer.status_code == 200, answer.text


async def theirs(stage: Stage) -> list[dict[str, Any]]:
    return list((await stage.evil.get("/v1/webhooks")).json()["webhooks"])


async def gone(stage: Stage) -> None:
    for one in await theirs(stage):
        assert (await stage.evil.delete(f"/v1/webhooks/{one['id']}")).status_code == 204


ATTACKS: Final = (
    Attack(
        "webhooks inside",
        "webhooks that lead to this machine and to a cloud's metadata, in 14 spellings",
        "be delivered, or put their queries into the log",
        inside,
        SETTINGS,
        short=True,
    ),
    Attack("slow receivers", "a webhook whose receiver never answers", "hold up others", slow, REACHES),
)
