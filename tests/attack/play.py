"""Playing attacks: each on a stage with its settings, beside the victim's own runs, and what came of it."""

import asyncio
import gc
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pipeline.settings import Settings
from tests.attack.attack import Attack
from tests.attack.stage import BOUND, QUICK, Code, Stage, staged

AT_MOST: Final = 300.0  # seconds of one attack, after which something hangs
BESIDE: Final = 2  # the victim's runs before, and as many after


@dataclass(frozen=True, slots=True)
class Outcome:
    """`problem` is empty where the attack was held."""

    attack: Attack
    problem: str
    seconds: float
    peak: int  # bytes of the worker's memory
    held: float = 0.0  # seconds: the gateway's loop was held for less than that


async def play(stage: Stage, attack: Attack) -> str:
    """-> what the attack achieved; empty where it was held."""
    try:
        async with asyncio.timeout(AT_MOST):
            stage.worker.forget_peak()
            said = [await stage.speak() for _ in range(BESIDE)]
            await attack.run(stage)
            said += [await stage.speak() for _ in range(BESIDE)]
            for one in said:
                await stage.is_whole(one)
            stage.alive()
            peak = stage.worker.peak()
            assert peak < BOUND, f"the worker took {peak >> 20} MiB"
    except AssertionError as error:
        return str(error) or repr(error)
    except TimeoutError:
        return f"it did not come to an end within {AT_MOST:.0f} s"
    except Exception as error:  # the stage is beyond answering, or the attack itself is at fault
        return f"{type(error).__name__}: {error}"
    return ""


class Theatre:
    """Stages by their settings: attacks that need the same share one, until one of them breaks it."""

    def __init__(self, base: Settings, code: Code, postgres: Callable[[], str]) -> None:
        self._base = base
        self._code = code
        self._postgres = postgres
        self._stages: dict[str, tuple[AsyncExitStack, Stage]] = {}

    async def play_all(self, attacks: Sequence[Attack]) -> AsyncIterator[Outcome]:
        """The attacks, those of one stage behind each other; their stages end with the last."""
        try:
            for place, attack in enumerate(attacks):
                gc.collect()  # else this program, which has the victim, too, would do it while the victim waits
                gc.freeze()
                began = time.monotonic()
                try:
                    stage = await self._stage(attack)
                except Exception as error:
                    yield Outcome(attack, f"its stage did not start: {error}", time.monotonic() - began, 0)
                    continue
                before = await stage.held()
                problem = await play(stage, attack)
                alive = stage.gateway.process.poll() is None
                held = await stage.longest_hold(before) if alive else float("inf")
                peak = stage.worker.peak() if stage.worker.process.poll() is None else 0
                yield Outcome(attack, problem, time.monotonic() - began, peak, held)
                if problem or all(str(later.settings) != str(attack.settings) for later in attacks[place + 1 :]):
                    await self._stages.pop(str(attack.settings))[0].aclose()
        finally:
            for stack, _ in self._stages.values():
                await stack.aclose()

    async def _stage(self, attack: Attack) -> Stage:
        key = str(attack.settings)
        if key not in self._stages:
            async with AsyncExitStack() as stack:
                stage = await stack.enter_async_context(staged(self._settings(attack.settings), self._code))
                self._stages[key] = stack.pop_all(), stage
        return self._stages[key][1]

    def _settings(self, more: Any) -> Settings:
        name = uuid.uuid4().hex[:8]
        home = Path(self._base.home).absolute() / name
        changes = {**QUICK, "home": home, "topic_prefix": f"attack-{name}", "port": 0, "gateway_port": 0, **more}
        changes.setdefault("archive", (home / "archive").as_uri())
        changes.setdefault("redact", "secrets")
        if str(changes["redact"]).startswith("["):
            home.mkdir(parents=True)
            (home / "rules.json").write_text(str(changes["redact"]))
            changes["redact"] = str(home / "rules.json")
        if changes.get("store") == "postgres":
            changes["store"] = self._postgres()
        return self._base.model_copy(update=changes)


def table(outcomes: Iterable[Outcome]) -> str:
    """One line each: attack, verdict, what it took, and what went wrong."""
    rows = []
    for one in outcomes:
        verdict = "BROKEN" if one.problem else "held"
        rows.append(
            f"{one.attack.name:<34} {verdict:<7} {one.seconds:5.0f} s {one.peak >> 20:5d} MiB, loop < {one.held:g} s"
        )
        if one.problem:
            rows.append(f"    {one.attack.may_not}: {one.problem[:1500]}")
    return "\n".join(rows)
