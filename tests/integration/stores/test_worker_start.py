"""A worker and the schema of its store: refused at the start, with the command that mends it; never migrated."""

import subprocess
import sys

from sqlalchemy import text

from pipeline.devbroker.ports import free_ports
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from tests.support.waiting import PATIENCE
from tests.support.workers import WorkerProcess, environment


def start(settings: Settings, url: str, roles: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipeline", "worker", "--roles", roles]
    variables = environment(settings, TURNMILL_STORE=url, TURNMILL_ARCHIVE=settings.home.as_uri() + "/archive")
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=PATIENCE, check=False)


async def test_no_schema_and_another_ones_schema_are_refused(
    applied_settings: Settings, postgres_database: str
) -> None:
    for roles in ("store", "archive"):
        done = start(applied_settings, postgres_database, roles)
        assert done.returncode == 4
        assert "`turnmill store migrate`" in done.stderr
        assert "Traceback" not in done.stderr
    async with ThreadStore(postgres_database) as store:
        assert await store.revision() is None  # nobody has migrated it by surprise
        await store.migrate()
        async with store.writing() as connection:
            await connection.execute(text("UPDATE turnmill_version SET version_num = '0000'"))
    done = start(applied_settings, postgres_database, "assemble,store")
    assert (done.returncode, "update Turnmill" in done.stderr) == (4, False)
    assert "name another database or file in TURNMILL_STORE" in done.stderr


async def test_a_store_that_is_away_is_waited_for(applied_settings: Settings) -> None:
    url = f"postgresql://nobody:secret@127.0.0.1:{free_ports(1)[0]}/turnmill"
    worker = WorkerProcess(applied_settings.model_copy(update={"store": url}), roles="store")
    try:
        await worker.start().url()
        assert "can't be reached" in worker.text()
        assert "secret" not in worker.text()
        assert worker.stop() == 0
    finally:
        worker.end()
