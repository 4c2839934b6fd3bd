"""Over TLS and with logins, against a broker that demands them: what works, what is refused and how that is said."""

import asyncio
import json
import logging
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from pipeline.cli.services.doctor import examine
from pipeline.kafka import offsets
from pipeline.kafka.admin import apply_topics, check_topics
from pipeline.kafka.offsets import cluster_info
from pipeline.settings import Settings, load
from tests.support.certificates import Authority
from tests.support.commands import turnmill
from tests.support.fleet import expected, fleet
from tests.support.gateways import client, replayed, running, sse, talk
from tests.support.guarded_broker import PASSWORD, SCRAM_PASSWORD, Guarded, guarded
from tests.support.places import CACHE, ROOT
from tests.support.token_endpoint import CLIENT, SECRET, token_endpoint
from tests.support.topic_records import publish
from tests.support.waiting import until
from tests.support.workers import WorkerProcess, stored, wait_until_stored
from topics.catalog import EVENTS
from turnmill.errors import CallerError
from turnmill.kafka.client import client_options
from turnmill.kafka.refusal import refusal

WEATHER: Final = ROOT / "examples" / "weather.sse"
PLAIN: Final = {"sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": PASSWORD}
SCRAM: Final = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_username": "sam", "sasl_password": SCRAM_PASSWORD}

Variables = dict[str, Any]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("guarded"), CACHE) as broker:
        yield broker


@pytest.fixture
def settings_of(server: Guarded, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Settings]:
    """-> settings with a home and topics of the test's own, and what is given."""
    prefix = f"t{abs(hash(request.node.name)):x}"

    def make(**given: Any) -> Settings:
        own: Variables = {"home": tmp_path, "cache": CACHE, "topic_prefix": prefix, "port": 0, "partitions": 4}
        return load({}, **own | given)

    return make


def over_tls(server: Guarded, **login: Any) -> Variables:
    return {"brokers": server.sasl, "security_protocol": "SASL_SSL", "ssl_ca_file": server.authority.file, **login}


def by_token(server: Guarded, token: str) -> Variables:
    file = server.folder / f"token-{uuid.uuid4()}"
    file.write_text(f"{token}\n")
    return over_tls(server, sasl_mechanism="OAUTHBEARER", oauth_token_file=file)


def mutual(server: Guarded, certificate: Path | None, **more: Any) -> Variables:
    wire = {"brokers": server.mutual, "security_protocol": "SSL", "ssl_ca_file": server.authority.file}
    return {**wire, "ssl_certificate_file": certificate, **more}


def without_tls(server: Guarded) -> Variables:
    return {"brokers": server.clear_sasl, "security_protocol": "SASL_PLAINTEXT", **SCRAM}


LOGINS: Final[dict[str, Callable[[Guarded], Variables]]] = {
    "PLAIN": lambda server: over_tls(server, **PLAIN),
    "SCRAM-SHA-512": lambda server: over_tls(server, **SCRAM),
    "OAUTHBEARER": lambda server: by_token(server, server.token()),
    "a certificate": lambda server: mutual(server, server.authority.sign("client")),
    "a certificate whose key has a password": lambda server: mutual(
        server, server.authority.sign("locked", password="open sesame"), ssl_key_password="open sesame"
    ),
    "a login without TLS": without_tls,
}


@pytest.mark.parametrize("login", LOGINS)
async def test_every_login_is_accepted(login: str, server: Guarded, settings_of: Callable[..., Settings]) -> None:
    settings = settings_of(**LOGINS[login](server))
    assert await refusal(settings) is None
    assert await apply_topics(settings)
    await check_topics(settings)


@pytest.mark.parametrize("login", ["PLAIN", "SCRAM-SHA-512", "OAUTHBEARER", "a certificate"])
async def test_from_the_topics_to_the_store(login: str, server: Guarded, settings_of: Callable[..., Settings]) -> None:
    settings = settings_of(**LOGINS[login](server))
    done = await turnmill(settings, "topics", "apply")
    assert done.returncode == 0, done.stderr
    worker = WorkerProcess(settings).start()
    try:
        done = await turnmill(settings, "publish", str(WEATHER), "--dialect", "vercel-ai")
        assert done.returncode == 0, done.stderr
        await wait_until_stored(settings, 1, [worker])
        assert worker.stop() == 0, worker.text()
    finally:
        worker.end()
    findings = {finding.check: finding for finding in await examine(settings)}
    assert (findings["broker"].level, findings["balance"].level) == ("ok", "ok"), findings


async def test_through_the_gateway(server: Guarded, settings_of: Callable[..., Settings]) -> None:
    """Its publisher, its readers of live streams and what it asks the brokers: all log in."""
    settings = settings_of(**over_tls(server, **SCRAM), gateway_port=0)
    await apply_topics(settings)
    async with running(settings) as gateway, client(gateway.url) as http:
        body = sse(talk(5))
        answer = await http.post("/v1/threads/chat-1/runs/r1/stream?dialect=vercel-ai", content=body)
        assert (answer.status_code, answer.json()["end"]) == (200, "complete")
        assert sum(message.name == "message" for message in await replayed(http, "chat-1")) == len(talk(5))
        lags = {role["role"]: role["lag"] for role in (await http.get("/v1/status")).json()["roles"]}
        assert lags["assemble"] == answer.json()["records"]


async def test_a_token_endpoint(server: Guarded, settings_of: Callable[..., Settings]) -> None:
    """Its tokens live for 3 s, and the broker cuts connections whose token has expired: the worker goes on."""
    with token_endpoint(lambda: server.token(life=3), life=3) as endpoint:
        settings = settings_of(
            **over_tls(
                server,
                sasl_mechanism="OAUTHBEARER",
                oauth_token_url=endpoint.url,
                oauth_client_id=CLIENT,
                oauth_client_secret=SECRET,
                oauth_scope="kafka",
            )
        )
        await apply_topics(settings)
        worker = WorkerProcess(settings).start()
        try:
            await worker.url()
            runs = fleet(11, 30)
            for run in runs:
                await publish(settings_of(brokers=server.plain), EVENTS, [(run.key, value) for value in run.values()])
                await asyncio.sleep(0.3)
            await wait_until_stored(settings, 30, [worker])
        finally:
            worker.end()
        assert await stored(settings) == expected(runs)
        assert endpoint.scopes == {"kafka"}
        assert endpoint.given > 1
        refused = settings_of(**settings.model_dump(exclude_unset=True) | {"oauth_client_secret": "other"})
        with pytest.raises(CallerError, match="answers 401"):
            await check_topics(refused)


def wrong(server: Guarded) -> dict[str, tuple[Variables, str]]:
    """What is wrong -> settings, and what is to be said."""
    stranger = Authority.make(server.folder, "stranger")
    authority = server.authority
    other_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return {
        "password": (over_tls(server, **PLAIN | {"sasl_password": "guess"}), "TURNMILL_SASL_PASSWORD"),
        "scram password": (over_tls(server, **SCRAM | {"sasl_password": "guess"}), "TURNMILL_SASL_PASSWORD"),
        "user": (over_tls(server, **SCRAM | {"sasl_username": "nobody"}), "refuses the login of nobody"),
        "expired token": (by_token(server, server.token(life=-60)), "TURNMILL_OAUTH_TOKEN_FILE"),
        "token of another issuer": (by_token(server, server.token(key=other_key)), "does not accept our token"),
        "no token": (by_token(server, "rubbish"), "does not accept our token"),
        "empty token file": (by_token(server, ""), "TURNMILL_OAUTH_TOKEN_FILE"),
        "authority": (over_tls(server, **PLAIN, ssl_ca_file=None), "TURNMILL_SSL_CA_FILE"),
        "other authority": (over_tls(server, **PLAIN) | {"ssl_ca_file": stranger.file}, "is not trusted"),
        "no certificate": (mutual(server, None), "TURNMILL_SSL_CERTIFICATE_FILE"),
        "foreign certificate": (mutual(server, stranger.sign("foreign")), "does not accept our certificate"),
        "expired certificate": (mutual(server, authority.sign("old", days=0)), "does not accept our certificate"),
        "plaintext to TLS": ({"brokers": server.sasl}, "set it to SSL (or SASL_SSL)"),
        "login in plaintext to TLS": (without_tls(server) | {"brokers": server.sasl}, "set it to SASL_SSL"),
        "TLS to plaintext": (mutual(server, None) | {"brokers": server.plain}, "does not speak TLS with us"),
        "TLS without a login": (mutual(server, None) | {"brokers": server.sasl}, "PROTOCOL=SASL_SSL"),
        "no login": ({"brokers": server.clear_sasl}, "PROTOCOL=SASL_PLAINTEXT"),
        "login for none": (without_tls(server) | {"brokers": server.plain}, "PROTOCOL=PLAINTEXT"),
    }


async def test_each_refusal_says_which_setting_to_change(server: Guarded, settings_of: Callable[..., Settings]) -> None:
    for what, (given, words) in wrong(server).items():
        with pytest.raises(CallerError) as caught:
            await cluster_info(settings_of(**given))
        assert words in str(caught.value), what
        assert "\n" not in str(caught.value), what


@pytest.mark.parametrize(
    ("command", "wrong_with"),
    [
        (("worker",), {"sasl_password": "guess"}),
        (("worker",), {"ssl_ca_file": None}),
        (("publish", str(WEATHER), "--dialect", "vercel-ai"), {"sasl_password": "guess"}),
        (("publish", str(WEATHER), "--dialect", "vercel-ai"), {"ssl_ca_file": None}),
        (("topics", "apply"), {"sasl_password": "guess"}),
        (("gateway",), {"sasl_password": "guess"}),
        (("gateway",), {"ssl_ca_file": None}),
        (("replay",), {"sasl_password": "guess"}),
        (("dlq", "list"), {"ssl_ca_file": None}),
        (("dlq", "redrive", "--reason", "late_event"), {"sasl_password": "guess"}),
    ],
)
async def test_commands_end_with_status_2_and_one_line(
    command: tuple[str, ...], wrong_with: Variables, server: Guarded, settings_of: Callable[..., Settings]
) -> None:
    done = await turnmill(settings_of(**over_tls(server, **PLAIN) | wrong_with, gateway_port=0), *command)
    assert done.returncode == 2, done.stderr
    (said,) = done.stderr.splitlines()
    assert said.startswith("turnmill: ")
    assert "TURNMILL_" in said
    assert "guess" not in said


async def test_the_doctor_sees_what_is_wrong_with_the_wire(
    server: Guarded, settings_of: Callable[..., Settings]
) -> None:
    async def checks(**given: Any) -> dict[str, dict[str, str]]:
        done = await turnmill(settings_of(**given), "doctor", "--json")
        return {finding["check"]: finding for finding in json.loads(done.stdout)}

    short = mutual(server, server.authority.sign("short", days=2))
    found = await checks(**short)
    assert found["certificates"]["level"] == "error"
    assert "TURNMILL_SSL_CERTIFICATE_FILE" in found["certificates"]["seen"]
    found = await checks(**without_tls(server) | PLAIN)
    assert "in the clear" in found["wire"]["seen"]
    found = await checks(**over_tls(server, **PLAIN | {"sasl_password": "guess"}))
    assert (found["broker"]["level"], "TURNMILL_SASL_PASSWORD" in found["broker"]["seen"]) == ("error", True)


async def ready(url: str) -> tuple[bool, list[str]]:
    async with aiohttp.ClientSession() as client, client.get(f"{url}/readyz") as answer:
        return answer.status == 200, (await answer.json())["reasons"]


async def until_ready(url: str, *, expected: bool) -> list[str]:
    async def settled() -> tuple[bool, list[str]] | None:
        answer = await ready(url)
        return answer if answer[0] == expected else None

    return (await until(settled))[1]


async def test_a_worker_that_is_refused_while_it_runs_waits(
    server: Guarded, settings_of: Callable[..., Settings]
) -> None:
    server.scram_user("temp", "t3mporary")
    settings = settings_of(**over_tls(server, **SCRAM | {"sasl_username": "temp", "sasl_password": "t3mporary"}))
    await apply_topics(settings)
    runs = fleet(12, 20)
    records = [(run.key, value) for run in runs for value in run.values()]
    half = len(records) // 2
    worker = WorkerProcess(settings).start()
    try:
        url = await worker.url()
        await until_ready(url, expected=True)
        await publish(settings_of(brokers=server.plain), EVENTS, records[:half])
        await asyncio.to_thread(server.scram_user, "temp", None)
        reasons = await until_ready(url, expected=False)
        assert any("no answer from the brokers" in reason or "waits for its partitions" in reason for reason in reasons)
        await publish(settings_of(brokers=server.plain), EVENTS, records[half:])
        await asyncio.to_thread(server.scram_user, "temp", "t3mporary")
        await until_ready(url, expected=True)
        await wait_until_stored(settings, 20, [worker])
        assert worker.stop() == 0
    finally:
        worker.end()
    assert "t3mporary" not in worker.text()


async def test_secrets_are_nowhere_to_be_seen(
    server: Guarded, settings_of: Callable[..., Settings], caplog: pytest.LogCaptureFixture
) -> None:
    key = server.authority.sign("client-3", password="open sesame")
    login = over_tls(server, **PLAIN, ssl_certificate_file=key, ssl_key_password="open sesame")
    settings = settings_of(**login, log_level="DEBUG")
    seen = [repr(settings), str(settings), f"{settings.model_dump()}", settings.model_dump_json()]
    for form in ((), ("--json",)):
        done = await turnmill(settings, "settings", *form)
        assert done.returncode == 0
        seen += [done.stdout, done.stderr]
    await apply_topics(settings)
    worker = WorkerProcess(settings, forked=False).start()  # whose command line can be seen
    try:
        url = await worker.url()
        assert worker.process is not None
        seen.append(Path(f"/proc/{worker.process.pid}/cmdline").read_text())
        async with aiohttp.ClientSession() as client:
            for page in ("", "/metrics", "/readyz"):
                async with client.get(f"{url}{page}") as answer:
                    seen.append(await answer.text())
        for command in (("publish", str(WEATHER), "--dialect", "vercel-ai"), ("doctor", "--json")):
            done = await turnmill(settings, *command)
            seen += [done.stdout, done.stderr]
        await wait_until_stored(settings, 1, [worker])
    finally:
        worker.end()
    seen.append(worker.text())
    with caplog.at_level(logging.DEBUG):  # as a program that uses the publisher may log
        await cluster_info(settings)
        await cluster_info(settings_of(**over_tls(server, **SCRAM)))
        token = server.token()
        await cluster_info(settings_of(**by_token(server, token)))
    logged = [record.getMessage() + str(record.args) for record in caplog.records]
    assert any("Metadata" in line for line in logged), "aiokafka logs what it sends"
    for text in [*seen, *logged]:
        for secret in (PASSWORD, SCRAM_PASSWORD, "open sesame", token):
            assert secret not in text


async def test_a_failure_shows_no_secret_in_its_traceback(
    server: Guarded, settings_of: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**options: Any) -> None:
        raise RuntimeError(str(sorted(options)))

    settings = settings_of(**over_tls(server, **PLAIN))
    monkeypatch.setattr(offsets, "AIOKafkaAdminClient", broken)
    with pytest.raises(RuntimeError) as caught:
        await cluster_info(settings)
    assert PASSWORD not in str(caught.getrepr(style="native"))
    assert PASSWORD not in repr(client_options(settings)["ssl_context"])
