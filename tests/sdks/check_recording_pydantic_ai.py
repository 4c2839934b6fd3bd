"""Models that ask for tools that nobody has, beside others: with a run's result and without, the SDK's own messages."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from pipeline.dialects.pydantic_ai.formats import messages
from tests.corpus.compare_pydantic import assembled_with_refusals, content
from tests.sdks.python_sdks import PYDANTIC_AI, run
from tests.sdks.recordings import by_run
from tests.support.spools import away
from tests.support.workers import environment

Events = list[dict[str, Any]]


@cache
def recorded(release: str) -> dict[str, tuple[Events, list[dict[str, Any]]]]:
    """By run: its events, and the SDK's own messages."""
    with TemporaryDirectory() as folder:
        settings = away(Path(folder))
        told = run(f"pydantic-ai-{release}", "pydantic_ai_recorder.py", variables=environment(settings))
        records = by_run(settings)
    return {case: ([event for record in records[case] for event in record["events"]], told[case]) for case in told}


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("release", PYDANTIC_AI)
def test_the_messages_are_the_sdks_own(release: str, *, alone: bool) -> None:
    found = {}
    for case, (events, own) in recorded(release).items():
        seen = [event for event in events if not (alone and event["event_kind"] == "agent_run_result")]
        document, refused = assembled_with_refusals(seen, end="complete")
        assert refused == []
        given, wanted = content(messages(document, for_version=release)), content(own)
        if given != wanted:
            found[case] = (given, wanted)
    assert found == {}
