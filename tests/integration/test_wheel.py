"""The wheel alone, in an empty folder, with nothing in PATH but what it brings: no Java, no Maven, no checkout."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from pipeline.devbroker.jars import jars
from pipeline.devbroker.ports import bindable, free_ports
from pipeline.settings import Settings
from tests.support import wheels
from tests.support.places import CACHE
from tests.support.waiting import PATIENCE, wait_for
from turnmill.kafka.probe import host_port

AGENT = """
from turnmill import SyncPublisher

with SyncPublisher() as publisher:
    with publisher.run(thread_id="chat-1", agent_id="weather", dialect="vercel-ai") as run:
        run.send({"type": "start"})
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheels.build(tmp_path_factory.mktemp("dist"))


def call(programs: Path, here: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run one of the environment's programs in the folder `here`."""
    here.mkdir(exist_ok=True)
    environment = {"PATH": str(programs), "HOME": str(here.parent / "user"), "LANG": "C.UTF-8", **variables}
    return subprocess.run(
        [programs / command[0], *command[1:]],
        cwd=here,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_the_demo_needs_python_alone_and_leaves_nothing(wheel: Path, tmp_path: Path) -> None:
    programs = wheels.installed(wheel, tmp_path / "environment", "demo")
    cache = tmp_path / "cache"
    cache.mkdir()
    downloaded = jars(Settings(cache=CACHE), print)
    (cache / downloaded.name).symlink_to(downloaded)
    done = call(programs, tmp_path / "here", "turnmill", "demo", "--runs", "60", TURNMILL_CACHE=str(cache))
    assert done.returncode == 0, done.stderr + done.stdout
    assert "runs 60 = stored 59 + dead letters 1 + open 0" in done.stdout
    assert "Plan three days in Lisbon" in done.stdout
    for model in ("gpt-5", "claude-sonnet-4-5", "gemini-2.5-pro", "mistral-large-latest"):
        assert model in done.stdout
    assert re.search(r"published at [\d,]+ events/s, stored after [\d.]+ s", done.stdout)
    addresses = re.findall(r"127\.0\.0\.1:\d+", done.stderr)
    assert len(addresses) == 2
    wait_for(lambda: all(bindable(*host_port(address)) for address in addresses))
    assert list((tmp_path / "here").iterdir()) == []
    assert sorted(path.name for path in cache.iterdir()) == ["demo", "demo.lock", downloaded.name]


def test_the_client_alone_publishes_and_says_what_the_rest_needs(wheel: Path, tmp_path: Path) -> None:
    programs = wheels.installed(wheel, tmp_path / "environment")
    here = tmp_path / "here"
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    published = call(programs, here, "python", "-c", AGENT, TURNMILL_BROKERS=nobody)
    assert published.returncode == 0, published.stderr
    assert len(list(here.glob(".turnmill/spool/turnmill.events/*/*.log"))) == 1, published.stderr
    assert call(programs, here, "turnmill", "--version").stdout.startswith("turnmill, version ")
    listed = call(programs, here, "turnmill", "--help")
    assert (listed.returncode, "(needs turnmill[worker])" in listed.stdout) == (0, True), listed.stderr
    refused = call(programs, here, "turnmill", "worker", "--roles", "store")
    assert refused.returncode == 2
    assert refused.stderr.startswith("turnmill: `turnmill worker` needs an extra of this package: pip install")
    assert refused.stderr.count("\n") == 1
    (here / "hello.sse").write_text('data: {"type": "start"}\n\ndata: {"type": "finish"}\n\n')
    assembled = call(programs, here, "turnmill", "assemble", "--dialect", "vercel-ai", "--to", "thread", "hello.sse")
    assert json.loads(assembled.stdout)["source"] == "hello.sse", assembled.stderr
