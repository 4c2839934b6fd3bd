"""All tables of the store, and how rows follow from turns in them: written, erased and checked, how long data may stay.

A turn is written, and a thread or a tenant is erased, by going through BOOKS: a new table is a row here. A test holds
them against the schema. docs/retention.md shows them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, and_, exists, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from pipeline.stores.accounts.audit import about_tenant, forget_audit
from pipeline.stores.accounts.tokens import end_links, revoke_tokens
from pipeline.stores.accounts.views import forget_views
from pipeline.stores.database import schema as s
from pipeline.stores.outbound.deliveries import drop_webhooks
from pipeline.stores.outbound.notices import forget_notices, of_notice
from pipeline.stores.search.write import forget_words, word_calls
from pipeline.stores.threads import agents_and_requests
from pipeline.stores.threads.agents_and_requests import OF_AGENTS, OF_LABELS
from pipeline.stores.threads.datasets import forget_datasets, leave_datasets
from pipeline.stores.threads.feedback import delete_feedback, forget_feedback
from pipeline.stores.threads.list_statements import of_tenant
from pipeline.stores.threads.statements import delete_of_turns, values_of_turns
from pipeline.stores.threads.table_that_follows import Book, Count, TablePlace
from pipeline.stores.usage.alerts import forget_alerts
from pipeline.stores.usage.budgets import forget_deleted_usage
from pipeline.stores.usage.rows import usage_calls
from pipeline.stores.usage.summing import forget_names, forget_sums, keep_expired, names_of, sums_of
from pipeline.turns.column_text import column_text
from turnmill.labels import KEYS

FOLLOWS: Final = "with its thread, by foreign keys"
NOW: Final = "nothing"
FOR_GOOD: Final = "until you remove it: without it a replay would bring the thread back"
_NAMED: Final = ("thread_key", "name")


def _rows_of(column: Column[Any], condition: Callable[[str], ColumnElement[bool]]) -> Count:
    async def count(connection: AsyncConnection, tenant: str) -> int:
        query = select(func.count()).select_from(column.table).where(condition(tenant))
        return int(await connection.scalar(query) or 0)

    return count


def _tenants(column: Column[Any]) -> Count:
    """Return a count of rows with the tenant's name in this column, "" for none."""
    return _rows_of(column, lambda tenant: column == (column_text(tenant) or ""))


def _owned(column: Column[Any], owner: Callable[[Any], str | None]) -> Count:
    """Return a count of rows in a small table, in Python: SQL can't compare some tenants' names in JSON."""

    async def count(connection: AsyncConnection, tenant: str) -> int:
        return sum(owner(value) == tenant for value in await connection.scalars(select(column)))

    return count


def _requests_of(tenant: str) -> Any:
    """Return a query of a tenant's ids in `requests`."""
    return select(s.requests.c.id).where(s.requests.c.tenant == (column_text(tenant) or ""))


# In the order in which rows that turns share are locked.
BOOKS: Final = (
    Book(
        (
            TablePlace(
                "threads",
                "in the transaction of the deletion",
                NOW,
                ("thread_id", "tenant", "name", "external_id", "title", "prompt", "model", "asked"),
                left=_rows_of(s.threads.c.id, lambda tenant: and_(*of_tenant(tenant))),
            ),
            TablePlace(
                "turns",
                FOLLOWS,
                NOW,
                ("turn_id", "run_id", "digest", "external_id", "title", "prompt", "asked", "record"),
            ),
        )
    ),
    Book(
        (TablePlace("links", FOLLOWS, NOW, ("source", "target", "relation")),),
        calls=agents_and_requests.link_calls,
        replaced=agents_and_requests.delete_links,
    ),
    Book(  # before `usage`, which looks them up
        (
            TablePlace("thread_labels", FOLLOWS, NOW),
            TablePlace(
                "labels",
                "with the last thread that has it",
                NOW,
                ("digest", "tenant", "label"),
                ("kind",),
                left=_tenants(s.labels.c.tenant),
            ),
        ),
        **OF_LABELS.in_book(),
    ),
    Book(
        (
            TablePlace("usage", FOLLOWS, NOW, ("finish_reason",)),
            TablePlace(
                "usage_names",
                "with the last usage, sum or change that has it",
                "until the store role sums up, some seconds; of threads that have expired, while their sums are kept",
                (
                    *("digest", "tenant", "model", "provider", "agent_id", "prompt", "origin", "service_tier"),
                    *("purpose", *KEYS),
                ),
                left=_rows_of(s.usage_names.c.id, lambda tenant: s.usage_names.c.id.in_(names_of(tenant))),
            ),
            TablePlace(
                "usage_tags",
                "with its row of `usage_names`, by foreign keys",
                "as that row",
                ("tag",),
                left=_rows_of(s.usage_tags.c.names, lambda tenant: s.usage_tags.c.names.in_(names_of(tenant))),
            ),
            TablePlace("price_sources", "nothing of anybody", NOW, ours=("source",)),
        ),
        calls=usage_calls,
        replaced=partial(delete_of_turns, column=s.usage.c.names, table=s.usage),
        deleted=partial(values_of_turns, column=s.usage.c.names),
        unused=forget_names,
    ),
    Book(
        (
            TablePlace("thread_agents", FOLLOWS, NOW),
            TablePlace(
                "agents",
                "with the last thread that has it",
                NOW,
                ("digest", "agent_id", "agent_name"),
                left=_rows_of(s.agents.c.id, lambda _: ~OF_AGENTS.used),
            ),
        ),
        **OF_AGENTS.in_book(),
    ),
    Book(
        (
            TablePlace("turn_requests", FOLLOWS, NOW),
            TablePlace(
                "requests",
                "with the last turn that names it",
                NOW,
                ("digest", "sha256", "tenant", "body"),
                left=_rows_of(s.requests.c.id, lambda tenant: s.requests.c.id.in_(_requests_of(tenant))),
            ),
            TablePlace(
                "request_members",
                "with its request, by foreign keys",
                NOW,
                ("name",),
                left=_rows_of(
                    s.request_members.c.request, lambda tenant: s.request_members.c.request.in_(_requests_of(tenant))
                ),
            ),
            TablePlace(
                "request_values",
                "with the last request that has it",
                NOW,
                ("digest", "tenant", "value"),
                left=_tenants(s.request_values.c.tenant),
            ),
        ),
        calls=agents_and_requests.request_calls,
        replaced=partial(delete_of_turns, column=s.turn_requests.c.request, table=s.turn_requests),
        deleted=partial(values_of_turns, column=s.turn_requests.c.request),
        unused=agents_and_requests.forget_requests,
    ),
    Book(
        (TablePlace("turn_words", f"{FOLLOWS}; SQLite's index of words by a trigger", NOW, ("tenant", "words")),),
        calls=word_calls,
        replaced=forget_words,
    ),
    Book(
        (
            TablePlace("erased", "never: it is the mark", FOR_GOOD, _NAMED),
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
        )
    ),
    Book(
        (
            TablePlace(
                "webhooks",
                "`tenants erase` deletes a tenant's, with their secrets",
                NOW,
                ("id", "tenant", "url", "events", "secrets"),
                ("form",),
                left=_owned(s.webhooks.c.tenant, lambda tenant: tenant),
            ),
            TablePlace(
                "webhook_deliveries",
                "in the transaction that marks the thread; with their webhook",
                "turns: nothing; a deletion's id and tenant until it is delivered, at most TURNMILL_WEBHOOKS_WITHIN",
                ("webhook", "id", "lane", "thread_key", "payload", "place"),
                left=_rows_of(
                    s.webhook_deliveries.c.seq,
                    lambda _: exists().where(s.erased.c.thread_key == s.webhook_deliveries.c.thread_key),
                ),
            ),
        ),
        forget_tenant=drop_webhooks,
    ),
    Book(
        (
            TablePlace(
                "tokens",
                "`tenants erase` deletes a tenant's; links with their thread",
                "until they are revoked; of people who sign in, until they sign out, "
                "or the next one signs in after it expired; links until they end, or the next is made after",
                (
                    *("id", "digest", "old", "name", "tenant", "scopes", "addresses", "made_by", "session"),
                    *("id_token", "thread", "maker"),
                ),
                left=_owned(s.tokens.c.tenant, lambda tenant: tenant),
            ),
        ),
        deleted=end_links,
        forget_tenant=revoke_tokens,
    ),
    Book(
        (
            TablePlace(
                "feedback",
                "with its thread; `tenants erase` deletes a tenant's",
                "nothing; of a thread that was never stored, until its tenant is erased",
                ("thread_id", "tenant", "id", "name", "number", "record"),
                left=_tenants(s.feedback.c.tenant),
            ),
        ),
        deleted=delete_feedback,
        forget_tenant=forget_feedback,
    ),
    Book(
        (
            TablePlace(
                "notices",
                "`tenants erase` deletes a tenant's, but for those that tell of deletions and changes",
                "a deletion's id and tenant, changes of `tokens` to `dataset_turns` until the topic has them, seconds",
                ("id", "record"),
                left=_owned(s.notices.c.record, of_notice),
            ),
        ),
        forget_tenant=forget_notices,
    ),
    Book(
        (
            TablePlace(
                "audit",
                "`tenants erase` deletes a tenant's, but for those that tell of erasures",
                "ids, and who acted, for TURNMILL_AUDIT_RETENTION; of erasures also those of erased tenants",
                ("who", "token", "address", "action", "subject", "tenant", "outcome"),
                left=_rows_of(s.audit.c.id, about_tenant),
            ),
        ),
        forget_tenant=forget_audit,
    ),
    Book(
        (
            TablePlace(
                "views",
                "`tenants erase` deletes a tenant's",
                "until they are deleted",
                ("id", "owner", "tenant", "name", "address", "identity"),
                left=_rows_of(s.views.c.id, lambda tenant: s.views.c.tenant == column_text(tenant)),
            ),
        ),
        forget_tenant=forget_views,
    ),
    Book(
        (
            TablePlace(
                "dataset_turns",
                "with its thread; `tenants erase` deletes a tenant's",
                NOW,
                ("id", "tenant", "dataset", "thread_id", "turn_id"),
                left=_tenants(s.dataset_turns.c.tenant),
            ),
        ),
        deleted=leave_datasets,
        forget_tenant=forget_datasets,
    ),
    Book(
        (
            TablePlace(
                "usage_sums",
                "the store role takes what was deleted out of them; `tenants erase` also what has expired",
                "some seconds; of threads that have expired, until the tenant is erased",
                ours=("ttft", "duration"),
                left=_rows_of(s.usage_sums.c.span, sums_of),
            ),
            TablePlace(
                "usage_changes",
                "the store role takes them up",
                "some seconds",
                left=_rows_of(s.usage_changes.c.id, lambda tenant: s.usage_changes.c.names.in_(names_of(tenant))),
            ),
        ),
        deleted=keep_expired,
        forget_tenant=forget_sums,
    ),
    Book(
        (
            TablePlace(
                "deleted_usage",
                "with the hour, day or month of its budget; `tenants erase` deletes a tenant's",
                "numbers by tenant, at most a month",
                ("tenant",),
                ("scope",),
                left=_tenants(s.deleted_usage.c.tenant),
            ),
        ),
        forget_tenant=forget_deleted_usage,
    ),
    Book(
        (
            TablePlace(
                "alerts",
                "when it ends; `tenants erase` deletes a tenant's",
                "names of users, agents and so on that an alert is about, until it ends",
                ("alert", "group", "data"),
                left=_owned(s.alerts.c.data, lambda data: data["of"].get("tenant")),
            ),
        ),
        forget_tenant=forget_alerts,
    ),
    Book(
        (
            TablePlace("usage_state", "nothing of anybody", NOW),
            TablePlace("expiry_state", "nothing of anybody", NOW, ours=("holder",)),
            TablePlace("compatibility", "nothing of anybody", NOW, ours=("oldest",)),
            TablePlace("dictionaries", "nothing of anybody: it is made of examples", NOW, ours=("content",)),
        )
    ),
)
