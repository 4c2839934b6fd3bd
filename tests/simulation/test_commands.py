"""Schedules of commands hold what the checker asks; it finds each mend that is taken out again."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from pipeline.gateway.control import commands as gateway
from pipeline.policies import command_states
from tests.simulation import commands
from tests.simulation.commands import played
from turnmill.control import claims
from turnmill.control import receiver as control
from turnmill.control.receiver import Control
from turnmill.control.steering import Inbox
from turnmill.pools import HEARD
from turnmill.publish.run import PublishedRun
from turnmill.remembered import Remembered

SCHEDULES: Final = 12
MOST: Final = 40  # in which a mutant must be found


class Anybody(str):
    """Equal to every thread."""

    __slots__ = ()

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False


def the_newest_answer_counts(patch: pytest.MonkeyPatch) -> None:
    def newest_first(records: Sequence[dict[str, Any]], *more: Any) -> Any:
        return claims.open_answers(records[::-1], *more)

    patch.setattr(claims.Claims, "take", lambda _, command, __: command)
    patch.setattr(commands, "open_answers", newest_first)


class Forgets(Remembered[str, Any]):
    """Holds nothing, if it is asked."""

    def get(self, _: str | None, __: str) -> None:
        return None


def repeats_count(patch: pytest.MonkeyPatch) -> None:
    def put(self: Inbox, command: Any) -> Any:
        self._known.clear()
        return real_put(self, command)

    def made(self: Control, *given: Any) -> None:
        real_made(self, *given)
        self._recent, self._done = Forgets(HEARD), _NeverThere()

    real_put, real_made = Inbox.put, Control.__init__
    patch.setattr(Inbox, "put", put)
    patch.setattr(Control, "__init__", made)


class _NeverThere(set[str]):
    def __contains__(self, _: object) -> bool:
        return False


def threads_are_mixed_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(control, "thread_uuid", lambda *_: (Anybody(), None))


def a_stopped_run_is_complete(patch: pytest.MonkeyPatch) -> None:
    async def end(self: PublishedRun, end: str = "complete", **more: Any) -> None:
        await real(self, "complete", **more)

    real = PublishedRun.end
    patch.setattr(PublishedRun, "end", end)


def every_end_is_a_stop(patch: pytest.MonkeyPatch) -> None:
    def run_ended(before: Any, end: str, at: int) -> Any:
        return command_states.CommandStatus("ended", at, end) if before.state not in command_states.FINAL else before

    patch.setattr(gateway, "run_ended", run_ended)


def what_is_asked_is_done(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(gateway, "requested", lambda at: command_states.CommandStatus("acknowledged", at))


MUTANTS: Final[tuple[Callable[[pytest.MonkeyPatch], None], ...]] = (
    the_newest_answer_counts,
    repeats_count,
    threads_are_mixed_up,
    a_stopped_run_is_complete,
    every_end_is_a_stop,
    what_is_asked_is_done,
)


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_all_holds(seed: int) -> None:
    assert played(seed) == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_mutant_is_found(mutant: Callable[[pytest.MonkeyPatch], None]) -> None:
    assert any(played(seed, mutant) for seed in range(MOST))
