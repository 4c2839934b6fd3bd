"""Attacks on programs that hear commands from Kafka: by large answers, by many stops, and by a clock of their own."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from tests.attack.attack import Attack
from tests.attack.commanding import AT_ONCE, NESTED, answered, opened
from tests.attack.stage import NO_VARIABLES, Stage
from tests.support.places import ROOT
from tests.support.waiting import until
from tests.support.workers import environment

CLOCK: Final = ROOT / "tests" / "chaos" / "clock"
AHEAD: Final = 660  # seconds: more than a command is obeyed for
LARGE: Final = 200  # answers of 60 KB
STOPS: Final = 1_150
GROWTH: Final = 60  # MiB that a program may take more for others' answers
SLOWER: Final = 4.0  # seconds
# Asks which answers there are, twice, and prints the peak of its memory in KB and the seconds of the second time.
ASKS: Final = """
import resource, sys, time, turnmill
turnmill.answers("nobody asks here", tenant="acme")
began = time.monotonic()
turnmill.answers(sys.argv[1], tenant="acme")
print("asked", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic() - began, flush=True)
"""
# Says `ready` once it hears commands; begins the run r1 of its thread when a line comes; then says how that has ended.
RUNS: Final = """
import asyncio, sys, turnmill

async def endless():
    yield {"type": "start"}
    while True:
        yield {"type": "data-app", "data": 1}
        await asyncio.sleep(0.1)

async def main():
    async with turnmill.Publisher() as publisher:
        mine = {"thread_id": sys.argv[1], "agent_id": "a", "dialect": "vercel-ai", "tenant": "acme"}
        async with publisher.run(**mine, run_id="r0") as run:
            await run.send({"type": "start"})
            await asyncio.sleep(5)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        try:
            async with publisher.run(**mine, run_id="r1") as run:
                async for _ in run.tee(endless()):
                    pass
        except turnmill.RunStopped as stopped:
            print("stopped by", stopped.by, flush=True)

asyncio.run(main())
"""


class Agent:
    """A program of the victim's, that is not ours to restart."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log

    async def says(self, word: str) -> str:
        """Wait for a line that begins with this."""

        async def said() -> str:
            lines = self.log.read_text("utf-8", "replace").splitlines()
            return next((line for line in lines if line.startswith(word)), "")

        return await until(said, lambda: f"no {word!r}: {self.log.read_text('utf-8', 'replace')[-2000:]}", 60)

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()


@asynccontextmanager
async def agent(
    stage: Stage, code: str, *arguments: str, variables: Mapping[str, str] = NO_VARIABLES
) -> AsyncIterator[Agent]:
    """-> a program that uses our package over Kafka; it ends with the block."""
    program = begun(stage, [stage.code.python, "-c", code, *arguments], variables)
    try:
        yield program
    finally:
        program.process.kill()
        program.process.wait()


def begun(stage: Stage, command: list[str], variables: Mapping[str, str]) -> Agent:
    log = Path(stage.settings.home) / "agent.log"
    given = environment(stage.settings, **variables)
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdin=-1, stdout=out, stderr=out, env=given, cwd=stage.code.folder)
    return Agent(process, log)


async def large_answers(stage: Stage) -> None:
    """Others' answers are on the topic, too, that a program reads for its own."""
    mine, theirs = await opened(stage, "acme"), await opened(stage, "evil")

    async def asks() -> tuple[int, float]:
        async with agent(stage, ASKS, mine) as program:
            _, peak, seconds = (await program.says("asked")).split()
        return int(peak) // 1024, float(seconds)

    calm, soon = await asks()
    await answered(stage.evil, theirs, ((f"q{number}", NESTED) for number in range(LARGE)))
    busy, late = await asks()
    assert busy - calm < GROWTH, f"a program takes {busy - calm} MiB more for others' answers"
    assert late - soon < SLOWER, f"a program waits {late:.1f} s for its answers, {soon:.1f} s without others'"


async def early_stop(stage: Stage) -> None:
    """A stop that comes before its run, and then many of another tenant's."""
    theirs = await opened(stage, "evil")
    async with agent(stage, RUNS, "early") as program:
        await program.says("ready")
        stop = await stage.acme.post("/v1/threads/early/runs/r1/stop", json={"by": "ann"})
        assert stop.status_code == 202, stop.text
        slots = asyncio.Semaphore(AT_ONCE)

        async def give(number: int) -> None:
            async with slots:
                await stage.evil.post(f"/v1/threads/{theirs}/runs/{number}/stop")

        await asyncio.gather(*map(give, range(STOPS)))
        await asyncio.sleep(2)  # the program has heard them
        program.go_on()
        assert await program.says("stopped") == "stopped by ann"


async def clock_ahead(stage: Stage) -> None:
    """The clock of a program is eleven minutes ahead: a stop reaches its run, and is not called completed before."""
    clock = Path(stage.settings.home) / "program-clock"
    clock.write_text(str(AHEAD))
    ahead = {"PYTHONPATH": str(CLOCK), "CHAOS_CLOCK": str(clock)}
    async with agent(stage, RUNS, "ahead", variables=ahead) as program:
        await program.says("ready")
        program.go_on()

        async def is_open() -> bool:
            runs = (await stage.acme.get("/v1/runs", params={"status": "open", "thread": "ahead"})).json()["runs"]
            return any(run["run_id"] == "r1" for run in runs)

        await until(is_open)
        stop = (await stage.acme.post("/v1/threads/ahead/runs/r1/stop", json={"by": "ann"})).json()["command_id"]
        assert await program.says("stopped") == "stopped by ann"

        async def has_ended() -> bool:
            state = (await stage.acme.get(f"/v1/commands/{stop}")).json()["state"]
            assert state in ("requested", "acknowledged", "ended"), f"a stop that was obeyed is {state}"
            return bool(state == "ended")

        await until(has_ended)


ATTACKS: Final = (
    Attack(
        "answers for programs",
        "200 large answers on the topic that other tenants' programs read",
        "fill or hold a program that asks for its own",
        large_answers,
    ),
    Attack("stops for programs", "1,150 stops", "make a program forget another tenant's stop", early_stop),
    Attack("program ahead", "a program whose clock is 11 minutes ahead", "never be stopped", clock_ahead),
)
