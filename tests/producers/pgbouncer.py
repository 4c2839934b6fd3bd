"""A real PgBouncer: the one in PATH, or Debian's, which is unpacked beside what else was downloaded."""

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import asyncpg

from pipeline.devbroker.ports import free_ports
from tests.support.places import CACHE
from tests.support.waiting import until

PACKAGES: Final = ("pgbouncer", "libevent-2.1-7", "libc-ares2")
SETTINGS: Final = """
[databases]
* = host=127.0.0.1 port={target}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users
pool_mode = {mode}
logfile = {folder}/log
"""


def program() -> tuple[str, dict[str, str]]:
    """-> the program, and the variables that it needs."""
    if there := shutil.which("pgbouncer"):
        return there, {}
    folder = CACHE / "pgbouncer"
    if not folder.exists():
        with tempfile.TemporaryDirectory() as packages:
            subprocess.run(["apt-get", "download", *PACKAGES], cwd=packages, check=True, capture_output=True)
            for package in Path(packages).glob("*.deb"):
                subprocess.run(["dpkg", "-x", str(package), packages], check=True)
            shutil.copytree(Path(packages) / "usr", folder, symlinks=True)
    (libraries,) = (file.parent for file in folder.rglob("libcares.so.2"))
    return str(folder / "sbin" / "pgbouncer"), {"LD_LIBRARY_PATH": str(libraries)}


@asynccontextmanager
async def pgbouncer(target: int, mode: str) -> AsyncIterator[str]:
    """Run PgBouncer before the server at the port `target`. -> the address of its database `postgres`."""
    path, variables = program()
    with tempfile.TemporaryDirectory(prefix="turnmill-pgbouncer-") as name:
        folder = Path(name)
        folder.chmod(0o777)  # it refuses to run as root
        (port,) = free_ports(1)
        (folder / "users").write_text('"postgres" ""\n')
        settings = folder / "settings.ini"
        settings.write_text(SETTINGS.format(target=target, port=port, folder=folder, mode=mode))
        user = ("-u", "nobody") if os.geteuid() == 0 else ()
        process = subprocess.Popen([path, "-q", *user, str(settings)], env={**os.environ, **variables})  # noqa: ASYNC220  # short
        url = f"postgresql://postgres:@127.0.0.1:{port}/postgres"

        async def answers() -> bool:
            try:
                await (await asyncpg.connect(url, statement_cache_size=0)).close()
            except (OSError, asyncpg.PostgresError):
                return False
            return True

        try:
            await until(answers, (folder / "log").read_text)
            yield url
        finally:
            process.kill()
            await asyncio.to_thread(process.wait)
