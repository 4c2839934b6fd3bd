"""Attacks by reading: what is stored once and written out often, and credentials in what models were asked."""

import asyncio
import json
import uuid
from typing import Any, Final

from tests.attack.attack import Attack
from tests.attack.bulk import results
from tests.attack.cost import MIB, bounded
from tests.attack.poison import record
from tests.attack.stage import Stage, spoken
from tests.support.topic_records import publish, read_all
from tests.unit.turnmill.capture.test_secrets import KEY, QUOTED, SETTINGS
from topics import json_text
from topics.catalog import FEEDBACK, TURNS
from turnmill.publish.feedback import made

RUNS: Final = 60
JUDGEMENTS: Final = 6_000
COMMENT: Final = "x" * 1_000
AT_ONCE: Final = 6
SHARE: Final = 600 * MIB  # that three such answers at once may take, which is a tenant's share of the slots
LARGE: Final = 70  # results of 850 KB: nearly as much as one answer may hold


async def is_stored(stage: Stage, thread: str, word: str) -> None:
    async def there() -> bool:
        return word in (await stage.evil.get(f"/v1/threads/{thread}")).text

    await stage.within_progress(there, lambda: f"{thread} is not stored")


async def one_request(stage: Stage) -> None:
    """Sixty runs that were asked the same, which is stored once."""
    thread, asked = str(uuid.uuid4()), {"messages": [], "system": "y" * 900_000}
    runs = [record(spoken("x"), run=f"r{number}", thread=thread, end="complete") for number in range(RUNS)]
    for run in runs:
        await stage.publish({**run, "run": {"request": asked}}, key=thread.encode())
    await stage.all_read()
    await is_stored(stage, thread, "meta:request")
    async with bounded(stage):
        path = f"/v1/threads/{thread}?requests=true"
        answers = await asyncio.gather(*(stage.evil.get(path) for _ in range(AT_ONCE)))
    assert {answer.status_code for answer in answers} <= {200, 409, 429}, answers[0].text[:500]


async def many_judgements(stage: Stage) -> None:
    thread = str(uuid.uuid4())
    await stage.upload(stage.evil, thread, "r", spoken("judged"))
    await is_stored(stage, thread, "judged")
    given = ({"id": f"f{n}", "name": "n", "value": COMMENT, "comment": COMMENT} for n in range(JUDGEMENTS))
    values = [(thread.encode(), json_text.encoded(made(thread, "evil", one))) for one in given]
    await publish(stage.settings, FEEDBACK, values, linger_ms=100)
    await stage.all_read()
    async with bounded(stage):
        path = f"/v1/threads/{thread}?feedback=true"
        answers = await asyncio.gather(*(stage.evil.get(path) for _ in range(AT_ONCE)))
    assert {answer.status_code for answer in answers} <= {200, 429}, answers[0].text[:500]


async def inline_values(stage: Stage) -> None:
    """A thread whose large values are just fewer than an answer may hold."""
    thread = str(uuid.uuid4())
    await stage.upload(stage.evil, thread, "r", results(LARGE, 850_000))
    await is_stored(stage, thread, "content_ref")
    async with bounded(stage, SHARE):
        path = f"/v1/threads/{thread}?inline=true"
        answers = await asyncio.gather(*(stage.evil.get(path) for _ in range(AT_ONCE)))
    assert {answer.status_code for answer in answers} <= {200, 429}, answers[0].text[:500]


async def credentials(stage: Stage) -> None:
    """In what models were asked, at each position that providers have for one: stored, on the topic and live."""
    kinds, shown = {"openai-chat": "object"}, []
    for number, (dialect, settings) in enumerate(SETTINGS):
        thread = str(uuid.uuid4())
        asked = {kinds.get(dialect, "type"): "turnmill.request", "request": {"model": "m", **settings}}
        run = record([asked], run=f"asked-{number}", thread=thread, end="complete")
        await stage.publish({**run, "dialect": dialect}, key=thread.encode())
        shown.append(f"/v1/threads/{thread}/live?follow=false")
        shown.append(f"/v1/threads/{thread}?requests=true&partial=true")
    await stage.all_read()
    found = [(page, (await stage.evil.get(page)).text) for page in shown]
    records: list[Any] = await read_all(stage.settings, TURNS)
    found += [("the topic of turns", (one.value or b"").decode()) for one in records]
    wrong = {page for page, text in found if KEY in text or QUOTED in text or json.dumps(KEY) in text}
    assert not wrong, f"credentials are shown at {sorted(wrong)[:5]}"
    assert any("turnmill.request" in text for _, text in found), "nothing of it is shown"


ATTACKS: Final = (
    Attack("one request", f"{RUNS} runs with one request of 900 KB, read six times", "fill the gateway", one_request),
    Attack("6,000 judgements", "feedback without end on a thread", "fill or hold the gateway", many_judgements),
    Attack("inline values", "60 MB of large values, read six times at once", "fill or hold the gateway", inline_values),
    Attack("credentials", f"{len(SETTINGS)} requests with credentials of providers' APIs", "be shown", credentials),
)
