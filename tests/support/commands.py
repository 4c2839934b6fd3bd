"""The command line as a process, the way users and scripts call it."""

import asyncio
import subprocess
from tempfile import TemporaryFile

from pipeline.settings import Settings
from tests.support.fork_server import start
from tests.support.waiting import PATIENCE
from tests.support.workers import environment


async def turnmill(
    settings: Settings, *arguments: str, stdin: bytes = b"", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run `turnmill ARGUMENTS` with these settings; nothing it prints is a traceback."""
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as errors:
        given.write(stdin)
        given.seek(0)
        process = start(arguments, environment(settings, **variables), given, out, errors)
        try:
            status = await asyncio.to_thread(process.wait, PATIENCE)
        finally:
            process.kill()
        out.seek(0)
        errors.seek(0)
        said, complained = out.read().decode(), errors.read().decode()
    assert "Traceback" not in complained, complained
    return subprocess.CompletedProcess(arguments, status, said, complained)
