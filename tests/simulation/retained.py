"""What must be true of threads that expire, are held and are erased: what had to go is gone, all else is there."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pipeline.stores.archive.segments import decode
from pipeline.stores.content.store import digests_in, folder
from pipeline.stores.database.keys import key_of, key_text
from pipeline.stores.threads.rows import record_rows
from tests.simulation.keeping import Keeping
from tests.simulation.loop import START
from topics import turn_record
from topics.thread_key import ThreadKey
from topics.turn_record import TurnRecord
from turnmill.errors import InvalidRecord

if TYPE_CHECKING:
    from tests.simulation.invariants import Found
    from tests.simulation.world import World

LATE: Final = 15_000  # ms after which an expired thread, and all that is left of it, has gone


def turns_assembled(world: World) -> list[TurnRecord]:
    """Every turn record that ever was on its topic."""
    return [turn_record.decode(entry.value) for log in world.broker.topic("turns") for entry in log.written]


def retained(found: Found) -> Iterator[str]:
    """See above."""
    if isinstance(found.world.database, Keeping):
        kept = Kept(found)
        for look in (kept.accounted, kept.expired, kept.erased, kept.held, kept.objects, kept.sums, kept.audited):
            yield from look()


class Kept:
    """What is left, by thread."""

    def __init__(self, found: Found) -> None:
        self.world = world = found.world
        self.store: Any = world.database
        self.now = world.broker.now
        self.rules = world.scenario.settings.kept_for
        self.turns = self.store.turns_of()  # stored ones
        self.letters = set()
        for entry in found.letters:
            try:
                record = turn_record.decode(entry.value)
            except InvalidRecord:
                continue
            self.letters.add((key_text(key_of(record)), record["turn_id"]))
        self.came: dict[ThreadKey, dict[str, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
        for log in world.broker.topic("turns"):
            for entry in log.written:
                rows = record_rows(turn_record.decode(entry.value))
                self.came[rows.thread][rows.record["turn_id"]].append((entry.timestamp, rows.turn["ended_at"]))
        self.marked = self.store.erased_now(self.came)
        self.archived: dict[ThreadKey, set[str]] = defaultdict(set)
        root = f"{world.scenario.settings.archive}/"
        for uri, data in world.objects.held.items():
            if uri.startswith(root):
                for row in decode(data, ["thread_id", "tenant", "turn_id"]).to_pylist():
                    self.archived[ThreadKey.of(row["thread_id"], row["tenant"])].add(row["turn_id"])

    def accounted(self) -> Iterator[str]:
        """Each turn that was assembled is stored, or something has rightly removed or refused it."""
        went = {(key_text(one.key), turn_id): one for one in self.store.expiries for turn_id in one.turns}
        for key, came in self.came.items():
            for turn_id in came if key not in self.marked else ():
                place = key_text(key), turn_id
                if turn_id in self.turns.get(place[0], {}) or place in self.letters or place in went:
                    continue
                refused = self.store.refused.get(place)
                if refused is None:
                    yield f"turn {turn_id} of {key.text} is nowhere, and nothing has removed it"
                elif refused.held or not self.rules.expired(key.tenant, refused.ended_at, refused.now):
                    yield f"turn {turn_id} of {key.text} was refused as too old, and is not: {refused}"

    def expired(self) -> Iterator[str]:
        """No thread went before its time, or while it was held; none is there after it."""
        for one in self.store.expiries:
            if not self.rules.expired(one.key.tenant, max(one.turns.values()), one.now):
                yield f"thread {one.key.text} has gone too early: {one}"
        again = Counter((one.key, *turn) for one in self.store.expiries for turn in one.turns.items())
        for (key, turn_id, _), count in again.items():
            if count > 1 and key not in self.store.ever_held:  # to which what had expired before may come back
                yield f"turn {turn_id} of {key.text} has expired {count} times: it came back"
        for key in self.came:
            turns = self.turns.get(key_text(key))
            if turns is None or key in self.store.held_since:
                continue
            if self.rules.expired(key.tenant, max(turns.values()), self.now - LATE):
                yield f"thread {key.text} is there, and has expired long ago: {turns}"
        for key, there in self.archived.items():
            if key in self.store.ever_held:  # and was archived meanwhile, whatever its age
                continue
            began = [self.rules.begin(key.tenant, one.now) or 0 for one in self.store.expiries if one.key == key]
            for turn_id in there if began else ():
                if max(ended for _, ended in self.came[key][turn_id]) < began[-1]:
                    yield f"the archive has turn {turn_id} of the expired thread {key.text}"

    def erased(self) -> Iterator[str]:
        """Of what was erased nothing is left, whatever came of it later."""
        for key in self.world.orders.erased - self.marked & self.world.orders.erased:
            if key in self.came:
                yield f"thread {key.text} was erased, and has no mark"
        for key in self.marked:
            left = self.store.rows_left(key_text(key))
            if left:
                yield f"thread {key.text} was erased, and is in {left}"
            if key in self.archived:
                yield f"thread {key.text} was erased, and is in the archive"
            if any(f"/{folder(key)}/" in uri for uri in self.world.objects.held):
                yield f"thread {key.text} was erased, and has large values"
        for key in self.came:
            if key.tenant in self.world.orders.tenants and key not in self.marked | set(self.store.held_since):
                yield f"thread {key.text} is of an erased tenant, and has no mark"

    def held(self) -> Iterator[str]:
        """A held thread has all that it had when it was held, and all that came later."""
        for key, (turns, since) in self.store.held_since.items():
            at = int(START * 1000) + since
            later = {one for one, came in self.came[key].items() if min(time for time, _ in came) > at}
            text = key_text(key)
            lost = {
                one for one in turns | later if one not in self.turns.get(text, {}) and (text, one) not in self.letters
            }
            if lost:
                yield f"thread {key.text} is held since {at}, and has lost {sorted(lost)}"
            if later - self.archived[key]:
                yield f"thread {key.text} is held, and {sorted(later - self.archived[key])} are not archived"

    def objects(self) -> Iterator[str]:
        """A stored turn has its large values; an expired thread has no others."""
        used = defaultdict(set)
        for record in self.store.records():
            if record["turn"] is not None:
                used[key_of(record)] |= digests_in(record["turn"])
        names = {tuple(uri.split("/")[-2:]): uri for uri in self.world.objects.held}
        for key, digests in used.items():
            for digest in digests:
                if (folder(key), digest) not in names:
                    yield f"a turn of {key.text} refers to {digest}, which is not there"
        gone = {one.key for one in self.store.expiries} | {key for key in self.came if self._all_refused(key)}
        for key in gone - self.marked:
            left = {digest for place, digest in names if place == folder(key)} - used[key]
            fresh = {d for d in left if self.world.objects.written[names[folder(key), d]] > self.now - LATE}
            if left - fresh:
                yield f"expired thread {key.text} has left large values: {sorted(left - fresh)}"

    def _all_refused(self, key: ThreadKey) -> bool:
        return all((key_text(key), turn_id) in self.store.refused for turn_id in self.came[key])

    def sums(self) -> Iterator[str]:
        """What has expired is in the sums still, once, unless its tenant was erased."""
        there, right = self.store.sums_of_expired(), +self.store.used
        if there != right:
            yield f"the sums of expired turns are {dict(there)} where {dict(right)} is right"

    def audited(self) -> Iterator[str]:
        """The audit log names each thread that was removed."""
        lines = self.world.orders.audit
        for one in self.store.expiries:
            if not any(one.key.text in line and "expired thread" in line for line in lines):
                yield f"thread {one.key.text} has expired without a line in the audit log"
        for key in self.marked & self.world.orders.erased:
            if not any(key.text in line and "delet" in line for line in lines):
                yield f"thread {key.text} was deleted without a line in the audit log"
