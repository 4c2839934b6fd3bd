"""Fixtures for all tests. Nothing of the developer's own TURNMILL_* reaches them."""

import gc
import os
import re
import subprocess
import uuid
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from pipeline.devbroker import ports
from pipeline.devbroker.local import Cluster
from pipeline.kafka.admin import apply_topics
from pipeline.settings import Settings
from tests.support import durations, topic_pool
from tests.support.places import CACHE, ROOT, temporary
from tests.support.servers import SharedServers, kafka, postgres, shared_kafka
from tests.support.topic_pool import PARTITIONS
from turnmill.settings import PREFIX

EXISTING_POSTGRES = os.environ.get("TURNMILL_TEST_POSTGRES")
SHARED = pytest.StashKey[SharedServers]()
UNTRACKED = pytest.StashKey[set[str]]()  # before the first test
MEASURED = pytest.StashKey[list[tuple[str, float]]]()  # seconds of each part of each test, where they are kept


def pytest_addoption(parser: pytest.Parser) -> None:
    says = "rewrite tests/durations.json, by which the longest tests are dealt out first"
    parser.addoption("--store-durations", action="store_true", help=says)


def pytest_configure(config: pytest.Config) -> None:
    if config.option.store_durations and addresses(config) is None:
        config.stash[MEASURED] = []
        config.pluginmanager.register(Stopwatch(config.stash[MEASURED]))
    if addresses(config) is None:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(temporary()))  # what pytest reads for `tmp_path`
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        del os.environ[name]
    # Ports for this process alone, below those that programs under test choose: a test may begin to listen long after.
    ours = 10_000 + 1_000 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 10_000
    ports.RANGE = range(ours, ours + 1_000)
    # A slow machine is no failure. The examples are the same each time, so that a change is judged by what it changed;
    # `make fuzz` looks for others, and what it finds becomes an @example.
    examples = os.environ.get("FUZZ_EXAMPLES")
    hypothesis_settings.register_profile(
        "ours",
        max_examples=int(examples or "100"),
        derandomize=examples is None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    hypothesis_settings.load_profile("ours")


class Stopwatch:
    """Notes how long each part of each test takes."""

    def __init__(self, measured: list[tuple[str, float]]) -> None:
        self._measured = measured

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        from tests.support.distribution import scope

        self._measured.append((scope(report.nodeid), report.duration))


def pytest_unconfigure() -> None:
    gc.unfreeze()  # else DuckDB writes, as the process ends, that all its types have leaked


def untracked() -> set[str]:
    """Return the paths of files that git neither knows nor ignores; none where this is no checkout."""
    command = ("git", "status", "--porcelain", "--untracked-files=all", "--no-renames")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return {line.removeprefix("?? ") for line in done.stdout.splitlines() if line.startswith("?? ")}


def pytest_sessionstart(session: pytest.Session) -> None:
    if addresses(session.config) is None:
        session.config.stash[UNTRACKED] = untracked()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run whose tests leave a file in the checkout, where one was committed once."""
    if addresses(session.config) is None and (left := untracked() - session.config.stash[UNTRACKED]):
        session.config.get_terminal_writer().line(f"\nleft in the checkout: {', '.join(sorted(left))}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if measured := session.config.stash.get(MEASURED, None):
        durations.write(measured)


@pytest.hookimpl(optionalhook=True)  # pytest-xdist's
def pytest_configure_node(node: Any) -> None:
    """Tell a worker process, before it starts, where the servers of this session are."""
    stash = node.config.stash
    if SHARED not in stash:
        stash[SHARED] = SharedServers(node.config._tmp_path_factory.mktemp("kafka"), EXISTING_POSTGRES)
        node.config.add_cleanup(stash[SHARED].stop)
    node.workerinput["servers"] = stash[SHARED].addresses()


def addresses(config: pytest.Config) -> dict[str, Any] | None:
    """Where the shared servers are, in a worker process; else None."""
    return config.workerinput["servers"] if hasattr(config, "workerinput") else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from tests.support.distribution import Distribution

    config.option.loadscopereorder = False  # the order of pytest_collection_modifyitems stays
    return Distribution(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()  # what is collected stays: to look for garbage in it is a fifth of the time that collecting takes
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if addresses(config) is not None:
        from tests.support.distribution import place

        known = durations.read()
        items.sort(key=lambda item: place(item.nodeid, known))


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The session's real broker; it dies with the session."""
    if shared := addresses(request.config):
        yield shared_kafka(shared)
        return
    with kafka(tmp_path_factory.mktemp("broker")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def postgres_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The session's Postgres server: the one of TURNMILL_TEST_POSTGRES, or one that stops with the session."""
    if shared := addresses(request.config):
        yield shared["postgres"]
    elif EXISTING_POSTGRES:
        yield EXISTING_POSTGRES
    else:
        with postgres() as url:
            yield url


@pytest.fixture
async def settings(broker: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Settings]:
    """Settings of one test: the session's broker, topics and a home of its own, free ports. Its topics go with it."""
    pool = topics_of(request.config)
    ready = pool and "applied_settings" in request.fixturenames and topic_pool.taken(pool)
    prefix = ready or f"{re.sub('[^A-Za-z0-9]+', '-', request.node.name)[:40]}-{uuid.uuid4().hex[:8]}"
    # One process and few partitions: a test that starts a worker pays for no more of them, unless it asks for it.
    few = {"processes": 1, "partitions": PARTITIONS}
    yield Settings(home=tmp_path, cache=CACHE, brokers=broker.bootstrap, topic_prefix=prefix, port=0, **few)
    if pool:
        topic_pool.give_back(pool, prefix)
    else:
        await topic_pool.delete(Settings(brokers=broker.bootstrap), [prefix])


@pytest.fixture
async def applied_settings(settings: Settings, request: pytest.FixtureRequest) -> Settings:
    """Settings of one test whose topics exist, with PARTITIONS partitions each."""
    pool = topics_of(request.config)
    if pool is None or not topic_pool.is_taken(pool, settings.topic_prefix):
        await apply_topics(settings)
    return settings


def topics_of(config: pytest.Config) -> Path | None:
    """Return the folder of the pool of topics, in a worker process; else None."""
    shared = addresses(config)
    return Path(shared["topics"]) if shared else None
