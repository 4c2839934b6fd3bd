"""Attacks on holds: whose threads a tenant may hold or release, holds and deletions at once, and very many of them."""

import asyncio
import json
import sqlite3
import time
from typing import Any, Final
from urllib.parse import quote

from tests.attack.attack import Attack
from tests.attack.identity import of_acme, sees_nothing
from tests.attack.stage import Stage, spoken

ODD: Final = (
    *(
        "'; DROP TABLE holds; --",
        "%",
        "_",
        "*",
        "..",
        "a/b",
        "/",
        "\0",
        "\u202e",
        "天" * 300,
        "x" * 5_000,
        "{thread_id}",
    ),
    *("\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"), "null", "0", "-1", " ", "a\nb"),
)
RACES: Final = 12
MANY: Final = 1_000_000  # threads that are held
SLOWEST: Final = 5.0  # seconds of one call, on a busy machine


async def hold_anothers(stage: Stage) -> None:
    """Hold, release and delete by every name of the victim's thread, held or not; and by names that are none."""
    said = await stage.speak("order-4741")
    await stage.is_whole(said)
    uuid = of_acme(said.thread)
    assert (await stage.evil.get(f"/v1/threads/{uuid}")).status_code == 404, "this thread is the attacker's, too"
    names = (said.thread, uuid, uuid.upper(), f"{uuid}/acme", f"{said.thread}\0")
    for held in (False, True, False):
        change = stage.acme.put if held else stage.acme.delete
        answer = await change(f"/v1/threads/{uuid}/hold")
        assert answer.json()["held"] is held, answer.text
        for name in (*names, *ODD):
            for query in ("", "?tenant=acme", "?tenant="):
                path = f"/v1/threads/{quote(name, safe='')}"
                answers = [await stage.evil.put(f"{path}/hold{query}"), await stage.evil.delete(f"{path}/hold{query}")]
                if name not in ODD:
                    answers.append(await stage.evil.delete(f"{path}{query}"))
                for one in answers:
                    assert one.status_code in (400, 403, 404, 405, 422), f"{name!r}{query}: {one.text}"
                    assert "held" not in one.text, f"the attacker learns that it is held: {one.text}"
        held_now = (await stage.acme.delete(f"/v1/threads/{uuid}")).status_code == 409 if held else True
        assert held_now, "the attacker has released the victim's thread"
    await sees_nothing(stage, said)
    await stage.is_whole(said)
    assert (await stage.acme.delete(f"/v1/threads/{uuid}")).status_code == 200, "the attacker holds the victim's thread"


async def hold_the_same_id(stage: Stage) -> None:
    """The attacker's own thread has the id of the victim's: its hold is of its own alone."""
    said = await stage.speak("order-4742")
    await stage.is_whole(said)
    uuid = of_acme(said.thread)
    await stage.upload(stage.evil, uuid, "r1", spoken("evil has one, too"))

    async def held() -> bool:
        return (await stage.evil.put(f"/v1/threads/{uuid}/hold")).status_code == 200

    await stage.within_progress(held, lambda: "the attacker can't hold its own thread")
    assert (await stage.acme.put(f"/v1/threads/{uuid}/hold")).json()["changed"] is True, "it was held already"
    assert (await stage.evil.delete(f"/v1/threads/{uuid}/hold")).status_code == 200
    assert (await stage.evil.delete(f"/v1/threads/{uuid}")).status_code == 200
    assert (await stage.acme.delete(f"/v1/threads/{uuid}")).status_code == 409, "the attacker's release is everybody's"
    await stage.is_whole(said)
    answer = await stage.operator.put(f"/v1/threads/{uuid}/hold?tenant=evil")
    assert answer.status_code == 404, "what was erased can be held"
    assert (await stage.acme.delete(f"/v1/threads/{uuid}/hold")).json()["changed"] is True


async def hold_and_delete(stage: Stage) -> None:
    """Both at once: a thread is held and whole, or gone and not held."""
    threads = [await stage.speak(f"order-4743-{number}") for number in range(RACES)]
    for said in threads:
        await stage.is_whole(said)
    for said in threads:
        path = f"/v1/threads/{said.thread}"
        calls = [stage.acme.put(f"{path}/hold"), stage.acme.delete(path), stage.operator.delete(f"{path}?tenant=acme")]
        held, *deleted = await asyncio.gather(*calls)
        codes = [answer.status_code for answer in (held, *deleted)]
        assert max(codes) < 500, f"{codes}: {held.text}"
        found = (await stage.acme.get(path)).status_code
        if held.status_code == 200:
            assert (codes[1], codes[2], found) == (409, 409, 200), f"a held thread was deleted: {codes}"
            assert (await stage.acme.delete(f"{path}/hold")).status_code == 200
        else:
            assert 200 in codes[1:], f"neither held nor deleted: {codes}"
            assert found == 404, f"it was deleted, and is there: {codes}"


async def very_many_holds(stage: Stage) -> None:
    """A tenant holds all that it has, a million threads: the others' holds and deletions are as quick as before."""
    rows = ((f"{n:036d}/evil", json.dumps([f"{n:036d}", "evil"]), 1) for n in range(MANY))
    await asyncio.to_thread(_insert, stage.settings.store_url.removeprefix("sqlite:///"), rows)
    said = await stage.speak("order-4744")
    await stage.is_whole(said)
    path = f"/v1/threads/{said.thread}"
    calls = ((stage.acme.put, "/hold", 200), (stage.acme.delete, "", 409), (stage.acme.delete, "/hold", 200))
    for call, what, code in (*calls, (stage.acme.delete, "", 200)):
        began = time.monotonic()
        answer = await call(f"{path}{what}")
        assert answer.status_code == code, answer.text
        assert time.monotonic() - began < SLOWEST, f"{what or 'the deletion'} took {time.monotonic() - began:.1f} s"


def _insert(file: str, rows: Any) -> None:
    with sqlite3.connect(file, timeout=60) as connection:
        connection.executemany("INSERT INTO holds (thread_key, name, held_at) VALUES (?, ?, ?)", rows)
    connection.close()


ATTACKS: Final = (
    Attack(
        "hold others'",
        "hold, release and delete the victim's threads, by all their names and by names that are none",
        "hold, release or delete them, or learn which are held",
        hold_anothers,
    ),
    Attack(
        "hold the same id",
        "hold and release an own thread with the victim's UUID",
        "hold or release the victim's",
        hold_the_same_id,
        short=True,
    ),
    Attack(
        "hold and delete",
        "both at the same time, from several connections",
        "have a held thread deleted, or a deleted one held",
        hold_and_delete,
    ),
    Attack("hold a million", "hold a million threads", "make others' holds and deletions slow", very_many_holds),
)
