"""Workers as processes, which tests start, kill and stop; and what they have stored."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import all_documents, count_rows
from tests.support import fork_server
from tests.support.fork_server import Started
from tests.support.waiting import PATIENCE, until
from turnmill.settings import PREFIX

USUAL: Final = ("-m", "pipeline")


def environment(settings: Settings, **more: str) -> dict[str, str]:
    """The variables that give a process these settings."""
    names = settings.model_dump(exclude_none=True, exclude_defaults=True)
    values = {name: v.get_secret_value() if isinstance(v, SecretStr) else str(v) for name, v in names.items()}
    return {**os.environ, **{PREFIX + name.upper(): value for name, value in values.items()}, **more}


class WorkerProcess:
    """One `turnmill worker`; its log goes to a file in the test's folder.

    `program`: what Python runs as `turnmill`, in `folder`; `variables` are added to its environment. `forked`: the
    fork server starts it, where these are the usual ones.
    """

    def __init__(
        self,
        settings: Settings,
        name: str = "worker",
        roles: str = "assemble,metrics,store",
        *,
        processes: int = 1,
        program: Sequence[str] = USUAL,
        forked: bool = True,
        folder: Path | None = None,
        **variables: str,
    ) -> None:
        self.settings = settings
        self.program = program
        self.forked = forked
        self.folder = folder
        self.variables = variables
        self.name = name
        self.roles = roles
        self.processes = processes
        self.log = Path(settings.home) / f"{name}.log"
        self.process: Started | None = None

    def start(self) -> WorkerProcess:
        arguments = ["worker", "--roles", self.roles]
        if self.processes > 1:  # a worker whose roles are named has one
            arguments += ["--processes", str(self.processes)]
        variables = environment(self.settings, **self.variables)
        with self.log.open("ab") as out:
            if self.forked and (self.program, self.folder) == (USUAL, None):
                self.process = fork_server.start(arguments, variables, subprocess.DEVNULL, out, out)
            else:
                command = [sys.executable, *self.program, *arguments]
                self.process = subprocess.Popen(command, env=variables, cwd=self.folder, stdout=out, stderr=out)
        return self

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def stop(self) -> int:
        return self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> int:
        assert self.process is not None
        assert self.process.poll() is None, f"{self.name} had ended already:\n{self.text()[-3000:]}"
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def end(self) -> None:
        """Whatever state it is in."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()

    def children(self) -> dict[str, int]:
        """Name -> process id, of the processes that a worker of several has."""
        assert self.process is not None
        found = {}
        for folder in Path("/proc").iterdir():
            try:
                parent = re.search(r"\) . (\d+) ", (folder / "stat").read_text())
                command = (folder / "cmdline").read_text().split("\0")
            except OSError:  # no process, or none any more
                continue
            if parent is not None and int(parent[1]) == self.process.pid:
                found[command[command.index("--child") + 1]] = int(folder.name)
        return found

    async def url(self, within: float = PATIENCE) -> str:
        """Where its health and metrics are, once it has said so."""

        async def said() -> re.Match[str] | None:
            return re.search(r"^turnmill: .*; (http://[\w.:]+)$", self.text(), re.MULTILINE)

        return (await until(said, lambda: f"{self.name} did not start:\n{self.text()}", within))[1]

    def text(self) -> str:
        return self.log.read_text() if self.log.exists() else ""


async def stored(settings: Settings) -> dict[str, str]:
    """turn_id -> canonical hash, of every stored turn of complete status, from the documents themselves."""
    from pipeline.turns.canonical import turn_hash

    found: dict[str, str] = {}
    async with await ThreadStore.open(settings.store_url) as store:
        async for _, document in all_documents(store):
            for turn in document["turns"]:
                assert turn["meta:turn_id"] not in found, "a turn is stored twice"
                found[turn["meta:turn_id"]] = turn_hash(turn)
    return found


async def wait_until_stored(settings: Settings, turns: int, workers: Sequence[WorkerProcess]) -> dict[str, str]:
    """Wait for so many turns; the workers' logs where they do not come."""

    def logs() -> str:
        return "\n".join(f"--- {worker.name}\n{worker.text()[-3000:]}" for worker in workers)

    async with await ThreadStore.open(settings.store_url) as store:

        async def all_of_them() -> bool:
            count = (await count_rows(store)).turns
            ended = all(worker.process is not None and worker.process.poll() is not None for worker in workers)
            assert count >= turns or not ended, f"{count} of {turns} turns are stored\n{logs()}"
            return count >= turns

        await until(all_of_them, lambda: f"not {turns} turns are stored\n{logs()}")
    return await stored(settings)
