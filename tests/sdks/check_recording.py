"""Runs of the real SDKs, recorded there and then: what is assembled is what each SDK made of its own stream.

A scripted server answers, the documented way to publish is taken, and no broker is needed: what can't be sent is in the
spool.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS, FORMATS
from pipeline.dialects.history import Origin, thread
from pipeline.settings import Settings
from pipeline.turns.thread_document import thread_document
from tests.corpus.compare_wires import judge
from tests.sdks.python_sdks import problems, run
from tests.sdks.scripted import CASES, QUESTION
from tests.support.spools import away, spooled
from tests.support.workers import environment

SDKS = {
    "openai": "openai_recorder.py",
    "anthropic": "anthropic_recorder.py",
    "openai-agents": "openai_agents_recorder.py",
    "claude-agent-sdk": "claude_agent_recorder.py",
    "google-adk": "google_adk_recorder.py",
    "google-genai": "google_genai_recorder.py",
    "langgraph": "langgraph_recorder.py",
}


@cache
def recorded(sdk: str) -> dict[str, tuple[dict[str, Any], list[dict[str, Any]]]]:
    """By run: what the SDK made of it, and the records that were published."""
    with TemporaryDirectory() as folder:
        settings = away(Path(folder))
        made = run(sdk, SDKS[sdk], variables=environment(settings))
        records = by_run(settings)
    assert records.keys() == made.keys()
    return {run_id: (made[run_id], records[run_id]) for run_id in made}


def by_run(settings: Settings) -> dict[str, list[dict[str, Any]]]:
    """What is in the spool, by the name of a run: that of its thread, too, for a helper's run has an id of its own."""
    records = defaultdict(list)
    for record in spooled(settings):
        records[record["run_id"]].append(record)
    named = {found[0]["run"]["external_id"]: found for found in records.values()}
    assert len(named) == len(records)
    return named


def assembled(truth: dict[str, Any], records: list[dict[str, Any]]) -> None:
    """Assert that a run's records are assembled as its SDK has it."""
    turns, refused = assemble(DIALECTS[truth["dialect"]], records)
    assert refused == []
    assert records[-1]["end"] == ("error" if truth["failed"] else "complete")
    assert records[0]["agent_id"] == "weather"
    document = thread_document(records[0]["thread_id"], turns)
    judge(document, truth)
    asked, answered = document["turns"]
    assert asked["turn_type"] == "user"
    assert QUESTION in str(asked)
    kinds = [message["event_type"] for message in answered["messages"] if message["message_type"] == "system"]
    assert not [kind for kind in kinds if kind.startswith("data-app-")], "every event of the SDK is known"


def test_what_the_agents_sdk_keeps_of_a_run_is_imported_and_goes_on() -> None:
    form, exports = FORMATS["openai-responses"], {}
    assert form.reader is not None
    for run_id, (truth, records) in recorded("openai-agents").items():
        if not truth["failed"]:
            document = thread(form.reader, truth["history"], Origin(records[0]["thread_id"], "weather", 0))
            judge(document, {**truth, "tokens": None})
            assert document["turns"][0]["parts"] == [{"part_kind": "user-prompt", "content": QUESTION}]
            exports[run_id] = form.write(document)
            assert "__fake_id__" not in str(exports[run_id]), "no server knows it"
    assert exports
    assert problems("openai-agents", "openai_agents_loader.py", exports) == {}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sdk", SDKS)
def test_what_is_assembled_is_what_the_sdk_made(sdk: str, case: str) -> None:
    runs = [found for run_id, found in recorded(sdk).items() if run_id.endswith(f": {case}")]
    assert runs
    for truth, records in runs:
        assembled(truth, records)
