"""The tables. `turns` is the truth; all others follow from it, and are rewritten with it in one transaction.

A row of `turns` is one turn record: the turn in `document`, the rest in `facts`, both as JSON text exactly as they
came: on Postgres the type is `json`, not `jsonb`, which would lose the order of keys and refuse NUL and
lone surrogates. Everything that queries filter or sum is in columns, so none looks into a document. Times are epoch ms.

Whose rows they are is in the column `thread_id`: the text of a ThreadKey, `ID` or `ID/TENANT`. In the code it is called
`thread_key`, as it is no thread's id. An older version wrote the id alone there (`pipeline.stores.keys`).
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    and_,
    func,
    literal_column,
    or_,
)
from sqlalchemy.dialects.postgresql import TSVECTOR

metadata = MetaData()

TOKENS = ("input_tokens", "output_tokens", "thinking_tokens", "cache_read_tokens", "cache_write_tokens", "total_tokens")
COUNTED = ("requests", "turns", "interrupted", "errors", *TOKENS, "cost_nano_usd")
SUMMED = (*COUNTED, "unpriced")  # the columns of a sum
CHANGED = ("at", "tenant", "model", "provider", "agent_id", *COUNTED, "ttft_ms", "duration_ms")

# Compared byte by byte: the same order as in Python and SQLite, whatever the database's locale.
Name = Text().with_variant(Text(collation="C"), "postgresql")
Document = JSON(none_as_null=True)

threads = Table(
    "threads",
    metadata,
    Column("thread_id", Name, key="thread_key", primary_key=True),
    Column("external_id", Name),
    Column("tenant", Name),
    Column("title", Text),
    Column("prompt", Text),  # how the first user turn begins
    Column("status", Text),  # of the last turn: complete | interrupted
    Column("turns", Integer, nullable=False, server_default="0"),
    Column("total_tokens", BigInteger, nullable=False, server_default="0"),
    Column("created_at", BigInteger, nullable=False, server_default="0"),
    Column("updated_at", BigInteger, nullable=False, server_default="0"),
    Column("asked", Document),  # by the newest turn (`pipeline.turns.pending`); null: nothing, or not known
    Index("threads_updated", "updated_at", "thread_key"),
    Index("threads_tenant_updated", "tenant", "updated_at", "thread_key"),
    Index("threads_external", "external_id"),
)
# A row of a version that knew ids only, with a tenant's turns: it is to be moved. Literal, so that the index is used.
OLDER = and_(threads.c.tenant.is_not(None), threads.c.thread_key.not_like(literal_column("'%/%'")))
Index("threads_older", threads.c.thread_key, sqlite_where=OLDER, postgresql_where=OLDER)
WAITING = threads.c.asked.is_not(None)
for _name, _columns in (("threads_waiting", ()), ("threads_tenant_waiting", (threads.c.tenant,))):
    _order = (*_columns, threads.c.updated_at, threads.c.thread_key)
    Index(_name, *_order, sqlite_where=WAITING, postgresql_where=WAITING)

turns = Table(
    "turns",
    metadata,
    Column("turn_id", Name),
    Column("thread_id", Name, ForeignKey("threads.thread_key", ondelete="CASCADE"), key="thread_key"),
    Column("run_id", Name, nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("role", Integer, nullable=False),  # 0 user, 1 agent, 2 a record of facts, without turn
    Column("agent_id", Name, nullable=False),
    Column("tenant", Name),
    Column("dialect", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("interruption", Text),  # its reason; null where the turn is complete
    Column("revision", BigInteger, nullable=False),
    Column("digest", Name, nullable=False),  # of the whole record: writing the same one again changes nothing
    Column("hash", Text),  # canonical
    Column("events", BigInteger, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger, nullable=False),
    Column("external_id", Name),
    Column("title", Text),
    Column("prompt", Text),
    Column("facts", Document, nullable=False),
    Column("document", Document),
    Column("asked", Document),  # what it waits for; null: nothing, or an older version wrote the row
    Column("searched", Text),  # the beginning of the digest that the words in `said` are of
    Column("said", BigInteger),  # the id of its row there; null: no words, or none yet
    PrimaryKeyConstraint("turn_id", "thread_key"),
    Index("turns_said", "said", unique=True),
    Index("turns_order", "thread_key", "started_at", "role", "run_id", "ordinal", "turn_id"),
)
DIGEST_START = func.substr(turns.c.digest, literal_column("1"), literal_column("16"))
# A turn that an older version has written, or whose words nobody has looked at. Literal, as OLDER.
UNSEARCHED = or_(turns.c.searched.is_(None), turns.c.searched != DIGEST_START)
Index("turns_unsearched", turns.c.started_at, sqlite_where=UNSEARCHED, postgresql_where=UNSEARCHED)


def _child(name: str, key: str, *rest: Column[object] | Index) -> Table:
    """A table whose rows belong to a turn and go with it."""
    return Table(
        name,
        metadata,
        Column("turn_id", Name),
        Column("thread_id", Name, key="thread_key"),
        *rest,
        PrimaryKeyConstraint("turn_id", "thread_key", key),
        ForeignKeyConstraint(["turn_id", "thread_key"], ["turns.turn_id", "turns.thread_key"], ondelete="CASCADE"),
    )


agents = _child(
    "agents",
    "agent_id",
    Column("agent_id", Name),
    Column("agent_name", Text),
    Index("agents_agent", "agent_id", "thread_key"),
    Index("agents_thread", "thread_key"),
)

links = _child(
    "links",
    "position",
    Column("position", Integer),
    Column("source", Name, nullable=False),  # where the link starts; a key, as `thread_key`
    Column("target", Name, nullable=False),
    Column("relation", Text, nullable=False),
    Index("links_source", "source"),
    Index("links_target", "target"),
)

usage = _child(
    "usage",
    "position",
    Column("position", Integer),
    Column("at", BigInteger, nullable=False),
    Column("agent_id", Name, nullable=False),
    Column("tenant", Name),
    Column("model", Name),
    Column("provider", Name),
    Column("finish_reason", Name),
    Column("requests", Integer, nullable=False),
    Column("turns", Integer, nullable=False),  # 1 on the row of the turn's last response, 0 on all others
    Column("interrupted", Integer, nullable=False),  # likewise
    Column("errors", Integer, nullable=False),  # likewise: those that were interrupted by an error
    Column("input_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("thinking_tokens", BigInteger),
    Column("cache_read_tokens", BigInteger),
    Column("cache_write_tokens", BigInteger),
    Column("total_tokens", BigInteger),
    Column("cost_nano_usd", BigInteger),  # an integer, so that sums are exact
    Column("price_source", Text),  # of the cost: `stream`, or the price list and its release
    Column("ttft_ms", BigInteger),
    Column("duration_ms", BigInteger),
    Index("usage_at", "at"),
    Index("usage_tenant_at", "tenant", "at"),
    Index("usage_thread", "thread_key"),
)

# The sums of usage by quarter of an hour, hour, day and week (`pipeline.stores.usage_sums`). Whose they are is in
# `usage_names`: once, however many sums it has.
usage_names = Table(
    "usage_names",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("digest", Text, nullable=False, unique=True),  # of the four names, as they may be null, and long
    Column("tenant", Name),
    Column("model", Name),
    Column("provider", Name),
    Column("agent_id", Name, nullable=False),
)

usage_sums = Table(
    "usage_sums",
    metadata,
    Column("span", Integer),  # in ms
    Column("start", BigInteger),
    Column("expired", Boolean),  # of turns that went because of their age: no row of `usage` is behind it any more
    Column("names", Integer, ForeignKey("usage_names.id")),
    *(Column(name, BigInteger, nullable=False) for name in SUMMED),
    Column("ttft", Text, nullable=False),  # a histogram (`pipeline.stores.histogram`)
    Column("duration", Text, nullable=False),  # likewise
    PrimaryKeyConstraint("span", "names", "start", "expired"),
    sqlite_with_rowid=False,
)

# What the triggers of `usage` have noted, and no sum has taken up yet: a row for each that came (`sign` 1) or went
# (-1).
usage_changes = Table(
    "usage_changes",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), Identity(), primary_key=True),
    Column("sign", Integer, nullable=False),
    Column("expired", Boolean, nullable=False),
    *(Column(column.name, column.type) for column in usage.c if column.name in CHANGED),
)

# One row. `kept`: whether changes are noted; `since`: the sums hold all rows of `usage` from then on, null for none.
usage_state = Table(
    "usage_state",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("kept", Boolean, nullable=False),
    Column("since", BigInteger),
)

# The words of each turn, for searches (`pipeline.stores.search_rows`). `id` sorts by time: rows come nearly in its
# order, which costs indexes least. SQLite's FTS5 calls its rows by it, too: those that come here are added to it by
# whoever adds them, and a trigger removes those that go. Postgres has a GIN index on the words.
said = Table(
    "said",
    metadata,
    Column(
        "id",
        BigInteger().with_variant(Integer, "sqlite"),
        ForeignKey("turns.said", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    ),
    Column("tenant", Name, nullable=False),  # "" for none
    Column("words", Text().with_variant(TSVECTOR(), "postgresql"), nullable=False),
    Index("said_tenant", "tenant", "id").ddl_if(dialect="postgresql"),
    Index("said_words", "words", postgresql_using="gin").ddl_if(dialect="postgresql"),
)

# Threads that were deleted for good: records of them, from a replay or an open run, are dropped. A mark that is `exact`
# means the thread with this key alone; one of an older version means all tenants' threads with this id.
erased = Table(
    "erased",
    metadata,
    Column("thread_id", Name, key="thread_key", primary_key=True),
    Column("erased_at", BigInteger),
    Column("exact", Boolean),
)

# Threads that are held: they are neither deleted nor do they expire. `name`: [thread_id, tenant], as they are.
holds = Table(
    "holds",
    metadata,
    Column("thread_id", Name, key="thread_key", primary_key=True),
    Column("name", Document, nullable=False),
    Column("held_at", BigInteger, nullable=False),
)

# Threads whose rows went because of their age, as long as large values or the archive may have something of them.
expired = Table(
    "expired",
    metadata,
    Column("thread_id", Name, key="thread_key", primary_key=True),
    Column("name", Document, nullable=False),  # [thread_id, tenant], as they are
    Column("before", BigInteger, nullable=False),  # all its turns ended before then
    Column("first", BigInteger, nullable=False),  # when its first turn began, and its last one ended
    Column("last", BigInteger, nullable=False),
    Column("due", BigInteger, nullable=False),  # when it is looked at next
    Index("expired_due", "due", "thread_key"),
)

# One row: which process is at the expiry, and until when no other begins.
expiry_state = Table(
    "expiry_state",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("holder", Text, nullable=False),
    Column("until", BigInteger, nullable=False),
)

# What waits for the notices topic. `due`: when it is sent, by whoever looks first; none once the topic has it. So long
# as `keep_until` a notice with this id is not taken a second time.
notices = Table(
    "notices",
    metadata,
    Column("id", Name, primary_key=True),
    Column("due", BigInteger),
    Column("keep_until", BigInteger, nullable=False),
    Column("record", Document, nullable=False),
    Index("notices_due", "due", "id"),
)

# Webhooks that the API has set up. `tenant`: none for all tenants, "" for what has none. `secrets`: [key, until] each,
# the newest first; `until` (epoch ms) is null for the one that stays.
webhooks = Table(
    "webhooks",
    metadata,
    Column("id", Name, primary_key=True),
    Column("tenant", Name),
    Column("url", Text, nullable=False),
    Column("events", Document, nullable=False),
    Column("secrets", Document, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

# What waits to be delivered: of each lane (a webhook and a thread) the first row has a time at which it is due, and the
# others have none. `place`: [topic, partition, offset] of the record; `at`: its time.
webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), Identity(), primary_key=True),
    Column("webhook", Name, nullable=False),
    Column("id", Name, nullable=False),
    Column("lane", Name, nullable=False),
    Column("payload", Text, nullable=False),
    Column("place", Document, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("due", BigInteger),
    Column("attempts", Integer, nullable=False),
    UniqueConstraint("webhook", "id"),
    Index("webhook_deliveries_due", "due"),
    Index("webhook_deliveries_lane", "webhook", "lane", "seq"),
)

# One row: the oldest revision whose code may work with this schema, so that two versions run side by side in a roll.
compatibility = Table("compatibility", metadata, Column("oldest", Name, primary_key=True))
