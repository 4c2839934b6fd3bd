"""docs/gateway.md: each of its `curl` lines, as it stands there, against a real gateway; and each endpoint has one."""

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from pipeline.stores.database.store import ThreadStore
from pipeline.stores.turns import write_turns
from tests.support.endpoints import endless_paths
from tests.support.gateways import Running
from tests.support.places import ROOT
from tests.support.turn_records import make_record
from tests.support.waiting import PATIENCE

PAGE = (ROOT / "docs" / "gateway.md").read_text(encoding="utf-8")
HERE = "http://127.0.0.1:8080"
LINES = [line.strip() for line in PAGE.splitlines() if line.strip().startswith("curl ") and HERE in line]
LONG_ENOUGH = 10.0  # seconds for the first bytes of a stream that does not end
TIMED_OUT = 28  # curl's exit status
NOT_THERE = 22  # with --fail: an answer of 400 or more


def path_of(line: str) -> str:
    return re.findall(rf'{HERE}([^\s"]+)', line)[0]


def method_of(line: str) -> str:
    given = re.search(r"-X ([A-Z]+)", line)
    return given[1] if given else "POST" if " -d " in line or "/stream" in line else "GET"


async def test_each_endpoint_has_a_line(gateway: Running) -> None:
    shown = {(method_of(line), path_of(line)) for line in LINES}
    for path, methods in gateway.app.openapi()["paths"].items():
        for method in methods:
            assert any(verb == method.upper() and is_of(one, path) for verb, one in shown), (method, path)


def is_of(asked: str, path: str) -> bool:
    """Whether this is a request of the path of an operation."""
    return re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path) + r"(\?.*)?", asked) is not None


def is_endless(line: str) -> bool:
    """Whether the answer goes on until Ctrl-C."""
    return "follow=false" not in line and any(is_of(path_of(line), path) for path in endless_paths())


@pytest.mark.skipif(shutil.which("curl") is None, reason="the lines are typed with curl")
async def test_each_line_does_what_it_says(gateway: Running, tmp_path: Path) -> None:
    async with await ThreadStore.open(gateway.settings.store_url) as store:
        said = make_record("chat-42")
        said["turn"]["meta:turn_id"] = said["turn_id"]
        await write_turns(store, [said])
    endless = [line for line in LINES if is_endless(line)]
    last = [line for line in LINES if "-X DELETE" in line]
    for line in [one for one in LINES if one not in endless + last]:
        await check(line, gateway.url, tmp_path, PATIENCE, status_of(line))
    await asyncio.gather(*(check(line, gateway.url, tmp_path, LONG_ENOUGH, TIMED_OUT) for line in endless))
    for line in last:
        await check(line, gateway.url, tmp_path, PATIENCE, status_of(line))


def status_of(line: str) -> int:
    """What a name in capitals stands for isn't here."""
    return NOT_THERE if re.search(r"/[A-Z]{2,}", path_of(line)) else 0


async def check(line: str, url: str, folder: Path, seconds: float, expected: int) -> None:
    """Run the line in a shell; `expected`: curl's exit status."""
    command = line.replace(HERE, url).replace("PARTITION/OFFSET", "0/0")
    command = command.replace("examples/", f"{ROOT}/examples/")
    command = command.replace("curl ", f"curl -sS --fail --max-time {seconds} ", 1)
    process = await asyncio.create_subprocess_shell(
        command, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await process.communicate()
    assert process.returncode == expected, (line, out)
    if expected != NOT_THERE:
        assert out, line
