"""Runs of SDKs that were recorded there and then: what an SDK made of each, and the records that were published."""

from collections import defaultdict
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from pipeline.settings import Settings
from pipeline.turns.thread_document import thread_document
from tests.corpus.compare_wires import judge
from tests.sdks.python_sdks import run
from tests.sdks.scripted import QUESTION
from tests.support.spools import away, spooled
from tests.support.workers import environment


@cache
def recorded(
    sdk: str, recorder: str, *, newest: bool = False
) -> dict[str, tuple[dict[str, Any], list[dict[str, Any]]]]:
    """By the name of a run: what the SDK made of it, and the records that were published."""
    with TemporaryDirectory() as folder:
        settings = away(Path(folder))
        made = run(sdk, recorder, variables=environment(settings), newest=newest)
        records = by_thread(settings)
    assert records.keys() == made.keys()
    return {name: (made[name], records[name]) for name in made}


def by_run(settings: Settings) -> dict[str, list[dict[str, Any]]]:
    """What is in the spool, by the ids of runs."""
    records = defaultdict(list)
    for record in spooled(settings):
        records[record["run_id"]].append(record)
    return records


def by_thread(settings: Settings) -> dict[str, list[dict[str, Any]]]:
    """The same by the names of threads, of one run each: a helper gives its runs ids of its own."""
    runs = by_run(settings)
    named = {found[0]["run"]["external_id"]: found for found in runs.values()}
    assert len(named) == len(runs)
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


def turns(records: list[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    """Records of one run -> its turns, and what was refused."""
    found, refused = assemble(DIALECTS[records[0]["dialect"]], records)
    return [record["turn"] for record in found if record["turn"]], refused
