"""Every place that can contain content or identities of people: how it is erased and checked, how long data may stay.

A test holds these tables against the schema, the catalog of topics and the settings: whatever is added there says here
what becomes of it. `turnmill tenants check` walks them, and so does the table of docs/retention.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, and_, exists, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.accounts.audit import about_tenant
from pipeline.stores.database import schema as s
from pipeline.stores.database.sending import certain
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.database.unused_names import USED
from pipeline.stores.outbound.notices import of_notice
from pipeline.stores.threads.list_statements import of_tenant
from pipeline.stores.usage.summing import names_of, sums_of
from pipeline.turns.column_text import column_text

Count = Callable[[AsyncConnection, str], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class TablePlace:
    """A table.

    `holds`: its columns with content or identities of people; `ours`: other non-numeric columns, with data of our
    own. `left`: how many rows have something of a tenant, "" for none; without it `erased` says why no row can be left.
    """

    table: str
    erased: str
    stays: str
    holds: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()
    left: Count | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A topic, a folder, a bucket, a file or a memory. `settings`: those that name it; `module`: the memory's."""

    name: str
    erased: str
    checked: str
    stays: str
    settings: tuple[str, ...] = ()
    module: str = ""


def _rows(column: Column[Any], condition: Callable[[str], ColumnElement[bool]]) -> Count:
    async def count(connection: AsyncConnection, tenant: str) -> int:
        query = select(func.count()).select_from(column.table).where(condition(tenant))
        return int(await connection.scalar(query) or 0)

    return count


def _owned(column: Column[Any], owner: Callable[[Any], str | None]) -> Count:
    """Return a count of rows in a small table, in Python: a tenant's name in JSON may be one that SQL can't compare."""

    async def count(connection: AsyncConnection, tenant: str) -> int:
        return sum(owner(value) == tenant for value in await connection.scalars(select(column)))

    return count


def requests_of(tenant: str) -> Any:
    """Return a query of a tenant's ids in `requests`."""
    return select(s.requests.c.id).where(s.requests.c.tenant == (column_text(tenant) or ""))


FOLLOWS: Final = "with its thread, by foreign keys"
NOW: Final = "nothing"
FOR_GOOD: Final = "until you remove it: without it a replay would bring the thread back"
_NAMED: Final = ("thread_key", "name")

TABLES: Final = (
    TablePlace(
        "threads",
        "in the transaction of the deletion",
        NOW,
        ("thread_id", "tenant", "name", "external_id", "title", "prompt", "model", "asked"),
        left=_rows(s.threads.c.id, lambda tenant: and_(*of_tenant(tenant))),
    ),
    TablePlace(
        "turns",
        FOLLOWS,
        NOW,
        ("turn_id", "run_id", "digest", "external_id", "title", "prompt", "asked", "record"),
    ),
    TablePlace("links", FOLLOWS, NOW, ("source", "target", "relation")),
    TablePlace("thread_agents", FOLLOWS, NOW),
    TablePlace("usage", FOLLOWS, NOW, ("finish_reason",)),
    TablePlace(
        "turn_words",
        f"{FOLLOWS}; SQLite's index of words by a trigger",
        NOW,
        ("tenant", "words"),
    ),
    TablePlace(
        "agents",
        "with the last thread that has it",
        NOW,
        ("digest", "agent_id", "agent_name"),
        left=_rows(s.agents.c.id, lambda _: and_(*(~used for used in USED[s.agents]))),
    ),
    TablePlace(
        "usage_names",
        "with the last usage, sum or change that has it",
        "until the store role sums up, some seconds; of threads that have expired, while their sums are kept",
        ("digest", "tenant", "model", "provider", "agent_id", "prompt", "origin"),
        left=_rows(s.usage_names.c.id, lambda tenant: s.usage_names.c.id.in_(names_of(tenant))),
    ),
    TablePlace(
        "usage_sums",
        "the store role takes what was deleted out of them; `tenants erase` also what has expired",
        "some seconds; of threads that have expired, until the tenant is erased",
        ours=("ttft", "duration"),
        left=_rows(s.usage_sums.c.span, sums_of),
    ),
    TablePlace(
        "usage_changes",
        "the store role takes them up",
        "some seconds",
        left=_rows(s.usage_changes.c.id, lambda tenant: s.usage_changes.c.names.in_(names_of(tenant))),
    ),
    TablePlace(
        "deleted_usage",
        "with the hour, day or month of its budget; `tenants erase` deletes a tenant's",
        "numbers by tenant, at most a month",
        ("tenant",),
        ("scope",),
        left=_rows(s.deleted_usage.c.used, lambda tenant: s.deleted_usage.c.tenant == (column_text(tenant) or "")),
    ),
    TablePlace("erased", "never: it is the mark", FOR_GOOD, ("thread_key",)),
    TablePlace(
        "holds",
        "by releasing the thread",
        "as long as it is held",
        _NAMED,
        left=_owned(s.holds.c.name, lambda name: name[1] or ""),
    ),
    TablePlace(
        "expired",
        "with the deletion; else when nothing is left of the thread elsewhere",
        NOW,
        _NAMED,
        left=_owned(s.expired.c.name, lambda name: name[1] or ""),
    ),
    TablePlace(
        "notices",
        "`tenants erase` deletes a tenant's, but for those that tell of deletions",
        "a deletion's id and tenant until the topic has them, some seconds",
        ("id", "record"),
        left=_owned(s.notices.c.record, of_notice),
    ),
    TablePlace(
        "webhooks",
        "`tenants erase` deletes a tenant's, with their secrets",
        NOW,
        ("id", "tenant", "url", "events", "secrets"),
        left=_owned(s.webhooks.c.tenant, lambda tenant: tenant),
    ),
    TablePlace(
        "tokens",
        "`tenants erase` deletes a tenant's",
        "until they are revoked; of people who sign in, until they sign out, or the next one signs in after it expired",
        ("id", "digest", "old", "name", "tenant", "scopes", "addresses", "made_by", "session", "id_token"),
        left=_owned(s.tokens.c.tenant, lambda tenant: tenant),
    ),
    TablePlace(
        "feedback",
        "with its thread; `tenants erase` deletes a tenant's",
        "nothing; of a thread that was never stored, until its tenant is erased",
        ("thread_key", "id", "tenant", "name", "record"),
        left=_rows(s.feedback.c.id, lambda tenant: s.feedback.c.tenant == (column_text(tenant) or "")),
    ),
    TablePlace(
        "webhook_deliveries",
        "in the transaction that marks the thread; with their webhook",
        "turns: nothing; a deletion's id and tenant until it is delivered, at most TURNMILL_WEBHOOKS_WITHIN",
        ("webhook", "id", "lane", "thread_key", "payload", "place"),
        left=_rows(
            s.webhook_deliveries.c.seq,
            lambda _: exists().where(s.erased.c.thread_key == s.webhook_deliveries.c.thread_key),
        ),
    ),
    TablePlace(
        "views",
        "`tenants erase` deletes a tenant's",
        "until they are deleted",
        ("id", "owner", "tenant", "name", "address"),
        left=_rows(s.views.c.id, lambda tenant: s.views.c.tenant == column_text(tenant)),
    ),
    TablePlace(
        "audit",
        "`tenants erase` deletes a tenant's, but for those that tell of erasures",
        "ids, and who acted, for TURNMILL_AUDIT_RETENTION; of erasures also those of erased tenants",
        ("who", "token", "address", "action", "subject", "tenant", "outcome"),
        left=_rows(s.audit.c.id, about_tenant),
    ),
    TablePlace("turn_requests", FOLLOWS, NOW),
    TablePlace(
        "requests",
        "with the last turn that names it",
        NOW,
        ("digest", "sha256", "tenant", "body"),
        left=_rows(s.requests.c.id, lambda tenant: s.requests.c.id.in_(requests_of(tenant))),
    ),
    TablePlace(
        "request_members",
        "with its request, by foreign keys",
        NOW,
        ("name",),
        left=_rows(s.request_members.c.request, lambda tenant: s.request_members.c.request.in_(requests_of(tenant))),
    ),
    TablePlace(
        "request_values",
        "with the last request that has it",
        NOW,
        ("digest", "tenant", "value"),
        left=_rows(s.request_values.c.id, lambda tenant: s.request_values.c.tenant == (column_text(tenant) or "")),
    ),
    TablePlace("price_sources", "nothing of anybody", NOW, ours=("source",)),
    TablePlace("usage_state", "nothing of anybody", NOW),
    TablePlace("expiry_state", "nothing of anybody", NOW, ours=("holder",)),
    TablePlace("compatibility", "nothing of anybody", NOW, ours=("oldest",)),
)

RETENTION: Final = "by the topic's `retention.ms`, whole segments"
UNTIL: Final = "`tenants check` says until when"
TOPICS: Final = tuple(
    Place(name, RETENTION, UNTIL, "`retention.ms`, and at the latest `segment.ms` more")
    for name in ("events", "turns", "telemetry", "dead-letters", "state", "notices", "feedback", "control")
)
READ: Final = "read by `tenants check`"
LEFT_OUT: Final = "not looked at: see how long"

OTHERS: Final = (
    Place("large values", "with the thread: objects, and records of packs", READ, NOW, ("content",)),
    Place(
        "archive",
        "with the thread: rows of objects, or of tables; of feedback, too",
        READ,
        NOW,
        ("archive", "archive_catalog"),
    ),
    Place(
        "archive's audit log",
        "`tenants erase` deletes a tenant's, but for those that tell of erasures",
        READ,
        "as the table `audit`",
        ("archive",),
    ),
    Place(
        "files of the store",
        "SQLite: what was deleted is overwritten, the index of words merged, the log emptied",
        LEFT_OUT,
        "SQLite: nothing, once no reader holds the log; Postgres: in dead rows until `VACUUM`, in its log and backups",
        ("store", "home"),
    ),
    Place(
        "spool of a publisher or gateway",
        "sent, then deleted; `refused.jsonl` and `damaged/` by you",
        LEFT_OUT,
        "until the broker takes it; what it refused, and damaged bytes, until you delete them",
        ("spool",),
    ),
    Place(
        "cache", "nothing of anybody: downloads, and the demo's own runs", LEFT_OUT, "as long as you like", ("cache",)
    ),
    Place("audit log", "never: it says which thread went, by whom", LEFT_OUT, "as long as you keep logs"),
    Place("backups, exports, copies", "by you", LEFT_OUT, "as long as you keep them"),
    Place(
        "open runs",
        "when the run ends: its turn is dropped",
        LEFT_OUT,
        "TURNMILL_RUN_TIMEOUT",
        module="pipeline.assembly.partition",
    ),
    Place(
        "recent events of live streams",
        "by newer ones; a stream of the thread ends within 20 s",
        LEFT_OUT,
        "TURNMILL_GATEWAY_LIVE_WINDOW",
        module="pipeline.gateway.live.recent_events",
    ),
    Place(
        "open runs of the dashboard",
        "left out within 5 s",
        LEFT_OUT,
        "until the run ends",
        module="pipeline.assembly.run_list",
    ),
    Place(
        "commands that a gateway remembers",
        "by newer ones",
        LEFT_OUT,
        "14 days, or until the gateway ends",
        module="pipeline.gateway.control.memory",
    ),
    Place(
        "conversations that a capture remembers",
        "by newer ones",
        LEFT_OUT,
        "until the agent's process, or the gateway, ends",
        module="turnmill.capture.conversations",
    ),
)
# Settings that name a file or a folder with nothing of what agents say: credentials, rules, tokens, prices.
NOTHING_SAID: Final = frozenset(
    {
        *("ssl_ca_file", "ssl_certificate_file", "ssl_key_file", "sasl_password_file", "oauth_token_file"),
        *("oauth_client_secret_file", "publish_token_file", "content_threshold", "redact", "gateway_tokens"),
        *("webhooks", "budgets", "prices", "gateway_oidc", "gateway_oidc_roles"),
    }
)


async def rows_left(store: ThreadStore, tenant: str) -> dict[str, int]:
    """Return how many rows of each table contain data of a tenant."""
    async with store.reading() as connection:
        await certain(connection)
        return {one.table: await one.left(connection, tenant) for one in TABLES if one.left is not None}
