"""The wheels alone, in an empty folder, with nothing in PATH but what they bring: no Java, no Maven, no checkout."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from pipeline.devbroker.jars import jars
from pipeline.devbroker.ports import bindable, free_ports
from tests import weigh
from tests.support import wheels
from tests.support.places import CACHE
from tests.support.waiting import PATIENCE, wait_for
from turnmill.addresses import host_port

AGENT = """
from turnmill import SyncPublisher

with SyncPublisher() as publisher:
    with publisher.run(thread_id="chat-1", agent_id="weather", dialect="vercel-ai") as run:
        run.send({"type": "start"})
"""


BYTES = 25_000_000  # that the client may have with all that it needs, and their bytecode
MODULES = {"turnmill": 100, "turnmill.auto": 150}  # that may be loaded once one is imported, Python's own included
LATER = {"aiokafka", "asyncio", "click", "cramjam", "httpx", "orjson", "pydantic"}  # none of which `turnmill` loads


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheels.build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def client(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheels.installed(built, tmp_path_factory.mktemp("client") / "environment")


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


def test_the_demo_needs_python_alone_and_leaves_nothing(built: Path, tmp_path: Path) -> None:
    programs = wheels.installed(built, tmp_path / "environment", "demo")
    cache = tmp_path / "cache"
    cache.mkdir()
    downloaded = jars(CACHE, None, print)
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


def test_the_client_alone_publishes_and_says_what_the_rest_needs(client: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    nobody = f"127.0.0.1:{free_ports(1)[0]}"
    published = call(client, here, "python", "-c", AGENT, TURNMILL_BROKERS=nobody)
    assert published.returncode == 0, published.stderr
    assert len(list(here.glob(".turnmill/spool/turnmill.events/*/*.log"))) == 1, published.stderr
    version = call(client, here, "python", "-c", "import turnmill; print(turnmill.__version__)").stdout.strip()
    assert call(client, here, "turnmill", "--version").stdout == f"turnmill, version {version}, client\n"
    listed = call(client, here, "turnmill", "--help")
    assert (listed.returncode, "(needs turnmill[worker])" in listed.stdout) == (0, True), listed.stderr
    refused = call(client, here, "turnmill", "worker", "--roles", "store")
    said = "turnmill: `turnmill worker` needs an extra of this package: pip install 'turnmill[worker]'\n"
    assert (refused.returncode, refused.stderr) == (2, said)
    over_http = call(client, here, "python", "-c", AGENT, TURNMILL_PUBLISH_URL="http://127.0.0.1:1")
    assert over_http.stderr.endswith("TURNMILL_PUBLISH_URL needs httpx: pip install 'turnmill[http]'\n")


def test_the_client_runs_a_program_in_its_own_place(client: Path, tmp_path: Path) -> None:
    program = "import sys, turnmill.auto; print('turnmill.auto' in sys.modules); sys.exit(7)"
    ran = call(client, tmp_path / "here", "turnmill", "run", "--", "python", "-c", program)
    assert (ran.returncode, ran.stdout) == (7, "True\n"), ran.stderr


def test_the_client_alone_has_one_module_and_leaves_a_programs_own_alone(client: Path, tmp_path: Path) -> None:
    own = tmp_path / "project" / "pipeline"
    own.mkdir(parents=True)
    (own / "__init__.py").write_text("OWN = True\n")
    (own / "__main__.py").write_text("raise SystemExit('their own')\n")
    site = weigh.site(client)
    (site / "their_project.pth").write_text(f"{own.parent}\n")  # as an editable install has it
    try:
        done = call(client, tmp_path / "here", "python", "-c", "import turnmill, pipeline; print(pipeline.OWN)")
        listed = call(client, tmp_path / "here", "turnmill", "threads", "list")
    finally:
        (site / "their_project.pth").unlink()
    assert done.stdout == "True\n", done.stderr
    assert "turnmill[worker]" in listed.stderr
    (record,) = site.glob("turnmill-*.dist-info/RECORD")
    assert {line.partition("/")[0].partition("-")[0] for line in record.read_text().splitlines()} <= {"turnmill", ".."}


def test_the_client_is_light(client: Path) -> None:
    found = weigh.weights(weigh.site(client))
    assert found.total() <= BYTES, found.most_common()
    for name, most in MODULES.items():
        loaded = weigh.modules(client, name)
        assert len(loaded) <= most, (name, sorted(loaded))
    assert not weigh.modules(client, "turnmill") & LATER


def test_files_are_assembled_with_the_tools_alone(built: Path, tmp_path: Path) -> None:
    programs = wheels.installed(built, tmp_path / "environment", "tools")
    here = tmp_path / "here"
    here.mkdir()
    (here / "hello.sse").write_text('data: {"type": "start"}\n\ndata: {"type": "finish"}\n\n')
    assembled = call(programs, here, "turnmill", "assemble", "--dialect", "vercel-ai", "--to", "thread", "hello.sse")
    assert json.loads(assembled.stdout)["source"] == "hello.sse", assembled.stderr
    refused = call(programs, here, "turnmill", "worker", "--roles", "store")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert refused.stderr.startswith("turnmill: `turnmill worker` needs an extra of this package: pip install")
    completion = call(programs, here, "turnmill", _TURNMILL_COMPLETE="bash_source")
    assert "complete -o nosort -F _turnmill_completion turnmill" in completion.stdout, completion.stderr
