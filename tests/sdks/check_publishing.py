"""Pydantic AI's runs, published by our helpers from each supported release: what is assembled is what the SDK holds.

Part of `make test-sdks`; no broker is needed, since what can't be sent is in the spool.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS, FORMATS
from pipeline.dialects.history import Origin, thread
from pipeline.dialects.shared_hash import shared_hash
from tests.sdks.python_sdks import PYDANTIC_AI, run
from tests.support.spools import away, spooled
from tests.support.workers import environment
from turnmill.identity import thread_uuid


@pytest.mark.parametrize("release", PYDANTIC_AI)
def test_what_is_published_is_what_the_sdk_holds(release: str, tmp_path: Path) -> None:
    settings = away(tmp_path)
    told = run(f"pydantic-ai-{release}", "publishing_agent.py", variables=environment(settings))
    records = spooled(settings)
    over = "pydantic-ai over vercel-ai" if release.startswith("2.") else "pydantic-ai 1.x over vercel-ai"
    for run_id, dialect, wires in (
        ("events", "pydantic-ai", ["pydantic-ai"]),
        ("response", "vercel-ai", [over, "pydantic-ai"]),
    ):
        told_of = [record for record in records if record["run_id"] == run_id]
        (asked, answered), refused = turns(dialect, told_of)
        assert refused == []
        assert "What's the weather in Paris and Rome?" in json.dumps(asked)
        assert answered["completion_status"] == "complete"
        assert shared_hash(answered, *wires) == shared_hash(own_turn(told[run_id]), *wires)


def turns(dialect: str, run: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[Any]]:
    """-> the user's and the agent's turn, and what was refused."""
    found, refused = assemble(DIALECTS[dialect], run)
    return [record["turn"] for record in found if record["turn"]], refused


def own_turn(messages: list[Any]) -> dict[str, Any]:
    """What `turnmill import` makes of the SDK's own messages."""
    document = thread(FORMATS["pydantic-ai"].reader, messages, Origin(thread_uuid("chat")[0], "weather", 0))
    (turn,) = [turn for turn in document["turns"] if turn["turn_type"] == "agent"]
    return dict(turn)
