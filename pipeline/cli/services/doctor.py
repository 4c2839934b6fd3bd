"""`turnmill doctor`: checks settings, broker, topics, groups and store, and gives advice."""

import asyncio
import dataclasses
import json
import ssl
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click
from aiohttp import ClientError, ClientSession, ClientTimeout
from aiokafka import TopicPartition
from cryptography import x509
from rich.table import Table
from rich.text import Text

from pipeline.cli.output import many, wide_console
from pipeline.cli.running import load_running
from pipeline.cli.services import checks
from pipeline.cli.services.checks import Finding
from pipeline.kafka.admin import describe_topics, topic_changes
from pipeline.kafka.offsets import cluster_info, group_lag, group_members, prefixes
from pipeline.kafka.partitioners import Placed, placed
from pipeline.kafka.reading import bounds_of, read_once, reader
from pipeline.kafka.topic_plan import Found
from pipeline.policies import sign_in
from pipeline.settings import LAKE, Settings
from pipeline.stores.archive.turn_archive import TurnArchive, archive_of, lake_of
from pipeline.stores.content.store import ContentStore
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.threads.reading import count_rows
from pipeline.worker.assemble.limits import limits_of, redaction_of
from pipeline.worker.host.roles import default_roles
from pipeline.worker.repair.ledger import take_stock
from pipeline.worker.repair.restoring import contradicted, newest_facts
from topics.catalog import CATALOG, DEAD_LETTERS, EVENTS
from turnmill.addresses import host_port
from turnmill.clock import now_ms
from turnmill.errors import CallerError, TurnmillError
from turnmill.kafka.client import client_options
from turnmill.settings import BrokerSettings, without_password

MAX_CLOCK_SKEW: Final = 5.0  # seconds by which a record may be dated later than this machine's clock
LEDGER_RECORDS: Final = 200_000  # on the events topic; more are only read with --ledger
KEYS_READ: Final = 2_000  # records, the newest of all partitions, whose keys tell their producers' partitioners
LEDGER_ROLES: Final = ("assemble", "store")  # the ledger does not include records that these roles have not read yet
SQLITE: Final = "sqlite:///"
MARKS: Final = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "error": ("✗", "red")}
REQUEST_TIMEOUT: Final = 5.0  # seconds
LOCAL: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "::1": "[::1]"}  # noqa: S104  # where to ask what listens there


@click.command(short_help="Check everything, and say what to do about problems.")
@click.option("--ledger", is_flag=True, help=f"Count all runs, even of over {LEDGER_RECORDS:,} records.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of the findings.")
def doctor(*, ledger: bool, as_json: bool) -> None:
    """Check settings, broker, topics, groups, store and clocks, and count the runs by their state.

    Changes nothing. Gives advice on each finding; exits with 1 if one is an error.
    """
    findings = _examined(ledger=ledger)
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=2))
    else:
        table = Table(box=None, show_header=False, pad_edge=False)
        for finding in findings:
            mark, style = MARKS[finding.level]
            seen = Text(finding.seen)
            if finding.advice:
                seen.append(f"\n→ {finding.advice}", style="bold")
            table.add_row(Text(mark, style=style), Text(finding.check), seen)
        wide_console().print(table)
    if any(finding.level == "error" for finding in findings):
        sys.exit(1)


def _examined(*, ledger: bool) -> list[Finding]:
    try:
        settings = load_running()
    except CallerError as error:
        return [Finding("error", "settings", line, "see `turnmill settings`") for line in str(error).splitlines()]
    return asyncio.run(examine(settings, ledger=ledger))


async def examine(settings: Settings, *, ledger: bool = False) -> list[Finding]:
    """Return the findings of all checks. An unreachable service is a finding, too, and the other checks go on."""
    limits = limits_of(settings)
    findings = _unusable(settings) or checks.settings_findings(limits, [rule.text for rule in settings.role_list])
    findings += checks.wire_findings(settings)
    findings += await _services(settings)
    store = await _store(settings)
    try:
        findings += checks.cluster_findings(settings.brokers, info := await cluster_info(settings))
        ends = await expiries(settings, [address for _, address in info.brokers])
        findings += checks.expiry_findings(ends, datetime.now(UTC))
        topics = await describe_topics(settings)
        changes = await topic_changes(settings)
        others = [] if topics else await prefixes(settings)
        findings += checks.topic_findings(settings.topic_prefix, limits, topics, changes, len(info.brokers), others)
        findings += checks.state_finding(settings.topic_prefix, limits, topics)
        if len(topics) == len(CATALOG):
            findings += await _records(settings, topics, stored=store.level == "ok", ledger=ledger)
    except TurnmillError as error:
        if all(finding.seen != str(error) for finding in findings):  # else it is of the settings
            findings.append(Finding("error", "broker", str(error)))
    return [*findings, store, *await _archive(settings)]


async def _services(settings: Settings) -> list[Finding]:
    """Report whether the worker and the gateway of these settings are ready; they may well run on other machines."""
    at = {"worker": (settings.host, settings.port), "gateway": (settings.gateway_host, settings.gateway_port)}
    findings = []
    async with ClientSession(timeout=ClientTimeout(REQUEST_TIMEOUT)) as client:
        for name, (host, port) in at.items():
            address = f"http://{LOCAL.get(host, host)}:{port}"
            try:
                async with client.get(f"{address}/readyz") as answer:
                    reasons = (await answer.json())["reasons"]
            except (ClientError, OSError, TimeoutError, ValueError, KeyError, TypeError):
                findings.append(Finding("ok", name, f"none answers at {address}: it may run elsewhere"))
                continue
            findings += [Finding("error", name, f"{address} is not ready: {reason}") for reason in reasons]
            findings += [] if reasons else [Finding("ok", name, f"{address} is ready")]
    return findings


def _unusable(settings: Settings) -> list[Finding]:
    """Report errors in settings that only the brokers' clients, redaction, content, archive and sign-in read."""
    findings = []
    for make in (client_options, redaction_of, ContentStore.of, _archive_of, _sign_in_of):
        try:
            make(settings)
        except CallerError as error:
            findings.append(Finding("error", "settings", str(error)))
    return findings


def _sign_in_of(settings: Settings) -> None:
    sign_in.check(settings.role_list, settings.provider_list)


async def _records(settings: Settings, topics: list[Found], *, stored: bool, ledger: bool) -> list[Finding]:
    findings, waiting = [], 0
    for role in default_roles(settings):
        group = role.group(settings)
        rows = await group_lag(settings, group, [role.topic])
        nothing = any(row.lag for row in rows) and all(row.committed is None for row in rows)
        clients = await group_members(settings, group) if nothing or role.needs_store else []
        findings.append(checks.lag_finding(group, role.name, rows, len(clients)))
        findings += checks.stores_finding(group, clients)
        waiting += sum(row.lag for row in rows) if role.name in LEDGER_ROLES else 0
    sizes = {topic.name: sum((row.end or 0) - (row.begin or 0) for row in topic.partitions) for topic in topics}
    letters = sizes[DEAD_LETTERS.full_name(settings.topic_prefix)]
    advice = "`turnmill dlq list` says why, `turnmill dlq redrive` tries them again" if letters else ""
    findings.append(Finding("warning" if letters else "ok", "dead letters", f"{letters:,} on the topic", advice))
    findings.append(checks.clock_finding(await _ahead(settings, topics), MAX_CLOCK_SKEW))
    findings.append(checks.partitioner_finding(await _placed(settings)))
    events = sizes[EVENTS.full_name(settings.topic_prefix)]
    if not stored:
        return findings
    if events > LEDGER_RECORDS and not ledger:
        findings.append(Finding("ok", "balance", f"not taken of {events:,} records", "`--ledger` reads them all"))
        return findings
    async with await ThreadStore.open(settings.store_url) as store:
        counted = await take_stock(settings, store)
        if lacking := await contradicted(store, await newest_facts(settings, store)):
            seen = f"older than its topics: {many(len(lacking), 'change')} of tokens, holds, erasures, … missing"
            advice = "stop gateways and workers, and run `turnmill store restore`"
            findings.append(Finding("error", "store", seen, advice))
    findings.append(checks.ledger_finding(limits_of(settings).idle_ms, counted, waiting, now_ms()))
    return findings


async def _placed(settings: Settings) -> Placed:
    """Return what the keys of the newest records say of their producers' partitioners."""
    ends = await bounds_of(settings, EVENTS)
    most = max(KEYS_READ // len(ends), 1)
    spans = {partition: (max(begin, end - most), end) for partition, (begin, end) in ends.items()}
    found: list[tuple[bytes | None, int]] = []
    async for partition, records in read_once(settings, spans):
        found += [(record.key, partition.partition) for record in records]
    return placed(found, len(ends))


async def _ahead(settings: Settings, topics: list[Found]) -> int:
    """Return the number of partitions of the events topic with a record dated later than now + MAX_CLOCK_SKEW."""
    name = EVENTS.full_name(settings.topic_prefix)
    later = int((time.time() + MAX_CLOCK_SKEW) * 1000)
    rows = [row for topic in topics if topic.name == name for row in topic.partitions]
    async with reader(settings) as consumer:
        offsets = await consumer.offsets_for_times({TopicPartition(name, row.id): later for row in rows})
        return sum(offset is not None for offset in offsets.values())


async def _store(settings: Settings) -> Finding:
    """Check the store without `ThreadStore.open`, which would create and migrate an SQLite file."""
    where, file = without_password(settings.store_url), Path(settings.store_url.removeprefix(SQLITE))
    if settings.store_url.startswith(SQLITE) and not file.exists():  # noqa: ASYNC240  # once
        advice = "a worker with the role store makes it"
        return Finding("warning", "store", f"{settings.store_url} is not there yet", advice)
    try:
        async with ThreadStore(settings.store_url) as store:
            revision = await store.revision()
            await store.check()
            await store.check_writing()
            counts = await count_rows(store)
    except (StoreError, CallerError) as error:
        return Finding("error", "store", str(error))
    seen = f"{where}, revision {revision}: {many(counts.threads, 'thread')}, {many(counts.turns, 'turn')} of "
    return Finding("ok", "store", f"{seen}{many(counts.runs, 'run')}, {counts.interrupted:,} interrupted")


def _archive_of(settings: Settings) -> TurnArchive | None:
    return archive_of(settings) if settings.archive is not None else None


async def _archive(settings: Settings) -> list[Finding]:
    """Report on an archive of tables; an archive of Parquet files is not checked."""
    if settings.archive is None or not settings.archive.startswith(LAKE):
        return []
    try:
        tables = await lake_of(settings).state()
    except CallerError:  # reported already, by the check of the settings
        return []
    except StoreError as error:
        return [Finding("error", "archive", str(error))]
    if not tables:
        advice = "a worker with the role archive makes them"
        return [Finding("warning", "archive", f"{settings.archive} has no tables yet", advice)]
    seen = "; ".join(
        f"{name}: {many(table.rows, 'row')} in {many(table.files, 'file')}, {many(table.snapshots, 'snapshot')}"
        for name, table in tables.items()
    )
    return [Finding("ok", "archive", f"{settings.archive}: {seen}")]


async def expiries(settings: BrokerSettings, addresses: Sequence[str]) -> dict[str, datetime]:
    """Return {broker's address or setting: expiry of its certificate} for brokers that answer; empty without TLS.

    Raises CallerError as `client_options` does.
    """
    tls: ssl.SSLContext | None = client_options(settings)["ssl_context"]
    if tls is None:
        return {}
    ends = await asyncio.gather(*(_end(address, tls) for address in addresses))
    found = {address: end for address, end in zip(addresses, ends, strict=True) if end is not None}
    if settings.ssl_certificate_file is not None:
        found["TURNMILL_SSL_CERTIFICATE_FILE"] = _first_end(settings.ssl_certificate_file)
    return found


async def _end(address: str, tls: ssl.SSLContext) -> datetime | None:
    host, port = host_port(address)
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT):
            _, writer = await asyncio.open_connection(host, port, ssl=tls)
    except (OSError, TimeoutError):  # other checks report the reason
        return None
    try:
        not_after = writer.get_extra_info("peercert")["notAfter"]
        return datetime.fromtimestamp(ssl.cert_time_to_seconds(not_after), UTC)
    finally:
        writer.close()


def _first_end(file: Path) -> datetime:
    """Return the earliest expiry of the certificates in a file, since the chain needs each of them."""
    certificates = x509.load_pem_x509_certificates(file.read_bytes())
    return min(certificate.not_valid_after_utc for certificate in certificates)
