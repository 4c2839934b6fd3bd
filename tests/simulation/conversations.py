"""Conversations that fork: a client asks for other answers and edits its questions, and knows what is on its screen."""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pipeline.turns.branches import BRANCH, one_branch
from pipeline.turns.thread_document import thread_document
from tests.simulation.tenants import GOOD, Run
from tests.simulation.wire import mark
from tests.simulation.worker import REDACTED, SECRET
from tests.support.forked import said
from topics.turn_record import TurnRecord
from turnmill.identity import thread_uuid

WORDS: Final = ("yes", "go on", "why?", f"it is {SECRET}")  # as often the same as not
Screen = Sequence[Mapping[str, Any]]  # messages as a client of the AI SDK keeps them


def conversation(number: int, rng: random.Random) -> list[Run]:
    """The runs of one client, in their order; each knows what was on the screen behind it."""
    tenant = rng.choice(GOOD)
    thread_id = thread_uuid(f"talk-{number}", tenant)[0]
    screens: list[Screen] = []
    runs: list[Run] = []
    for step in range(rng.randint(2, 5)):
        run_id = f"talk-{number}-{step}"
        screen = list(rng.choice(screens)) if screens and rng.random() < 0.6 else list(screens[-1] if screens else ())
        cut = rng.choice((0, 0, 1, 1, 2, 3)) if screen else 0
        screen = screen[: len(screen) - cut]
        asks_again = bool(screen) and screen[-1]["role"] == "user"
        if not asks_again:
            edited = cut and rng.random() < 0.5 and len(screen) % 2 == 0
            old = [
                one for some in screens for one in some[len(screen) : len(screen) + 1] if some[: len(screen)] == screen
            ]
            name = rng.choice(old)["id"] if old and (edited or not screen) else f"{run_id}-user"
            screen.append(message("user", name, f"{mark(tenant, run_id, 0)} {rng.choice(WORDS)}"))
        request = {"messages": screen, "again": asks_again}
        texts = [f"{mark(tenant, run_id, n)} answer {rng.choice(WORDS)}" for n in range(rng.randint(1, 3))]
        events: list[dict[str, Any]] = [{"type": "text", "text": text} for text in texts]
        screen = [*screen, message("assistant", run_id, *texts)]
        shown = tuple(text for one in screen for text in one["content"])
        runs.append(
            Run(tenant, thread_id, run_id, [*events, {"type": "finish"}], info={"request": request}, screen=shown)
        )
        screens.append(screen)
    return runs


def message(role: str, name: str, *texts: str) -> dict[str, Any]:
    return {"role": role, "id": name, "content": list(texts)}


def wrong_branches(
    runs: Sequence[Run], stored: Mapping[str, Sequence[TurnRecord]], right: Mapping[str, Sequence[TurnRecord]]
) -> Iterator[str]:
    """What is wrong with a conversation, by run id: the turns that are stored, and those that are right."""
    first = runs[0]
    documents = [
        thread_document(first.thread_id, [record for records in some.values() for record in records])
        for some in (stored, right)
    ]
    document = documents[0]
    places, others = ([turn.get(BRANCH) for turn in one["turns"]] for one in documents)
    if places != others:
        yield f"{first.thread_id}: its turns stand at {places} where {others} is right"
    whole = [run for run in runs if is_whole(run, stored.get(run.run_id, ()))]
    if whole != list(runs[: len(whole)]):
        return  # a client does not go on from what it has not got
    for run in whole:
        screen = [text.replace(SECRET, REDACTED) for text in run.screen]
        shown = said(one_branch(document, run.run_id))[: len(screen)]
        if shown != screen:
            yield f"{first.thread_id}: the branch of {run.run_id} is {shown} where {screen} was on the screen"
        if run is runs[-1] and said(one_branch(document)) != screen:
            yield f"{first.thread_id}: {run.run_id} is not in the newest branch"


def is_whole(run: Run, records: Sequence[TurnRecord]) -> bool:
    return any(record["status"] == "complete" and record.get("events") == len(run.events) for record in records)
