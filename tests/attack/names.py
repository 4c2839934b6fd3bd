"""Attacks by the length of ids and names, which are remembered for longer than what they name."""

import json
import uuid
from typing import Any, Final

from tests.attack.attack import Attack
from tests.attack.poison import record
from tests.attack.stage import BOUND, Stage, spoken
from turnmill.errors import Reason

LONG: Final = 400_000  # characters


def long_named(number: int, key: str) -> dict[str, Any]:
    name = f"{number:04}" + "x" * LONG
    more = {"run": {key.partition(".")[2]: name}} if key.startswith("run.") else {key: name}
    return {**record(spoken("x"), thread=str(uuid.uuid4()), end="complete"), **more}


async def long_ids(stage: Stage) -> None:
    """As whoever may write to the topic, and by HTTP; then a restart."""
    keys = ("run_id", "agent_id", "dialect", "run.model_name", "run.external_id")
    stage.gateway.forget_peak()
    before = {one.offset for one in await stage.letters()}
    for start in range(0, 100, 20):
        await stage.publish(*[long_named(start + number, keys[number % len(keys)]) for number in range(20)])
    body = "\n".join(json.dumps(long_named(number, keys[number % len(keys)])) for number in range(15))
    answer = await stage.evil.post("/v1/records", content=body)
    assert (answer.json()["records"], len(answer.json()["refusals"])) == (0, 15), answer.text[:500]
    assert len(answer.text) < 20_000, "the answer holds what was sent"
    await stage.restart_worker()
    await stage.is_whole(await stage.speak())
    await stage.all_read()
    found = {one.offset: one for one in await stage.letters() if one.offset not in before}
    assert len(found) == 100, f"{len(found)} dead letters"
    for one in found.values():
        assert (one.reason, "characters; at most" in one.detail) == (Reason.NOT_AN_ENVELOPE, True), one.detail
    for name, program in (("worker", stage.worker), ("gateway", stage.gateway)):
        assert program.peak() < BOUND // 2, f"the {name} took {program.peak() >> 20} MiB"


ATTACKS: Final = (
    Attack("long ids", "115 runs whose ids and names have 400 KB", "be remembered, at their length", long_ids),
)
