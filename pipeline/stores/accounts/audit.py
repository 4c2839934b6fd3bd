"""The audit table: who changed or read something. Entries are added, read in pages, and deleted by age.

Processes add them in the background (`AuditTrail`): no request waits for them, and losses are counted.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from heapq import nsmallest
from itertools import count
from operator import itemgetter
from typing import Final
from uuid import uuid4

from sqlalchemy import ColumnElement, delete, insert, select
from sqlalchemy import tuple_ as row_of

from pipeline.observability.audit import ERASURES, REFUSED, REMOVED, Entry
from pipeline.policies.pools import AUDITED, SEEN
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.keys import decode_cursor, encode_cursor
from pipeline.stores.database.schema import audit
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.outbound.notices import add
from pipeline.turns.column_text import column_text
from topics.notice import AUDIT_RECORDED, VERSION, NoticeRecord
from turnmill.clock import now_ms
from turnmill.ending import END_TIMEOUT, ended
from turnmill.remembered import Remembered

DELETED_BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """The filter of audit entries, None for any; `what`: an action or its first word; `tenant`: "" for none."""

    tenant: str | None = None
    who: str | None = None
    what: str | None = None
    since: int | None = None
    until: int | None = None


async def add_audit(store: ThreadStore, entries: Sequence[Entry], *, notify: bool) -> None:
    """Store entries; with `notify`, also leave a notice of each for webhooks."""
    rows = [asdict(entry) for entry in entries]
    texts = [{name: column_text(value) for name, value in row.items() if type(value) is str} for row in rows]
    async with store.writing() as connection:
        await connection.execute(insert(audit), [row | some for row, some in zip(rows, texts, strict=True)])
        if notify:
            await add(connection, [_notice(entry) for entry in entries])


async def audit_page(
    store: ThreadStore, wanted: AuditQuery, limit: int, cursor: str | None
) -> tuple[list[Entry], str | None]:
    """Return entries, the newest first, and the cursor of the next page. Raises CallerError for a bad cursor."""
    query = select(audit).where(*_conditions(wanted)).order_by(audit.c.at.desc(), audit.c.id.desc())
    if cursor is not None:
        query = query.where(row_of(audit.c.at, audit.c.id) < row_of(*decode_cursor(cursor)))
    rows = await store.rows(query.limit(limit + 1))
    more = encode_cursor(rows[limit - 1].at, rows[limit - 1].id) if len(rows) > limit else None
    return [Entry(*row[1:]) for row in rows[:limit]], more


async def audit_from(store: ThreadStore, since: int) -> int | None:
    """Return the time of the first entry at or after `since` (both in epoch ms); None if there is none."""
    async with store.reading() as connection:
        return await connection.scalar(select(audit.c.at).where(audit.c.at >= since).order_by(audit.c.at).limit(1))


async def audit_between(store: ThreadStore, since: int, until: int) -> list[Entry]:
    """Return the entries of a short period, `until` excluded, oldest first."""
    query = select(audit).where(audit.c.at >= since, audit.c.at < until).order_by(audit.c.at, audit.c.id)
    return [Entry(*row[1:]) for row in await store.rows(query)]


async def expire_audit(store: ThreadStore, before: int) -> int:
    """Delete a batch of entries older than `before` (epoch ms); return how many: 0 once there are none."""
    old = (
        select(audit.c.id)
        .where(audit.c.at < before, audit.c.action != REMOVED)
        .order_by(audit.c.at)
        .limit(DELETED_BATCH)
    )
    async with store.writing() as connection:
        ids = (await connection.scalars(old)).all()  # as values: Postgres would read the table for a subquery
        return (await connection.execute(delete(audit).where(audit.c.id.in_(ids)))).rowcount if ids else 0


async def removed_records(store: ThreadStore, topic: str) -> int:
    """Return how many records of a topic were removed before they were read, by entries TOPIC/PARTITION@FROM-TO."""
    of_topic = audit.c.subject.startswith(f"{topic}/", autoescape=True)
    query = select(audit.c.subject).where(audit.c.action == REMOVED, of_topic)
    stretches = {tuple(map(int, re.split("[@-]", row.subject[len(topic) + 1 :]))) for row in await store.rows(query)}
    total, reached = 0, dict[int, int]()
    for partition, first, last in sorted(stretches):  # several roles, or a worker twice, may have noted the same
        begin = max(first, reached.get(partition, 0))
        total += max(0, last + 1 - begin)
        reached[partition] = max(last + 1, begin)
    return total


async def forget_audit(store: ThreadStore, tenant: str) -> None:
    """Delete the entries about a tenant, "" for none, except those of erasures."""
    await store.change(delete(audit).where(about_tenant(tenant)))


def about_tenant(tenant: str) -> ColumnElement[bool]:
    """Return the condition of the entries that are deleted with a tenant."""
    return (audit.c.tenant == column_text(tenant)) & audit.c.action.not_in(ERASURES)


def _conditions(wanted: AuditQuery) -> list[ColumnElement[bool]]:
    conditions = [
        audit.c[name] == column_text(value)
        for name in ("tenant", "who")
        if (value := getattr(wanted, name)) is not None
    ]
    if wanted.what is not None:
        what = column_text(wanted.what) or ""
        conditions.append((audit.c.action == what) | audit.c.action.startswith(f"{what}.", autoescape=True))
    if wanted.since is not None:
        conditions.append(audit.c.at >= wanted.since)
    if wanted.until is not None:
        conditions.append(audit.c.at < wanted.until)
    return conditions


def _notice(entry: Entry) -> NoticeRecord:
    fields = asdict(entry)
    at, tenant = fields.pop("at"), fields.pop("tenant")
    record: NoticeRecord = {"v": VERSION, "id": str(uuid4()), "type": AUDIT_RECORDED, "at": at, "data": fields}
    if tenant is not None:
        record["tenant"] = tenant
    return record


WRITE_INTERVAL: Final = 0.5  # seconds between two writes
BATCH_SIZE: Final = 500
MINUTE_MS: Final = 60_000
MAX_COUNTED: Final = 1_000  # different refusals and reads of a minute and a tenant: of more, an entry has the number
MORE: Final = "refused.more"

log = logging.getLogger(__name__)


class AuditTrail:
    """Buffers entries of a process. `notify`: webhooks get them, too; `lost` is called with how many are dropped."""

    def __init__(
        self, store: Callable[[], Awaitable[ThreadStore]], lost: Callable[[int], None], *, notify: bool
    ) -> None:
        self._store = store
        self._lost = lost
        self._notify = notify
        self._waiting: Remembered[int, Entry] = Remembered(AUDITED)
        self._numbers = count()
        self._minute = 0
        # What each tenant's callers did in this minute, under MORE how often more; None: those whose token is unknown.
        self._seen: Remembered[Hashable, int] = Remembered(SEEN)
        self._flushing = asyncio.Lock()
        self._closing = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None

    def keep(self, entry: Entry) -> None:
        """Buffer an entry; repeats of the same refusal within a minute are left out."""
        once = entry.who, entry.token, entry.address, entry.action, entry.subject
        is_refusal = entry.outcome == REFUSED
        if is_refusal and not self.is_new(entry.at, (entry.tenant or "") if entry.who else None, once):
            return
        # Refusals leave room for what was done: anybody can cause them.
        room = self._waiting.size // (2 if is_refusal else 1)
        if self._waiting.fits(entry.tenant, number := next(self._numbers), entry, room):
            self._waiting.put(entry.tenant, number, entry)
        else:
            self._lost(1)

    def is_new(self, at: int, tenant: str | None, what: Hashable) -> bool:
        """Return True if this was not seen in the minute of `at` (epoch ms) yet. `tenant` None: of an unknown caller.

        What is too much for a minute is counted.
        """
        if at // MINUTE_MS != self._minute:
            self._count_more()
            self._minute, self._seen = at // MINUTE_MS, Remembered(SEEN)
        seen = self._seen
        if seen.get(tenant, what):
            return False
        if seen.count(tenant) >= MAX_COUNTED or not seen.fits(tenant, what, 1):
            seen.put(tenant, MORE, 1 + (seen.get(tenant, MORE) or 0))
            return False
        seen.put(tenant, what, 1)
        return True

    def _count_more(self) -> None:
        """Buffer an entry for each tenant with more refusals and reads than MAX_COUNTED in the last minute."""
        at = (self._minute + 1) * MINUTE_MS - 1
        for tenant in self._seen.scopes:
            if number := self._seen.pop(tenant, MORE):
                more = Entry(at, "", "", "", MORE, str(number), tenant, REFUSED)
                self._waiting.put(tenant, next(self._numbers), more)

    def start(self) -> None:
        """Begin to write in the background."""
        self._writing = asyncio.create_task(self._go_on())

    async def close(self) -> None:
        """Write the buffered entries; those that can't be written are lost."""
        self._closing.set()
        self._count_more()
        if self._writing is not None:
            # A write that is cancelled may be committed already, and its entries would be written a second time.
            await asyncio.wait([self._writing], timeout=END_TIMEOUT)
            await ended(self._writing)
        try:
            await self.flush()
        except StoreError as error:
            log.warning("%d entries of the audit log are not in the store: %s", len(self._waiting), error)
            self._lost(len(self._waiting))

    async def flush(self) -> None:
        """Write the buffered entries. Raises StoreError; the entries then stay buffered."""
        if now_ms() // MINUTE_MS != self._minute:
            self._count_more()
        async with self._flushing:
            while self._waiting:
                some = nsmallest(BATCH_SIZE, self._waiting.items(), key=itemgetter(1))
                await add_audit(await self._store(), [entry for _, _, entry in some], notify=self._notify)
                for tenant, number, _ in some:
                    self._waiting.pop(tenant, number)

    async def written(self) -> None:
        """Return once the buffered entries are written, so that they outlast this process; soon, if they can't be."""
        await asyncio.wait([asyncio.create_task(self._try())], timeout=WRITE_INTERVAL)

    async def _try(self) -> None:
        with suppress(StoreError):  # whatever else needs the store reports it
            await self.flush()

    async def _go_on(self) -> None:
        while not self._closing.is_set():
            await self._try()
            with suppress(TimeoutError):
                async with asyncio.timeout(WRITE_INTERVAL):
                    await self._closing.wait()
