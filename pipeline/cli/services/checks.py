"""The checks of `turnmill doctor`, from settings and descriptions of topics, groups and stores. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from pipeline.assembly.limits import Limits
from pipeline.cli.output import many
from pipeline.kafka.offsets import ClusterInfo, PartitionLag
from pipeline.kafka.partitioners import Placed
from pipeline.kafka.topic_plan import Change, Found
from pipeline.worker.repair.ledger import Ledger
from topics.catalog import CATALOG, EVENTS, STATE
from turnmill.kafka.refusal import NEEDED
from turnmill.settings import BrokerSettings

APPLY = "run `turnmill topics apply`"
MOST_PREFIXES: Final = 3  # of a broker's topics that a finding lists
SOON, VERY_SOON = timedelta(days=30), timedelta(days=3)
WITHOUT = {  # what doesn't work without an API of Kafka, by its key
    13: "LeaveGroup: partitions of a worker that stops wait until its session is over, 10 s",
    15: "DescribeGroups: whether a worker runs that has read nothing yet can't be told",
    19: "CreateTopics: `turnmill topics apply` can't create topics; make those of `turnmill topics list --json`",
    32: "DescribeConfigs: the topics' settings are not compared with those of `turnmill topics list --json`",
    33: "AlterConfigs: `turnmill topics apply` can't correct the topics' settings",
    37: "CreatePartitions: `turnmill topics apply --grow` can't add partitions",
}
SLACK_MS = 60_000  # by which a deadline may be late


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report: the check, its result, and advice for the user (empty: none, or an error that has it)."""

    level: Literal["ok", "warning", "error"]
    check: str
    seen: str
    advice: str = ""


def settings_findings(limits: Limits, roles: Iterable[str]) -> list[Finding]:
    """Report options that are valid alone, but contradict each other. `roles`: the rules that give people roles."""
    findings = []
    if limits.idle_ms > limits.run_ms:
        idle, run = f"TURNMILL_IDLE_TIMEOUT ({limits.idle_ms / 1000:g} s)", f"({limits.run_ms / 1000:g} s)"
        seen = f"{idle} is over TURNMILL_RUN_TIMEOUT {run}, so that it never ends a run"
        findings.append(Finding("warning", "settings", seen, "set it lower"))
    if limits.dedupe_ms < limits.reopen_ms:
        dedupe, reopen = f"TURNMILL_DEDUPE_WINDOW ({limits.dedupe_ms / 1000:g} s)", f"({limits.reopen_ms / 1000:g} s)"
        seen = (
            f"{dedupe} is under TURNMILL_REOPEN_WINDOW {reopen}: a run may be forgotten while it can still be reopened"
        )
        findings.append(Finding("warning", "settings", seen, "set it to at least the other"))
    findings += [Finding("ok", "sign-in", f"{number}. {rule}") for number, rule in enumerate(roles, 1)]
    return findings or [Finding("ok", "settings", "read, and in line with each other")]


def wire_findings(settings: BrokerSettings) -> list[Finding]:
    """Report secrets that others on the network can read."""
    findings = []
    if settings.security_protocol == "SASL_PLAINTEXT" and settings.sasl_mechanism in ("PLAIN", "OAUTHBEARER"):
        what = "password" if settings.sasl_mechanism == "PLAIN" else "token"
        seen = f"the {what} goes to the brokers in the clear"
        findings.append(Finding("warning", "wire", seen, "set TURNMILL_SECURITY_PROTOCOL=SASL_SSL"))
    if (settings.oauth_token_url or "").startswith("http:"):
        seen = "the client secret goes to the token endpoint in the clear"
        findings.append(Finding("warning", "wire", seen, "set TURNMILL_OAUTH_TOKEN_URL to an https:// address"))
    return findings


def expiry_findings(expiries: Mapping[str, datetime], now: datetime) -> list[Finding]:
    """Report certificates that expire soon. `expiries`: owner of a certificate -> its expiry."""
    findings = []
    for owner, end in expiries.items():
        left = end - now
        if left < SOON:
            days = many(max(left.days, 0), "day")
            seen = f"the certificate of {owner} ends on {end:%Y-%m-%d %H:%M} UTC ({days} left)"
            advice = "renew it: brokers and workers will refuse each other then"
            findings.append(Finding("error" if left < VERY_SOON else "warning", "certificates", seen, advice))
    if findings or not expiries:
        return findings
    first = min(expiries.values())
    return [Finding("ok", "certificates", f"the first of {len(expiries)} ends on {first:%Y-%m-%d}")]


def cluster_findings(brokers: str, info: ClusterInfo) -> Iterator[Finding]:
    """Report id and brokers of the cluster that answers, and which optional APIs of Kafka it doesn't offer."""
    listed = ", ".join(address for _, address in info.brokers)
    count = many(len(info.brokers), "broker")
    yield Finding("ok", "broker", f"cluster {info.cluster_id} answers at {brokers}: {count} ({listed})")
    for name in (name for key, name in NEEDED.items() if key not in info.offers):
        yield Finding("error", "broker", f"it offers no {name}: Turnmill can't work without")
    for what in (what for key, what in WITHOUT.items() if key not in info.offers):
        yield Finding("warning", "broker", f"it offers no {what}", "docs/operations/brokers.md says what is asked for")


def topic_findings(
    prefix: str,
    limits: Limits,
    topics: Sequence[Found],
    changes: Iterable[Change],
    brokers: int,
    others: Sequence[str] = (),
) -> list[Finding]:
    """Report topics that are missing, differ from the catalog, or could lose records.

    `others`: the prefixes that the broker has topics of, if it has none of `prefix`.
    """
    if others:
        listed = ", ".join(f"{other}.*" for other in others[:MOST_PREFIXES])
        seen = f"none of {prefix}.* is there, but others are: {listed}{' …' if others[MOST_PREFIXES:] else ''}"
        advice = f"set TURNMILL_TOPIC_PREFIX to theirs, if they are meant; else {APPLY}"
        return [Finding("error", "topics", seen, advice)]
    findings = []
    for change in changes:
        check = f"topic {change.topic}"
        if change.action == "create":
            findings.append(Finding("error", check, "is not there", APPLY))
        elif change.action == "configure":
            findings.append(Finding("warning", check, f"differs: {change.detail}", APPLY))
        else:
            findings.append(Finding("warning", check, change.detail))
    for topic in topics:
        findings += _durability(topic, brokers)
    findings += _copartitioned(prefix, topics)
    for topic in topics:
        if topic.name == EVENTS.full_name(prefix):
            findings += _events(limits, topic)
    return findings or [Finding("ok", "topics", f"all {len(CATALOG)} of {prefix} are as they should be")]


def _copartitioned(prefix: str, topics: Sequence[Found]) -> list[Finding]:
    counts = {topic.name.removeprefix(f"{prefix}."): len(topic.partitions) for topic in topics}
    if len(set(counts.values())) < 2:
        return []
    listed = ", ".join(f"{name} {count}" for name, count in counts.items())
    seen = f"have different numbers of partitions ({listed}): workers will not start"
    advice = f"set TURNMILL_PARTITIONS={max(counts.values())} and run `turnmill topics apply --grow`"
    return [Finding("error", "partitions", seen, advice)]


def _durability(topic: Found, brokers: int) -> Iterator[Finding]:
    check = f"topic {topic.name}"
    if topic.replication == 1 and brokers > 1:
        advice = "give it 3 replicas (kafka-reassign-partitions), and set TURNMILL_REPLICATION for new topics"
        yield Finding("error", check, f"has 1 replica on {brokers} brokers: losing one loses it", advice)
    if topic.replication > 1 and topic.config.get("unclean.leader.election.enable") == "true":
        seen = "lets a replica that lags behind lead: confirmed records vanish"
        yield Finding("error", check, seen, "set unclean.leader.election.enable=false")
    if topic.replication > 1 and topic.config.get("min.insync.replicas") == "1":
        seen = "confirms records that only one broker has"
        yield Finding("warning", check, seen, "set min.insync.replicas=2")
    leaderless = [row.id for row in topic.partitions if row.leader is None]
    if leaderless:
        seen = f"partition {', '.join(map(str, leaderless))} has no leader: nothing can be read or written there"
        yield Finding("error", check, seen, "start the brokers that hold it")
    behind = [row.id for row in topic.partitions if len(row.in_sync) < len(row.replicas)]
    if behind:
        seen = f"partition {', '.join(map(str, behind))} lacks replicas in sync"
        yield Finding("warning", check, seen, "start the brokers that are down, or look at their logs")


def _events(limits: Limits, events: Found) -> Iterator[Finding]:
    check = f"topic {events.name}"
    longest = (limits.run_ms + limits.reopen_ms) / 1000
    retention = int(events.config.get("retention.ms", -1))
    if 0 <= retention < longest * 1000:
        kept = f"keeps records for {retention / 1000:g} s"
        seen = f"{kept}, and a turn may take {longest:g} s: it could lose its beginning"
        advice = f"raise retention.ms ({APPLY}), or lower TURNMILL_RUN_TIMEOUT and TURNMILL_REOPEN_WINDOW"
        yield Finding("error", check, seen, advice)
    if "compact" in events.config.get("cleanup.policy", ""):
        seen = "is compacted: of a thread's records only the last one would stay"
        yield Finding("error", check, seen, APPLY)


def state_finding(prefix: str, limits: Limits, topics: Iterable[Found]) -> list[Finding]:
    """Check that the state topic is compacted, and keeps closed runs for TURNMILL_DEDUPE_WINDOW."""
    name = STATE.full_name(prefix)
    for topic in topics:
        if topic.name == name and "compact" not in topic.config.get("cleanup.policy", "compact"):
            seen = "is not compacted: it grows with every run, and each start of a worker reads all of it"
            return [Finding("error", f"topic {name}", seen, APPLY)]
        retention = int(topic.config.get("retention.ms", -1))
        if topic.name == name and 0 <= retention < limits.dedupe_ms:
            window = f"TURNMILL_DEDUPE_WINDOW ({limits.dedupe_ms / 1000:g} s)"
            seen = f"forgets closed runs after {retention / 1000:g} s, before {window}"
            return [Finding("warning", f"topic {name}", seen, "raise its retention.ms, or lower the window")]
    return []


def lag_finding(group: str, role: str, rows: Sequence[PartitionLag], members: int) -> Finding:
    """Report how far a role has read; an error if retention removed records before it read them.

    `members`: of the group, now. A worker commits nothing of a topic that was made anew until it has seen that.
    """
    check, lag = f"group {group}", sum(row.lag for row in rows)
    anew = [row.partition for row in rows if (row.committed or 0) > row.end]
    if anew:
        seen = f"has read beyond the end of partition {', '.join(map(str, anew))}: its topic was made anew"
        return Finding("warning", check, seen, "its worker reads it from the beginning within seconds; else restart it")
    lost = {row.partition: row.begin - row.committed for row in rows if row.committed and row.committed < row.begin}
    if lost:
        where = ", ".join(map(str, lost))
        seen = f"{sum(lost.values()):,} records were removed before they were read, on partition {where}"
        return Finding("error", check, seen, f"run more workers with the role {role}, or raise the topic's retention")
    if lag and all(row.committed is None for row in rows):
        if members:
            seen = f"{lag:,} records wait for {many(members, 'running worker')}, of a topic that is new to the group"
            return Finding("warning", check, seen, "it is read within seconds; else see the worker's log")
        seen = f"{lag:,} records wait, and no worker with the role {role} runs or has read any of them"
        return Finding("warning", check, seen, f"start one: `turnmill worker --roles {role}`")
    return Finding("ok", check, f"{lag:,} records to read" if lag else "has read all")


def stores_finding(group: str, clients: Iterable[str]) -> list[Finding]:
    """Report workers of a group that write to different stores. `clients`: their client ids, which end with a mark."""
    stores = {client.rpartition(".")[2] for client in clients if client.startswith("turnmill.")}
    if len(stores) < 2:
        return []
    seen = f"its workers name {len(stores)} stores: unless that is the same database, each lacks turns of the others"
    advice = "give all workers the same TURNMILL_STORE; a file is for the workers of a single machine"
    return [Finding("warning", f"group {group}", seen, advice)]


def partitioner_finding(told: Placed) -> Finding:
    """Report which client's partitioner placed the newest records."""
    check, advice = "partitioner", "docs/records.md#which-partition says how each client is set"
    if told.scattered:
        seen = (
            f"{told.scattered:,} of the newest {many(told.keys, 'key')} are in several partitions: by round robin, by "
            "two clients, or since the topic grew. Runs are assembled by partition, so theirs break; "
            "`turnmill replay --thread ID` makes them whole"
        )
        return Finding("warning", check, seen, advice)
    if told.keyless:
        seen = f"{many(told.keyless, 'record')} of the newest without a key: their runs are scattered over partitions"
        return Finding("warning", check, seen, "the key of a record is its thread_id: docs/records.md#which-partition")
    if told.by is not None:
        _, whose, java = told.by
        seen = f"{told.elsewhere:,} of the newest {many(told.keys, 'key')} are where {whose} puts them"
        return Finding("ok", check, seen, f"where clients of other makes write the same threads: {java}; {advice}")
    if told.elsewhere:
        seen = f"{told.elsewhere:,} of the newest {many(told.keys, 'key')} are where no known partitioner puts them"
        return Finding("ok", check, seen, f"well, if all records of a thread are in one partition; {advice}")
    return Finding("ok", check, "the newest keys are where Java's clients put them" if told.keys else "no records yet")


def clock_finding(ahead: int, seconds: float) -> Finding:
    """Report clocks. `ahead`: number of partitions of the events topic with records later than now + `seconds`."""
    if ahead:
        seen = f"{ahead} partitions hold records dated over {seconds:g} s ahead of this machine's clock"
        return Finding("warning", "clock", seen, "set the clocks of the brokers and of this machine (NTP)")
    return Finding("ok", "clock", "no record is dated ahead of this machine's clock")


def ledger_finding(idle_ms: int, ledger: Ledger, waiting: int, now: int) -> Finding:
    """Report the loss ledger. `idle_ms`: after this silence a run is closed.

    `waiting`: records that the assemble and store roles have not read yet; `now`: epoch ms.
    """
    seen = f"runs {ledger.runs:,} = stored {ledger.stored:,} + dead letters {ledger.dead:,} + open {ledger.open:,}"
    seen += f" + deleted {ledger.erased:,}" if ledger.erased else ""
    quiet_since = now - idle_ms - SLACK_MS
    lost = [f"{run} of thread {thread}" for (_, thread, run), at in ledger.open_runs.items() if at < quiet_since]
    if lost and not waiting:
        named = ", ".join(lost[:5])
        advice = "is it the store of all workers? That of another folder (TURNMILL_HOME) lacks runs, as do two stores "
        advice += "of workers in one group. If it is, this is a bug: keep the events topic, and report it"
        lacking = f"{len(lost):,} are neither stored, dead-lettered nor open: {named}"
        return Finding("error", "balance", f"{seen}; {lacking}", advice)
    if ledger.removed:
        seen += f"; {ledger.removed:,} records were removed by retention before they were read"
        return Finding("warning", "balance", seen, "`turnmill audit --what records` says when and where")
    return Finding("ok", "balance", seen)
