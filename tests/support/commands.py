"""The command line as a process, the way users and scripts call it."""

from __future__ import annotations

import asyncio
import subprocess
import sys

from pipeline.settings import Settings
from tests.support.waiting import PATIENCE
from tests.support.workers import environment


async def threadmill(
    settings: Settings, *arguments: str, stdin: bytes = b"", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run `threadmill ARGUMENTS` with these settings; nothing it prints is a traceback."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pipeline", *arguments),
        env=environment(settings, **variables),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await asyncio.wait_for(process.communicate(stdin), PATIENCE)
    assert process.returncode is not None
    assert b"Traceback" not in errors, errors.decode()
    return subprocess.CompletedProcess(arguments, process.returncode, out.decode(), errors.decode())
