"""What was erased must be gone: from what is delivered later, from dead letters, and from the files of the store."""

import asyncio
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from tests.attack.attack import Attack
from tests.attack.stage import Stage
from tests.support.receiver import receiving
from tests.support.waiting import until

SETTINGS: Final[dict[str, Any]] = {"webhooks": SecretStr("[]"), "webhooks_allow": "127.0.0.1/32"}
AGAIN: Final = 8.0  # seconds: longer than until the second attempt to deliver, with its jitter


async def delivered_later(stage: Stage) -> None:
    """One webhook refuses the turn and would take it the second time, another says 410 once the thread is erased."""
    erased = asyncio.Event()

    async def later(event: dict[str, Any], before: int) -> int:
        return 503 if event["type"].startswith("turn.") and not before else 204

    async def gone(event: dict[str, Any], before: int) -> int:
        await asyncio.wait_for(erased.wait(), 10)
        return 410

    async with receiving(later) as patient, receiving(gone) as leaving:
        ids = []
        for receiver in (patient, leaving):
            made = await stage.acme.post("/v1/webhooks", json={"url": receiver.url})
            assert made.status_code == 201, made.text
            ids.append(made.json()["id"])
        said = await stage.speak()
        await stage.is_whole(said)

        async def both_heard() -> bool:
            return bool(patient.came and leaving.came)

        await until(both_heard, stage.worker.text)
        answer = await stage.acme.delete(f"/v1/threads/{said.thread}")
        assert answer.status_code in (200, 204), answer.text
        heard = len(patient.came), len(leaving.came)
        erased.set()

        async def told() -> bool:
            return any(one["type"] == "thread.deleted" for one in patient.taken)

        await until(told, stage.worker.text)
        await asyncio.sleep(AGAIN)
        words = said.text.encode()
        assert not any(words in body for _, body in patient.came[heard[0] :]), "delivered behind its erasure"
        assert not any(words in body for _, body in leaving.came[heard[1] :])
        assert not any(words in (letter.value or b"") for letter in await stage.letters()), "a dead letter of it"
        for one in ids:
            assert (await stage.acme.delete(f"/v1/webhooks/{one}")).status_code == 204


async def in_files(stage: Stage) -> None:
    """Words of an erased thread, looked for in each byte of the store, its log, large values and the archive."""
    other, said = await stage.speak(), await stage.speak()
    for one in (other, said):
        await stage.is_whole(one)
    answer = await stage.acme.delete(f"/v1/threads/{said.thread}")
    assert answer.status_code in (200, 204), answer.text
    home = Path(stage.settings.home)
    rarest = max(said.text.split(), key=len).encode()
    places = [*home.glob("threads.db*"), *(home / "content").rglob("*")]
    found = [place.name for place in places if place.is_file() and rarest in place.read_bytes()]
    assert found == [], f"{rarest!r} is in {found}"
    await stage.is_whole(other)


ATTACKS: Final = (
    Attack(
        "delivered later",
        "a thread is erased while a webhook waits for its second attempt, and another one answers 410",
        "be delivered, or become a dead letter",
        delivered_later,
        SETTINGS,
    ),
    Attack("left in files", "the bytes of the store behind an erasure", "have a word of it", in_files, short=True),
)
