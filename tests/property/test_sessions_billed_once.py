"""Forks of sessions of coding agents, and forks of forks, bill each answer once, whatever was copied."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.dialects.anthropic.copilot_session import Copilot as CopilotReader
from pipeline.dialects.claude_code.transcript import Session
from pipeline.dialects.gemini.session import Chat
from pipeline.dialects.openai_responses.rollout import Rollout
from pipeline.dialects.transcript import Homes, Reader
from pipeline.dialects.vercel_ai.opencode import Conversations
from tests.support.read_sessions import opencodes_lines, read
from tests.support.session_forks import (
    copied_gemini,
    forked_claude,
    forked_codex,
    forked_copilot,
    forked_opencode,
    resumed_claude,
)
from tests.support.sessions import Claude, Codex, Copilot, Gemini, Opencode
from tests.support.told_runs import billed


@dataclass
class Kept:
    """A session, how much it held after each of its runs, and which words were asked in them."""

    session: Any
    runs: list[int] = field(default_factory=list)
    words: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Program:
    """How a program writes sessions. `fork`: a new one with what another one held at a point."""

    new: Callable[[str], Any]
    ask: Callable[[Any, str], None]
    fork: Callable[[Any, int, str], Any]
    reader: Callable[[Any, Homes], Reader]
    answer: tuple[int, int]  # the input and output tokens of an answer of `tests.support.sessions`
    held: Callable[[Any], list[Any]] = lambda session: session.lines


def ask_claude(session: Claude, words: str) -> None:
    session.ask(words)
    session.say("Thinking.", "Done.")


def ask_codex(session: Codex, words: str) -> None:
    session.ask(f"turn-{words}", words)
    session.say("Done.")
    session.done(f"turn-{words}")


def ask_others(session: Any, words: str) -> None:
    session.ask(words)
    session.answer("Done.") if isinstance(session, Opencode) else session.say("Done.")


PROGRAMS: Final = {
    "claude-code": Program(
        Claude, ask_claude, forked_claude, lambda one, homes: Session(one.file, one.session, homes), (103, 20)
    ),
    "claude-code, older": Program(
        Claude, ask_claude, resumed_claude, lambda one, homes: Session(one.file, one.session, homes), (103, 20)
    ),
    "codex": Program(
        Codex, ask_codex, forked_codex, lambda one, homes: Rollout(one.file, one.session, homes), (100, 10)
    ),
    "copilot-cli": Program(
        Copilot, ask_others, forked_copilot, lambda one, homes: CopilotReader(one.file, one.session, homes), (100, 20)
    ),
    "gemini-cli": Program(
        Gemini, ask_others, copied_gemini, lambda one, homes: Chat(one.session, one.session, homes), (100, 25)
    ),
    "opencode": Program(
        Opencode,
        ask_others,
        forked_opencode,
        lambda one, homes: Conversations("opencode.db", homes),
        (100, 20),
        lambda one: one.rows,
    ),
}
FORKS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 2)), max_size=4)


def lines(session: Any) -> Sequence[Any]:
    return list(opencodes_lines(session)) if isinstance(session, Opencode) else session.lines


@pytest.mark.parametrize("program", PROGRAMS)
@given(first=st.integers(1, 3), forks=FORKS, gone=st.sets(st.integers(0, 4)))
@settings(max_examples=30)
def test_each_answer_is_billed_once(
    program: str, first: int, forks: list[tuple[int, int, int]], gone: set[int]
) -> None:
    """`forks`: of which session, behind which of its runs, how many runs follow; `gone`: sessions without a file."""
    wrote = PROGRAMS[program]
    sessions = [Kept(wrote.new("session 0"))]
    go_on(wrote, sessions[0], first)
    for number, (chosen, point, runs) in enumerate(forks, 1):
        origin = sessions[chosen % len(sessions)]
        count = 1 + point % len(origin.runs)
        held = origin.runs[count - 1]
        fork = Kept(wrote.fork(origin.session, held, f"session {number}"), words=origin.words[:count])
        more = len(wrote.held(fork.session)) - held
        fork.runs = [end + more for end in origin.runs[:count]]
        go_on(wrote, fork, runs)
        sessions.append(fork)
    kept = [one for number, one in enumerate(sessions) if number not in gone]
    asked = {words for one in kept for words in one.words}
    homes = Homes()
    for _ in range(2):
        found = read([(wrote.reader(one.session, homes), lines(one.session)) for one in kept])
        sums = billed(found.records)
        assert (sums["input_tokens"], sums["output_tokens"]) == tuple(len(asked) * count for count in wrote.answer)
        assert sums["requests"] == len(asked) or gone
        assert not found.refused


def go_on(wrote: Program, kept: Kept, runs: int) -> None:
    """Ask something that no other run asks, so many times."""
    for _ in range(runs):
        words = f"{kept.session.session} {len(kept.runs)}"
        wrote.ask(kept.session, words)
        kept.words.append(words)
        kept.runs.append(len(wrote.held(kept.session)))
