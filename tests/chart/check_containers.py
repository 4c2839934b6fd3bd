"""What the manifests say is run for real: each container's own command, environment, user, volumes, read-only root,
probes and signals, as processes against a real broker and a real Postgres.
"""

import asyncio
import itertools
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import asyncpg
import httpx
import pytest
import pytest_asyncio

from pipeline.devbroker.local import Cluster
from pipeline.devbroker.ports import free_ports
from pipeline.gateway.access.token_table import new_token
from pipeline.kafka.admin import check_topics
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import count_rows
from tests.chaos.stores import PostgresServer
from tests.chart.container import Container, Pod
from tests.chart.render import Manifest, manifests, of_kind
from tests.chart.sandbox import dockerfile
from tests.support.fleet import expected, fleet, interleaved
from tests.support.gateways import client, sse, talk
from tests.support.guarded_broker import PASSWORD, SCRAM_PASSWORD, Guarded, guarded
from tests.support.places import CACHE
from tests.support.topic_records import publish
from tests.support.waiting import PATIENCE, until, wait_for
from tests.support.workers import stored
from topics.catalog import EVENTS

TOKEN, LINE = new_token("test", ("publish", "read"), None)
RUNS: Final = 300

Make = Callable[..., "Release"]


class Release:
    """The chart with values, and what a cluster would have beside it."""

    def __init__(self, folder: Path, settings: Settings, values: dict[str, Any], secrets: list[Manifest]) -> None:
        self.folder = folder
        self.settings = settings
        self.manifests = manifests("plain", values)
        self.secrets = secrets
        self.numbers = itertools.count()

    def pod(self, kind: str, name: str, after: Pod | None = None) -> Pod:
        """A new pod of the Deployment, Job or Pod whose name ends so; of a StatefulSet, with the volumes of another."""
        folder = after.folder if after else self.folder / f"{name}-{next(self.numbers)}"
        folder.mkdir(exist_ok=True)
        return Pod(of_kind(self.manifests, kind, name)[0], [*self.manifests, *self.secrets], folder)

    async def hooks(self) -> None:
        """What Helm runs before it installs."""
        for name in ("topics", "migrate"):
            job = self.pod("Job", name).main.start()
            assert await asyncio.to_thread(job.wait, PATIENCE) == 0, job.text()


def secret(name: str, **values: str) -> Manifest:
    return {"kind": "Secret", "metadata": {"name": name}, "stringData": values}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def postgres() -> AsyncIterator[PostgresServer]:
    server = await PostgresServer().start()
    yield server
    await server.end()


@pytest.fixture
async def database(postgres: PostgresServer) -> str:
    name = f"t{uuid.uuid4().hex[:12]}"
    connection = await asyncpg.connect(postgres.url())
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return f"postgresql://postgres:@127.0.0.1:{postgres.port}/{name}"


@pytest.fixture
def release(settings: Settings, database: str, tmp_path: Path) -> Make:
    """Makes one of more values; `settings` of it are those of whoever looks at broker and store from outside."""

    def make(*more: dict[str, Any], secrets: tuple[Manifest, ...] = ()) -> Release:
        worker, gateway = free_ports(2)
        values: dict[str, Any] = {
            "kafka": {"brokers": settings.brokers},
            "topics": {"prefix": settings.topic_prefix, "partitions": 4},
            "worker": {"port": worker},
            "gateway": {"enabled": True, "port": gateway, "tokens": {"existingSecret": "tokens"}},
        }
        for one in more:
            for name, value in one.items():
                values[name] = {**values.get(name, {}), **value}
        known = [
            secret("turnmill-store", url=database),
            secret("tokens", tokens=LINE.model_dump_json(exclude_none=True)),
        ]
        outside = settings.model_copy(update={"store": database, "partitions": 4})
        return Release(tmp_path, outside, values, [*known, *secrets])

    return make


@pytest.fixture
def started() -> Iterator[list[Container]]:
    """Containers that end with the test."""
    found: list[Container] = []
    yield found
    for container in found:
        container.kill()


async def until_ready(container: Container) -> Container:
    return await asyncio.to_thread(container.until_ready)


async def until_stored(settings: Settings, turns: int, container: Container) -> dict[str, str]:
    """Wait for so many turns -> turn_id: hash."""

    async def all_of_them() -> bool:
        async with await ThreadStore.open(settings.store_url) as store:
            return (await count_rows(store)).turns >= turns

    await until(all_of_them, container.text, 300)
    return await stored(settings)


async def test_hooks_make_topics_and_tables_and_may_be_repeated(release: Make) -> None:
    one = release()
    await one.hooks()
    await check_topics(one.settings)
    assert await stored(one.settings) == {}
    await one.hooks()


async def test_a_worker_runs_as_the_manifest_says(release: Make, started: list[Container]) -> None:
    one = release()
    await one.hooks()
    worker = one.pod("Deployment", "worker-all").main.start()
    started.append(worker)
    await until_ready(worker)

    status = worker.status()
    assert status["NSpid"].split()[-1] == "1"
    assert {int(status[f"Cap{kind}"], 16) for kind in ("Inh", "Prm", "Eff", "Amb")} == {0}
    assert status["NoNewPrivs"] == "1"
    assert set(status["Uid"].split() + status["Gid"].split() + status["Groups"].split()) == {"10001"}
    for path in ("/x", "/etc/x", "/opt/turnmill/x"):
        assert "Read-only file system" in worker.inside("touch", path).stderr
    for path in ("/tmp/x", "/var/lib/turnmill/x"):
        assert worker.inside("touch", path).returncode == 0
    shown = worker.inside("turnmill", "settings").stdout
    assert one.settings.topic_prefix in shown

    # The image's own health check, for those who run it without Kubernetes, asks the same port.
    check = dockerfile("HEALTHCHECK")[0].partition("CMD ")[2].strip('[]"').split('", "')
    check[-1] = check[-1].replace("6066", str(worker.ports["metrics"]))
    assert worker.inside(*check).returncode == 0

    test = one.pod("Pod", "test").main.start()
    assert await asyncio.to_thread(test.wait, PATIENCE) == 0, test.text()


async def test_a_rollout_loses_nothing(release: Make, started: list[Container]) -> None:
    """SIGTERM in the midst of the load; the next pod, with an empty folder, goes on; then one is killed."""
    one = release()
    await one.hooks()
    runs = fleet(11, RUNS)
    worker = one.pod("Deployment", "worker-all").main.start()
    started.append(worker)
    await until_ready(worker)
    publishing = asyncio.ensure_future(publish(one.settings, EVENTS, interleaved(runs, 11), pause=0.2))
    await asyncio.sleep(3)
    status, seconds = await asyncio.to_thread(worker.stop)
    assert (status, worker.unwell) == (0, []), worker.text()
    assert seconds < worker.pod.grace
    assert len(await stored(one.settings)) < RUNS, "it was to be stopped before the end"

    second = one.pod("Deployment", "worker-all").main.start()
    started.append(second)
    await until_ready(second)
    await asyncio.sleep(2)
    second.kill()
    third = one.pod("Deployment", "worker-all").main.start()
    started.append(third)
    await until_ready(third)
    await publishing
    assert await until_stored(one.settings, RUNS, third) == expected(runs), third.text()
    assert third.unwell == []


async def test_a_gateway_lets_uploads_come_to_their_end(release: Make, started: list[Container]) -> None:
    one = release()
    await one.hooks()
    gateway, worker = (one.pod("Deployment", name).main.start() for name in ("gateway", "worker-all"))
    started += [gateway, worker]
    for container in (gateway, worker):
        await until_ready(container)
    url = f"http://127.0.0.1:{gateway.ports['http']}"
    events = talk(30)
    stopping: asyncio.Future[tuple[int, float]] | None = None

    async def body() -> AsyncIterator[bytes]:
        nonlocal stopping
        yield sse(events[:10], done=False)
        stopping = asyncio.ensure_future(asyncio.to_thread(gateway.stop))
        await asyncio.sleep(3)  # within preStop others are still served
        async with client(url) as http:
            assert (await http.get("/livez")).status_code == 200
        await asyncio.sleep(4)  # and after it nobody new, but this upload
        yield sse(events[10:])

    async with client(url, TOKEN) as http:
        answer = await http.post("/v1/threads/chat/runs/r/stream?dialect=vercel-ai", content=body())
    assert (answer.status_code, answer.json()["end"]) == (200, "complete"), answer.text
    assert stopping is not None
    status, seconds = await stopping
    assert (status, gateway.unwell) == (0, []), gateway.text()
    assert seconds < gateway.pod.grace
    with pytest.raises(httpx.ConnectError):
        async with client(url) as http:
            await http.get("/livez")
    assert len(await until_stored(one.settings, 1, worker)) == 1


async def test_what_a_gateway_has_spooled_outlives_its_pod(
    release: Make, started: list[Container], broker: Cluster
) -> None:
    one = release({"gateway": {"persistence": {"enabled": True}}})
    await one.hooks()
    gateway = one.pod("StatefulSet", "gateway").main.start()
    started.append(gateway)
    await until_ready(gateway)
    url = f"http://127.0.0.1:{gateway.ports['http']}"
    broker.kill(0)
    try:
        async with client(url, TOKEN) as http:
            answer = await http.post("/v1/threads/chat/runs/r/stream?dialect=vercel-ai", content=sse(talk(30)))
        assert (answer.status_code, answer.json()["end"]) == (200, "complete"), answer.text
        status, seconds = await asyncio.to_thread(gateway.stop)
        assert status in (0, 75), gateway.text()
        assert seconds < gateway.pod.grace
    finally:
        await asyncio.to_thread(broker.restart, 0)
    successor = one.pod("StatefulSet", "gateway", after=gateway.pod).main.start()
    worker = one.pod("Deployment", "worker-all").main.start()
    started += [successor, worker]
    await until_ready(successor)
    await until_ready(worker)
    assert len(await until_stored(one.settings, 1, worker)) == 1


async def test_init_containers_do_what_hooks_do(release: Make, started: list[Container]) -> None:
    one = release({"topics": {"apply": "init"}, "store": {"migrate": "init"}})
    pod = one.pod("Deployment", "worker-all")
    assert [container.name for container in pod.init] == ["migrate", "topics"]
    for container in pod.init:
        assert await asyncio.to_thread(container.start().wait, PATIENCE) == 0, container.text()
    started.append(pod.main.start())
    await until_ready(started[0])
    assert not of_kind(one.manifests, "Job")


async def test_an_archive_and_split_roles(release: Make, started: list[Container]) -> None:
    split = {
        "roles": {"all": {"enabled": False}, **{role: {"enabled": True} for role in ("assemble", "store", "archive")}},
        "settings": {"archive": "file:///var/lib/turnmill/archive", "archive_age": 1.0},
    }
    one = release(split)
    await one.hooks()
    for role in ("assemble", "store", "archive"):
        role_alone = one.pod("Deployment", f"worker-{role}")
        # Each on a port of its own: here all are on one host.
        port = free_ports(1)[0]
        role_alone.config_maps = {
            name: {**data, "TURNMILL_PORT": str(port)} for name, data in role_alone.config_maps.items()
        }
        container = role_alone.main.start()
        container.ports = {"metrics": port}
        started.append(container)
        await until_ready(container)
    runs = fleet(12, 20)
    await publish(one.settings, EVENTS, interleaved(runs, 12))
    assert await until_stored(one.settings, 20, started[1]) == expected(runs)
    archive = started[-1].pod.volumes["home"] / "archive"
    wait_for(lambda: list(archive.rglob("*.parquet")), started[-1].text)
    for container in started:
        assert (await asyncio.to_thread(container.stop))[0] == 0, container.text()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("guarded"), CACHE) as broker:
        yield broker


@pytest.mark.parametrize("how", ["scram", "mutual"])
async def test_certificates_and_passwords_come_from_secrets(
    how: str, server: Guarded, release: Make, started: list[Container], tmp_path: Path
) -> None:
    tls = {"enabled": True, "ca": {"existingSecret": "ca"}}
    known = [secret("ca", **{"ca.crt": server.authority.file.read_text()})]
    if how == "scram":
        login = {"mechanism": "SCRAM-SHA-512", "username": "sam", "existingSecret": "login"}
        kafka = {"brokers": server.sasl, "tls": tls, "sasl": login}
        known.append(secret("login", password=SCRAM_PASSWORD))
    else:
        pem = server.authority.sign(f"me-{how}", password=PASSWORD).read_text()
        kafka = {"brokers": server.mutual, "tls": {**tls, "client": {"existingSecret": "me", "passwordKey": "phrase"}}}
        known.append(secret("me", **{"tls.crt": pem, "tls.key": pem, "phrase": PASSWORD}))
    one = release({"kafka": kafka}, secrets=tuple(known))
    await one.hooks()
    worker = one.pod("Deployment", "worker-all").main.start()
    started.append(worker)
    await until_ready(worker)
    seen = worker.inside("ls", "-lnL", "/etc/turnmill/kafka").stdout
    assert "-r--r-----" in seen
    assert "0 10001" in seen
    assert PASSWORD not in worker.text()
    assert SCRAM_PASSWORD not in worker.text()
    assert (await asyncio.to_thread(worker.stop))[0] == 0, worker.text()
