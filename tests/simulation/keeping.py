"""The real thread store where threads expire, are held and are erased: it notes what each call has removed, and why."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pipeline.policies.retention import FOREVER, Retention
from pipeline.stores.database.keys import key_text, turn_text
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.expiry import Ripe, expire
from pipeline.stores.keeping.holding import hold_thread, release_thread
from pipeline.stores.keeping.tenant_erasure import threads_of_tenant
from pipeline.stores.threads.reading import erased_among
from pipeline.stores.threads.rows import record_rows
from pipeline.stores.threads.summaries import WriteResult
from pipeline.stores.usage.summing import forget_sums
from pipeline.stores.usage.tallies import QUARTER
from tests.simulation.sqlite import Sqlite, own_files, result_of
from tests.support.fake_stores import store_functions
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord

Place = tuple[str, str]  # a thread's key as text, and a turn's id


class Gone(NamedTuple):
    """A thread that has expired: when, its turns with the ends of their records, and the audit lines of that moment."""

    key: ThreadKey
    now: int
    turns: Mapping[str, int]


class Refused(NamedTuple):
    """A record that the store has not taken because of its age."""

    ended_at: int
    now: int
    held: bool


# The text of a key, as `key_text` gives it; ids here have no character that it escapes.
KEY: Final = "CASE threads.tenant WHEN '' THEN thread_id ELSE thread_id || '/' || threads.tenant END"


@dataclass(slots=True)
class Keeping(Sqlite):
    """`held_since`: of each held thread, the turns that it had when it was held, and the place in time."""

    expiries: list[Gone] = field(default_factory=list)
    refused: dict[Place, Refused] = field(default_factory=dict)
    held_since: dict[ThreadKey, tuple[frozenset[str], int]] = field(default_factory=dict)
    ever_held: set[ThreadKey] = field(default_factory=set)
    used: Counter[str] = field(default_factory=Counter)  # tenant -> requests and output tokens of what has expired

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        """Any other call of the store, with faults before and after it."""
        if name.startswith("_"):
            raise AttributeError(name)

        async def call(*args: Any, **options: Any) -> Any:
            method = getattr(ThreadStore, name, None)
            return await self._call(method or store_functions()[name], *args, **options)

        return call

    async def write_turns(
        self,
        records: Sequence[TurnRecord],
        retention: Retention = FOREVER,
        now: int = 0,
        values: Sequence[bytes | None] = (),
    ) -> WriteResult:
        self.known = {place: said for place, said in self._said().items() if place in self.known}
        result = await Sqlite.write_turns(self, records, retention, now, values)
        for place in result.expired:
            rows = record_rows(records[place])
            self.refused[key_text(rows.thread), rows.record["turn_id"]] = Refused(
                rows.turn["ended_at"], now, rows.thread in self.held_since
            )
        return result

    async def expire(self, keys: Iterable[ThreadKey], retention: Retention, now: int) -> list[Ripe]:
        await self.faults.before("the store")
        turns, used = self.turns_of(), self._used() if self._keeps_sums() else {}
        found: list[Ripe] = result_of(expire(own_files().store, keys, retention, now))
        for one in found:
            self.expiries.append(Gone(one.key, now, turns[key_text(one.key)]))
            self.used.update({one.key.tenant or "": used.get(key_text(one.key), 0)})
        await self.faults.after("the store")
        return found

    async def hold_thread(self, key: ThreadKey) -> bool:
        await self.faults.before("the store")
        new = result_of(hold_thread(own_files().store, key))
        self.ever_held.add(key)
        if new:
            self.held_since[key] = frozenset(self.turns_of().get(key_text(key), {})), int(self.clock() * 1000)
        await self.faults.after("the store")
        return new

    async def release_thread(self, key: ThreadKey) -> bool:
        await self.faults.before("the store")
        there = result_of(release_thread(own_files().store, key))
        self.held_since.pop(key, None)
        await self.faults.after("the store")
        return there

    async def forget_sums(self, tenant: str) -> None:
        await self.faults.before("the store")
        result_of(forget_sums(own_files().store, tenant))
        self.used.pop(tenant, None)
        await self.faults.after("the store")

    async def erased_among(self, keys: Iterable[ThreadKey]) -> set[ThreadKey]:
        return await self._call(erased_among, keys)  # type: ignore[no-any-return]

    async def threads_of_tenant(self, tenant: str) -> AsyncIterator[ThreadKey]:
        for key in await self._call(_listed, tenant):
            yield key

    # ---- what there is now, for those who look at it

    def turns_of(self) -> dict[str, dict[str, int]]:
        """Of each stored thread its turns, and when their records have ended."""
        found: dict[str, dict[str, int]] = {}
        query = f"SELECT {KEY}, turn_id, ended_at FROM turns JOIN threads ON threads.id = turns.thread"
        for text, turn_id, ended_at in self._sql(query):
            found.setdefault(text, {})[turn_text(turn_id)] = ended_at
        return found

    def rows_left(self, text: str) -> list[str]:
        """The tables that have something of a thread."""
        if self._sql(f"SELECT 1 FROM threads WHERE {KEY} = ?", text):
            return ["threads"]
        orphans = {
            "turns": "SELECT 1 FROM turns WHERE thread NOT IN (SELECT id FROM threads)",
            "thread_agents": "SELECT 1 FROM thread_agents WHERE thread NOT IN (SELECT id FROM threads)",
            "usage": "SELECT 1 FROM usage WHERE turn NOT IN (SELECT id FROM turns)",
            "links": "SELECT 1 FROM links WHERE turn NOT IN (SELECT id FROM turns)",
            "turn_words": "SELECT 1 FROM turn_words WHERE id NOT IN (SELECT id FROM turns)",
        }
        return [table for table, query in orphans.items() if self._sql(query)]

    def erased_now(self, keys: Iterable[ThreadKey]) -> set[ThreadKey]:
        """Those that are marked as erased."""
        return result_of(erased_among(own_files().store, keys))

    def sums_of_expired(self) -> Counter[str]:
        """Tenant -> requests and output tokens that the sums of expired turns hold."""
        query = (
            "SELECT coalesce(tenant, ''), sum(requests + coalesce(output_tokens, 0)) FROM usage_sums JOIN usage_names"
        )
        query += " ON usage_names.id = usage_sums.names WHERE expired AND span = ? GROUP BY 1"
        return Counter(dict(self._sql(query, QUARTER)))

    def _used(self) -> dict[str, int]:
        query = f"SELECT {KEY}, sum(requests + coalesce(output_tokens, 0)) FROM usage JOIN threads"
        return dict(self._sql(f"{query} ON threads.id = usage.thread GROUP BY 1"))

    def _keeps_sums(self) -> bool:
        return bool(self._sql("SELECT kept FROM usage_state")[0][0])

    def _sql(self, query: str, *values: Any) -> list[Any]:
        return own_files().used.execute(query, values).fetchall() if self.opened else []

    async def _call(self, work: Callable[..., Any], *args: Any, **options: Any) -> Any:
        await self.faults.before("the store")
        result = result_of(work(own_files().store, *args, **options))
        await self.faults.after("the store")
        return result


async def _listed(store: ThreadStore, tenant: str) -> list[ThreadKey]:
    return [key async for key in threads_of_tenant(store, tenant)]
