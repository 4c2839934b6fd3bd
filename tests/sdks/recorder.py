"""For programs that run inside an environment with some SDK and this package: its runs, recorded as they take place.

Each case of `scripted` is played by the real SDK against a scripted server, and published as docs/publishing.md says.
The publisher's broker does not answer, so that what it publishes is in its spool. Prints {run_id: what the SDK made of
it}.
"""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from provider import Reply, provider
from scripted import BAD_ENDS, CASES, QUESTION, Answer
from scripted_wires import reply

from turnmill import Publisher
from turnmill.publish.run import PublishedRun

Fields = dict[str, Any]
Parts = list[list[Any]]  # in the neutral form of tests/corpus/compare_wires.py


@dataclass
class Made:
    """What the SDK has made of a run: its messages, their tokens, and what it holds of an answer that broke off.

    `history`: the messages as its own applications keep them, where the SDK writes them itself.
    """

    messages: list[tuple[str, Parts]] = field(default_factory=list)
    unfinished: Parts = field(default_factory=list)
    input: int = 0
    output: int = 0
    failed: str | None = None
    history: list[Fields] | None = None

    def response(self, parts: Parts, read: int | None, said: int | None) -> None:
        """A whole answer of the model, and its tokens."""
        self.messages.append(("response", parts))
        self.input += read or 0
        self.output += said or 0

    def piece(self, text: str) -> None:
        """A piece of text that is shown before its message is whole."""
        self.unfinished = self.unfinished or [["text", ""]]
        self.unfinished[0][1] += text

    def results(self, parts: Parts) -> None:
        """What tools gave."""
        self.messages.append(("request", parts))

    def truth(self) -> Fields:
        """As tests/corpus/compare_wires.py judges by it."""
        broke_off = {"content": None, "at_most": [*self.messages, ("response", self.unfinished)], "tokens": None}
        tokens = {"input": self.input, "output": self.output}
        whole = {"content": self.messages, "at_most": None, "tokens": tokens}
        return {"complete": self.failed is None, "failed": self.failed, **(broke_off if self.failed else whole)}


@dataclass(frozen=True)
class Task:
    """One run to record: publish what the SDK hands out, and note what it makes of it."""

    run: PublishedRun | None
    made: Made
    url: str  # of the scripted server
    name: str  # of the run; the id of its thread, where a helper publishes it


@dataclass(frozen=True)
class Speaker:
    """One way to use the SDK. `speak` lets its exceptions out; `body` is the run's request, where it needs one.

    `helper`: one of ours publishes the run by itself.
    """

    name: str
    dialect: str
    speak: Callable[[Task], Awaitable[None]]
    body: Fields | None = None
    fails: frozenset[str] = BAD_ENDS  # in these cases, and no others, it raises
    cases: dict[str, tuple[Answer, ...]] = field(default_factory=lambda: CASES)
    helper: bool = False


def main(*speakers: Speaker) -> None:
    """Record all cases with each."""
    print(json.dumps(asyncio.run(_record(speakers))))  # noqa: T201  # its result


async def _record(speakers: tuple[Speaker, ...]) -> Fields:
    script: deque[tuple[int, Answer]] = deque()
    unexpected: list[str] = []

    def play(path: str, body: Fields) -> Reply:
        if not script:
            unexpected.append(path)
            return Reply({"error": {"message": "nothing is left to say"}}, status=400)
        number, answer = script[0]
        if not answer.refused:  # whoever asks again is refused again
            script.popleft()
        return reply(path, answer, number, whole=not body.get("stream"))

    found = {}
    with provider(play) as url:
        async with Publisher() as publisher:
            for speaker in speakers:
                for case, answers in speaker.cases.items():
                    run_id, made = f"{speaker.name}: {case}", Made()
                    script.clear()
                    script.extend(enumerate(answers, 1))
                    with suppress(Exception):  # the run says how it ended
                        if speaker.helper:
                            await _spoken(speaker, Task(None, made, url, run_id))
                        else:
                            info = {"request": speaker.body} if speaker.body else None
                            async with publisher.run(
                                thread_id=run_id, run_id=run_id, agent_id="weather", dialect=speaker.dialect, info=info
                            ) as run:
                                await _spoken(speaker, Task(run, made, url, run_id))
                    assert not unexpected, (run_id, unexpected)
                    assert all(answer.refused for _, answer in script), (run_id, made.failed)
                    assert (made.failed is not None) == (case in speaker.fails), (run_id, made.failed)
                    found[run_id] = {"dialect": speaker.dialect, "history": made.history, **made.truth()}
    return found


async def _spoken(speaker: Speaker, task: Task) -> None:
    try:
        await speaker.speak(task)
    except Exception as error:
        task.made.failed = f"{type(error).__name__}: {error}"
        raise


__all__ = ["QUESTION", "Made", "Speaker", "Task", "main"]
