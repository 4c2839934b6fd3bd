"""The development broker's life: real Java processes."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.cli.services.doctor import examine
from pipeline.devbroker import local
from pipeline.devbroker.local import Cluster
from pipeline.devbroker.ports import free_ports
from pipeline.kafka.admin import apply_topics, describe_topics
from pipeline.kafka.offsets import cluster_info
from pipeline.settings import Settings
from tests.support.places import CACHE, ROOT
from tests.support.topic_records import configure
from tests.support.waiting import PATIENCE, until, wait_for
from topics.catalog import CATALOG, EVENTS
from turnmill.errors import BrokerError, CallerError
from turnmill.kafka.probe import ask


def own(home: Path) -> Settings:
    """Settings of a broker that this test starts itself."""
    return Settings(home=home, cache=CACHE, brokers=f"127.0.0.1:{free_ports(1)[0]}", partitions=2)


def turnmill(settings: Settings, *arguments: str) -> str:
    environment = {
        **os.environ,
        "TURNMILL_HOME": str(settings.home),
        "TURNMILL_CACHE": str(settings.cache),
        "TURNMILL_BROKERS": settings.brokers,
        "COLUMNS": "200",
    }
    command = [sys.executable, "-m", "pipeline", *arguments]
    run = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_up_outlives_its_command_and_up_and_down_may_be_repeated(tmp_path: Path):
    settings = own(tmp_path / "a home, with spaces and ü")
    try:
        assert "is ready" in turnmill(settings, "up")
        (pid,) = local.status(settings).values()
        assert pid is not None
        assert ask(settings.brokers) is not None
        assert "runs already" in turnmill(settings, "up")
        assert list(local.status(settings).values()) == [pid]
        asyncio.run(apply_topics(settings))

        elsewhere = settings.model_copy(update={"brokers": f"127.0.0.1:{free_ports(1)[0]}"})
        with pytest.raises(CallerError, match=f"runs already, on {settings.brokers}"):
            local.start(elsewhere)
        with pytest.raises(CallerError, match="runs already"), local.running(settings):
            pass

        assert "is stopped" in turnmill(settings, "down")
        assert "No development broker" in turnmill(settings, "down")
        assert ask(settings.brokers) is None

        # A stale pid file whose process id belongs to somebody else by now: to this test.
        (node,) = local.status(settings)
        node.pid_file.write_text(str(os.getpid()))
        assert local.status(settings) == {node: None}
        assert not local.stop(settings)

        with pytest.raises(CallerError, match="data of a cluster of 1: start it with --brokers 1"):
            local.start(settings, 3)
        assert local.start(settings).started == (1,)
        assert len(asyncio.run(describe_topics(settings))) == len(CATALOG)  # the data stayed
    finally:
        local.stop(settings)


def test_a_taken_port_is_told(tmp_path: Path, broker: Cluster):
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = Settings(home=tmp_path, cache=CACHE, brokers=f"127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(CallerError, match=f"{taken.brokers} is taken by another program: stop it, or set"):
            local.start(taken)
    other = Settings(home=tmp_path, cache=CACHE, brokers=broker.bootstrap)
    with pytest.raises(CallerError, match="taken by another Kafka broker, which can be used as it is"):
        local.start(other)


@pytest.mark.parametrize(
    "extra", [{"num.io.threads": "-1"}, {"ssl.keystore.type": "nonsense", "listeners": "SSL://:0"}]
)
def test_a_broker_that_fails_says_why(tmp_path: Path, extra: dict[str, str]):
    settings = own(tmp_path)
    with (
        pytest.raises(BrokerError, match=r"(?s)Exception.*The whole log: .*server\.log"),
        local.running(settings, extra=extra),
    ):
        pass
    assert list(local.status(settings).values()) == [None]


def test_a_killed_parent_leaves_no_orphan(tmp_path: Path):
    settings = own(tmp_path)
    script = (
        "import sys, time; from pathlib import Path\n"
        "from pipeline.devbroker import local; from pipeline.settings import Settings\n"
        "home, cache, brokers = sys.argv[1:]\n"
        "with local.running(Settings(home=Path(home), cache=Path(cache), brokers=brokers)) as cluster:\n"
        "    print('ready', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", script, str(settings.home), str(settings.cache), settings.brokers]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == "ready\n"
        (node,) = local.status(settings)
        assert local.status(settings)[node] is not None
        parent.send_signal(signal.SIGKILL)
    wait_for(lambda: local.status(settings)[node] is None)
    assert ask(settings.brokers) is None


async def test_one_of_three_is_killed_and_comes_back(tmp_path: Path):
    settings = own(tmp_path)
    with local.running(settings, 3) as cluster:
        assert len(set(local.status(settings).values())) == 3
        assert (await cluster_info(settings)).brokers == tuple((node.id, node.address) for node in cluster.nodes)
        await apply_topics(settings)
        assert {topic.replication for topic in await describe_topics(settings)} == {3}
        await _the_doctor_sees_what_can_lose_records(settings)

        before = [*local.status(settings).values()]
        cluster.kill(1)
        assert [*local.status(settings).values()] == [before[0], None, before[2]]
        assert ask(cluster.nodes[1].address) is None
        cluster.restart(1)
        after = [*local.status(settings).values()]
        assert (after[0], after[2]) == (before[0], before[2])
        assert after[1] not in (None, before[1])
        answer = ask(cluster.nodes[1].address)
        assert answer is not None
        assert answer.brokers == (1, 2, 3)
    assert set(local.status(settings).values()) == {None}


async def _the_doctor_sees_what_can_lose_records(settings: Settings) -> None:
    async def seen(of: Settings) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for finding in await examine(of):
            found.setdefault(finding.level, []).append(f"{finding.check}: {finding.seen}")
        return found

    found = await seen(settings)
    assert "error" not in found
    assert any(f"all {len(CATALOG)} of turnmill are as they should be" in line for line in found["ok"])

    single = settings.model_copy(update={"topic_prefix": "single", "replication": 1, "partitions": 1})
    await apply_topics(single)
    assert sum("has 1 replica on 3 brokers" in line for line in (await seen(single))["error"]) == len(CATALOG)

    name = EVENTS.full_name(settings.topic_prefix)
    careless = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    await configure(settings, EVENTS, EVENTS.config() | careless)

    async def noticed() -> dict[str, list[str]]:
        found = await seen(settings)
        return found if "error" in found else {}

    found = await until(noticed)  # brokers learn of it a moment later
    assert found["error"] == [f"topic {name}: lets a replica that lags behind lead: confirmed records vanish"]
    assert f"topic {name}: confirms records that only one broker has" in found["warning"]
