"""The tables. `turns` is the source of truth; all others are derived from it, and rewritten with it in its transaction.

Inside the database a thread and a turn are integers. Each public name is in a unique index: a thread's id and
tenant in `threads_named`, a turn's id within its thread in `turns_named`. Names that many rows share (of agents,
models, providers, tenants) are stored once, in `usage_names` and `agents`. A comment beside each index says which query
uses it.

The id of a turn begins with its time and ends with a rising number (`stores.database.ids`). A turn keeps its id
when a newer revision replaces it; `stores.database.ids` says when it is given again. Times are epoch ms.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    false,
)
from sqlalchemy.dialects.postgresql import TSVECTOR

from pipeline.turns.tokens import COUNTS
from turnmill.labels import SINGLE

metadata = MetaData()

ESTIMATED = ("estimated_tokens", "estimated_nano_usd")
COUNTED = ("requests", "turns", "interrupted", "errors", *COUNTS, "cost_nano_usd", "computed_nano_usd", *ESTIMATED)
# What follows from a row (`pipeline.stores.usage.tallies`): the parts of the cost that were told and estimated, told
# costs that differ from computed ones, and responses without a price.
DERIVED = ("told_nano_usd", "assumed_nano_usd", "differing", "differing_nano_usd", "unpriced")
SUMMED = (*COUNTED, *DERIVED)  # the columns of a sum
CHANGED = ("at", "names", *COUNTED, "cost_kind", "ttft_ms", "duration_ms")

# Compared byte by byte: the same order as in Python and SQLite, whatever the database's locale.
Name = Text().with_variant(Text(collation="C"), "postgresql")
Document = JSON(none_as_null=True)
Id = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows only by a column of this type

threads = Table(
    "threads",
    metadata,
    Column("id", Id, Identity(), primary_key=True),
    Column("thread_id", Name, nullable=False),
    Column("tenant", Name, nullable=False),  # "" for none
    Column("name", Document),  # [thread_id, tenant], if a column can't store both unchanged
    Column("external_id", Name),
    Column("title", Text),
    Column("prompt", Text),  # the beginning of the first user turn
    Column("status", SmallInteger),  # of the last turn, as in `turns`; null without a turn
    Column("turns", Integer, nullable=False, server_default="0"),
    Column("total_tokens", BigInteger, nullable=False, server_default="0"),
    Column("cost_nano_usd", BigInteger),  # as far as prices are known; null if none is
    Column("model", Name),  # of the last response, and how long the agent's turn with it took
    Column("duration_ms", BigInteger),
    Column("created_at", BigInteger, nullable=False, server_default="0"),
    Column("updated_at", BigInteger, nullable=False, server_default="0"),
    Column(
        "newest", BigInteger
    ),  # the position of its last record in time (`pipeline.stores.threads.rows`); null without one
    Column("asked", Document),  # what the last turn asks for (`pipeline.turns.pending`); null: nothing
    Column("may_fork", Boolean, nullable=False, server_default=false()),  # a record says what its run follows
    # A record's thread; the threads with an id, of any tenant; all threads in the order of their ids.
    Index("threads_named", "thread_id", "tenant", unique=True),
    Index("threads_updated", "updated_at", "id"),  # a page of all tenants' threads; threads that have expired
    Index("threads_tenant_updated", "tenant", "updated_at", "id"),  # the same of a tenant
)
EXTERNAL = threads.c.external_id.is_not(None)
# A thread by the id that its producer gave it.
Index("threads_external", threads.c.external_id, sqlite_where=EXTERNAL, postgresql_where=EXTERNAL)
WAITING = threads.c.asked.is_not(None)
for _name, _columns in (("threads_waiting", ()), ("threads_tenant_waiting", (threads.c.tenant,))):
    _order = (*_columns, threads.c.updated_at, threads.c.id)  # the threads that wait, of all tenants, or of a tenant
    Index(_name, *_order, sqlite_where=WAITING, postgresql_where=WAITING)

turns = Table(
    "turns",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("thread", Id, ForeignKey("threads.id", ondelete="CASCADE"), nullable=False),
    Column("turn_id", LargeBinary, nullable=False),  # `keys.turn_bytes`
    Column("run_id", Name, nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("role", SmallInteger, nullable=False),  # 0 user, 1 agent, 2 a record of facts, without turn
    Column("status", SmallInteger, nullable=False),  # 0 interrupted by a worker, 1 by its publisher, 2 complete
    Column("revision", BigInteger, nullable=False),
    Column("events", BigInteger, nullable=False),
    Column("digest", LargeBinary, nullable=False),  # of the whole record: writing the same record again changes nothing
    Column("started_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger, nullable=False),
    Column("external_id", Name),
    Column("title", Text),
    Column("prompt", Text),
    Column("asked", Document),  # what the turn waits for; null: nothing
    Column("searched", Boolean, nullable=False),  # False: its words are not in `turn_words` yet
    Column("record", LargeBinary, nullable=False),  # the JSON text of the turn record as it came, `packing.packed`
    Index("turns_named", "thread", "turn_id", unique=True),  # which turns are there already; a thread's turns
    Index("turns_in_time", "thread", "started_at", "role"),  # the newest turns of a thread
)
# What records were packed with, for those who unpack them by other means (`pipeline.stores.database.packing`).
dictionaries = Table(
    "dictionaries",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),  # as zstd's frames name it
    Column("content", LargeBinary, nullable=False),
)

UNSEARCHED = ~turns.c.searched
# Turns whose words are missing.
Index("turns_unsearched", turns.c.id, sqlite_where=UNSEARCHED, postgresql_where=UNSEARCHED)

# An agent by its id and its name, once however many threads it speaks in.
agents = Table(
    "agents",
    metadata,
    Column("id", Id, Identity(), primary_key=True),
    Column("digest", LargeBinary, nullable=False, unique=True),  # of id and name, since names may be null, and long
    Column("agent_id", Name, nullable=False),
    Column("agent_name", Text),
    Index("agents_agent", "agent_id"),  # the threads of an agent
)

# Which agents speak in a thread, and in how many of its turns.
thread_agents = Table(
    "thread_agents",
    metadata,
    Column("agent", Id, ForeignKey("agents.id")),
    Column("thread", Id, ForeignKey("threads.id", ondelete="CASCADE")),
    Column("turns", Integer, nullable=False),
    PrimaryKeyConstraint("agent", "thread"),  # the threads of an agent
    Index("thread_agents_thread", "thread"),  # a thread's agents
    sqlite_with_rowid=False,
)

# A label of runs (`turnmill.labels`), once for each tenant. `counted`: usage is summed under it, else as `other`.
labels = Table(
    "labels",
    metadata,
    Column("id", Id, Identity(), primary_key=True),
    Column("digest", LargeBinary, nullable=False, unique=True),
    Column("tenant", Name, nullable=False),  # "" for none
    Column("kind", Name, nullable=False),
    Column("label", Name, nullable=False),
    Column("counted", Boolean, nullable=False),
    Index("labels_label", "kind", "label"),  # a label of any tenant
    Index("labels_tenant", "tenant", "kind"),  # how many of a kind a tenant has
)

# The labels of a thread's runs, and in how many of its records.
thread_labels = Table(
    "thread_labels",
    metadata,
    Column("label", Id, ForeignKey("labels.id")),
    Column("thread", Id, ForeignKey("threads.id", ondelete="CASCADE")),
    Column("turns", Integer, nullable=False),
    PrimaryKeyConstraint("label", "thread"),  # the threads with a label
    Index("thread_labels_thread", "thread"),  # a thread's labels
    sqlite_with_rowid=False,
)

# Source and target are ids of threads of the turn's tenant.
links = Table(
    "links",
    metadata,
    Column("turn", Id, ForeignKey("turns.id", ondelete="CASCADE")),
    Column("position", Integer),
    Column("source", Name, nullable=False),  # where the link starts
    Column("target", Name, nullable=False),
    Column("relation", Text, nullable=False),
    PrimaryKeyConstraint("turn", "position"),
    Index("links_source", "source"),  # other threads' records that state links of a thread
    Index("links_target", "target"),  # the threads that sub-agents of a thread speak in
    sqlite_with_rowid=False,
)

usage = Table(
    "usage",
    metadata,
    Column("turn", Id, ForeignKey("turns.id", ondelete="CASCADE")),
    Column("position", Integer),
    Column("thread", Id, nullable=False),  # the turn's, so that reports by thread don't read `turns`
    Column("at", BigInteger, nullable=False),
    Column("names", Integer, nullable=False),  # in `usage_names`
    Column("finish_reason", Name),
    Column("requests", SmallInteger, nullable=False),
    Column("turns", SmallInteger, nullable=False),  # 1 on the row of the turn's last response, 0 on all others
    Column("interrupted", SmallInteger, nullable=False),  # likewise
    Column("errors", SmallInteger, nullable=False),  # likewise: those that were interrupted by an error
    *(Column(name, BigInteger) for name in COUNTS),
    Column("cost_nano_usd", BigInteger),  # an integer, so that sums are exact
    Column("cost_kind", SmallInteger),  # of `pipeline.stores.costs.rows`: told, computed, estimated
    Column("computed_nano_usd", BigInteger),  # by prices, where the told cost differs
    Column("price_source", SmallInteger),  # of the cost or of its estimate, or why there is none, in `price_sources`
    *(Column(name, BigInteger) for name in ESTIMATED),  # of responses that broke off before their usage was reported
    Column("ttft_ms", BigInteger),
    Column("duration_ms", BigInteger),
    PrimaryKeyConstraint("turn", "position"),
    Index("usage_at", "at"),  # the usage of a period
    Index("usage_names_at", "names", "at"),  # the same of a tenant, a model, an agent
    sqlite_with_rowid=False,
)

# The requests to models: their bodies without messages, once for each tenant. Large members (tools, system prompts) are
# rows of `request_values`, since the other members may differ from call to call.
requests = Table(
    "requests",
    metadata,
    Column("id", Id, Identity(), primary_key=True),
    Column("digest", LargeBinary, nullable=False, unique=True),  # of tenant and hash
    Column("sha256", LargeBinary, nullable=False),  # of the whole body
    Column("tenant", Name, nullable=False),  # "" for none
    Column("body", Text, nullable=False),  # the JSON text of its small members
    Index("requests_sha256", "sha256"),  # a request of any tenant
)
request_values = Table(
    "request_values",
    metadata,
    Column("id", Id, Identity(), primary_key=True),
    Column("digest", LargeBinary, nullable=False, unique=True),  # of tenant and value
    Column("tenant", Name, nullable=False),
    Column("value", Text, nullable=False),  # JSON text
)
request_members = Table(
    "request_members",
    metadata,
    Column("request", Id, ForeignKey("requests.id", ondelete="CASCADE")),
    Column("name", Name),
    Column("value", Id, ForeignKey("request_values.id"), nullable=False),
    PrimaryKeyConstraint("request", "name"),
    Index("request_members_value", "value"),  # whether a value is in use
    sqlite_with_rowid=False,
)

# Which requests a turn's responses refer to.
turn_requests = Table(
    "turn_requests",
    metadata,
    Column("turn", Id, ForeignKey("turns.id", ondelete="CASCADE")),
    Column("request", Id, ForeignKey("requests.id"), nullable=False),
    PrimaryKeyConstraint("turn", "request"),
    Index("turn_requests_request", "request"),  # whether a request is in use
    sqlite_with_rowid=False,
)

# Where a cost comes from: `stream`, or the price list and its release.
price_sources = Table(
    "price_sources",
    metadata,
    Column("id", SmallInteger().with_variant(Integer, "sqlite"), Identity(), primary_key=True),
    Column("source", Name, nullable=False, unique=True),
)

# The names that rows and sums of usage share; each combination is stored once.
usage_names = Table(
    "usage_names",
    metadata,
    Column("id", Integer, Identity(), primary_key=True),
    Column("digest", LargeBinary, nullable=False, unique=True),  # of the names, since they may be null, and long
    Column("tenant", Name),
    Column("model", Name),
    Column("provider", Name),
    Column("agent_id", Name, nullable=False),
    Column("prompt", Name),  # the hash of system prompt and tools
    Column("origin", Name, nullable=False),  # "import" if the run was imported, "" if it was published live
    Column("service_tier", Name, nullable=False),  # "" for the standard tier
    Column("purpose", Name, nullable=False),  # of a call beside the answer, as "compaction"; "" for the answer
    *(Column(kind, Name) for kind in SINGLE),  # labels
    Column("tags", Text),  # those in `usage_tags`, as JSON
)
usage_tags = Table(
    "usage_tags",
    metadata,
    Column("names", Integer, ForeignKey("usage_names.id", ondelete="CASCADE")),
    Column("tag", Name),
    PrimaryKeyConstraint("tag", "names"),  # the names with a tag
    Index("usage_tags_names", "names"),  # the tags of names
    sqlite_with_rowid=False,
)

# The sums of usage by quarter of an hour, hour, day and week (`pipeline.stores.usage.sums`).
usage_sums = Table(
    "usage_sums",
    metadata,
    Column("span", Integer),  # in ms
    Column("start", BigInteger),
    Column("expired", Boolean),  # of expired turns, whose rows in `usage` are deleted
    Column("names", Integer),  # no foreign key: deleting a name would scan all sums
    *(Column(name, BigInteger, nullable=False) for name in SUMMED),
    Column("ttft", Text, nullable=False),  # a histogram (`pipeline.stores.usage.histogram`)
    Column("duration", Text, nullable=False),  # likewise
    PrimaryKeyConstraint("span", "names", "start", "expired"),  # some sums of each of the names
    sqlite_with_rowid=False,
)

# Changes that the triggers of `usage` have recorded, and that are not in the sums yet: a row for each row that was
# added (`sign` 1) or deleted (-1).
usage_changes = Table(
    "usage_changes",
    metadata,
    Column("id", Id, Identity(), primary_key=True),
    Column("sign", SmallInteger, nullable=False),
    Column("expired", Boolean, nullable=False),
    *(Column(column.name, column.type) for column in usage.c if column.name in CHANGED),
)

# The usage of deleted threads that counts towards budgets (`pipeline.stores.usage.budgets`): by scope, in the window
# from `start` until `end`.
deleted_usage = Table(
    "deleted_usage",
    metadata,
    Column("scope", Name),  # `Budget.scope`
    Column("start", BigInteger),
    Column("tenant", Name),  # "" for none
    Column("end", BigInteger, nullable=False),
    Column("used", BigInteger, nullable=False),
    PrimaryKeyConstraint("scope", "start", "tenant"),  # those of a budget
    sqlite_with_rowid=False,
)

# One row. `kept`: changes are recorded; `since`: the sums include all rows of `usage` from then on, null for none.
usage_state = Table(
    "usage_state",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("kept", Boolean, nullable=False),
    Column("since", BigInteger),
)

# The words of each turn, for searches (`pipeline.stores.search.write`), by the id of the turn, which sorts by time.
# SQLite's FTS5 uses the same row ids: code that adds rows also adds them to FTS5, and a trigger removes deleted ones.
turn_words = Table(
    "turn_words",
    metadata,
    Column("id", Id, ForeignKey("turns.id", ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("tenant", Name, nullable=False),  # "" for none
    Column("words", Text().with_variant(TSVECTOR(), "postgresql"), nullable=False),
    Index("turn_words_tenant", "tenant", "id").ddl_if(dialect="postgresql"),  # a tenant's newest turns
    Index("turn_words_words", "words", postgresql_using="gin").ddl_if(dialect="postgresql"),  # rare words
)

# Threads that were erased: records of them, from a replay or an open run, are dropped. This and the next two tables
# name a thread by the text of its key, since its row in `threads` may be deleted.
erased = Table(
    "erased",
    metadata,
    Column("thread_key", Name, primary_key=True),
    Column("name", Document, nullable=False),  # the exact [thread_id, tenant]; without thread_id: all of that tenant
    Column("erased_at", BigInteger, nullable=False),
)

# Threads that are held: they are not deleted and do not expire. `name`: the exact [thread_id, tenant].
holds = Table(
    "holds",
    metadata,
    Column("thread_key", Name, primary_key=True),
    Column("name", Document, nullable=False),
    Column("held_at", BigInteger, nullable=False),
)

# Threads whose rows have expired, as long as large values or archived rows of them may remain.
expired = Table(
    "expired",
    metadata,
    Column("thread_key", Name, primary_key=True),
    Column("name", Document, nullable=False),  # the exact [thread_id, tenant]
    Column("before", BigInteger, nullable=False),  # all its turns ended before then
    Column("first", BigInteger, nullable=False),  # when its first turn began, and its last turn ended
    Column("last", BigInteger, nullable=False),
    Column("due", BigInteger, nullable=False),  # when its remnants are checked next
    Index("expired_due", "due", "thread_key"),  # those that are due
)

# One row: the lease of the process that runs the expiry, and until when it is valid; the latest time that was believed.
expiry_state = Table(
    "expiry_state",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("holder", Text, nullable=False),
    Column("until", BigInteger, nullable=False),
    Column("believed", BigInteger, nullable=False),
)

# Notices on their way to their topic. `due`: from when on any process may publish it; null once it is published. Until
# `keep_until` a notice with the same id is ignored.
notices = Table(
    "notices",
    metadata,
    Column("id", Name, primary_key=True),
    Column("due", BigInteger),
    Column("keep_until", BigInteger, nullable=False),
    Column("record", Document, nullable=False),
    Index("notices_due", "due", "keep_until"),  # those to be published; published ones that may be deleted
)

# Alerts that are on, by name and group (`pipeline.policies.alerts.On`); the row is deleted when it ends.
alerts = Table(
    "alerts",
    metadata,
    Column("alert", Name),
    Column("group", Name),
    Column("since", BigInteger, nullable=False),
    Column("seen", BigInteger, nullable=False),
    Column("data", Document, nullable=False),
    PrimaryKeyConstraint("alert", "group"),  # all of them, sorted
    sqlite_with_rowid=False,
)

# Webhooks created by the API. `tenant`: null for all tenants, "" for data without a tenant. `secrets`: [key, until]
# each, newest first; `until` (epoch ms) is null for the current key.
webhooks = Table(
    "webhooks",
    metadata,
    Column("id", Name, primary_key=True),
    Column("tenant", Name),
    Column("url", Text, nullable=False),
    Column("events", Document, nullable=False),
    Column("form", Text, nullable=False),
    Column("secrets", Document, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

# Tokens that the API or the command line created. `digest`: SHA-256, hex; `old`: of the previous secret, valid until
# `old_until`. `tenant`: null for all tenants. `changed_at` tells gateways to read the tokens again.
tokens = Table(
    "tokens",
    metadata,
    Column("id", Name, primary_key=True),
    Column("digest", Name, nullable=False),
    Column("old", Name),
    Column("old_until", BigInteger),
    Column("name", Text, nullable=False),
    Column("tenant", Name),
    Column("scopes", Document, nullable=False),
    Column("rate", Integer),
    Column("addresses", Document, nullable=False),
    Column("expires_at", BigInteger),
    Column("made_by", Text, nullable=False),
    Column("made_at", BigInteger, nullable=False),
    Column("used_at", BigInteger),
    Column("changed_at", BigInteger, nullable=False),
    Column("session", Document),  # of a person who has signed in (`pipeline.stores.accounts.tokens.Session`)
    Column("id_token", Text),  # the provider's, needed to end its own session
    # Of a link (`pipeline.stores.keeping.links`): the text of the thread's key, and who made it.
    Column("thread", Name),
    Column("maker", Name),
)

# Feedback on threads, stored or not: the latest record of each id, by the broker's time and the offset. `record` and
# `name` are null once the feedback was retracted. `thread_id`, `tenant`: as in `threads`.
feedback = Table(
    "feedback",
    metadata,
    Column("thread_id", Name),
    Column("tenant", Name),
    Column("id", Name),
    Column("name", Name),  # what is judged
    Column("number", Double),  # the value, true as 1 and false as 0; null for a text
    Column("record", Document),
    Column("at", BigInteger, nullable=False),
    Column("offset", BigInteger, nullable=False),
    PrimaryKeyConstraint("thread_id", "tenant", "id"),  # the feedback on a thread
    Index("feedback_tenant", "tenant", "name"),  # a tenant's, to erase it; its names
    Index("feedback_name", "name", "at", "thread_id", "tenant", "id"),  # the feedback of a name, since a time
    sqlite_with_rowid=False,
)

# Queued deliveries: of each lane (a webhook and a thread) the first row has a due time, and the others have none.
# `place`: [topic, partition, offset] of the record; `at`: its time. `thread_key`: the thread of the delivered turn,
# whose erasure deletes the row; null for notices, which contain nothing of a conversation.
webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), Identity(), primary_key=True),
    Column("webhook", Name, nullable=False),
    Column("id", Name, nullable=False),
    Column("lane", Name, nullable=False),
    Column("thread_key", Name),
    Column("payload", Text, nullable=False),
    Column("place", Document, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("due", BigInteger),
    Column("attempts", Integer, nullable=False),
    UniqueConstraint("webhook", "id"),
    Index("webhook_deliveries_due", "due"),  # those that are to be sent
    Index("webhook_deliveries_lane", "lane", "webhook", "seq"),  # whether a lane waits, and what follows in it
)

# Who changed or read something (`pipeline.observability.audit.Entry`).
audit = Table(
    "audit",
    metadata,
    Column("id", Id, Identity(), primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("who", Name, nullable=False),
    Column("token", Name, nullable=False),
    Column("address", Name, nullable=False),
    Column("action", Name, nullable=False),
    Column("subject", Name, nullable=False),
    Column("tenant", Name),  # null for actions on no single tenant, "" for none
    Column("outcome", Name, nullable=False),
    Index("audit_at", "at", "id"),  # a page of all; those that expire
    Index("audit_tenant_at", "tenant", "at", "id"),  # a page of a tenant's
)

# Saved views of the dashboard: addresses with filters.
views = Table(
    "views",
    metadata,
    Column("id", Name, primary_key=True),
    Column("owner", Name, nullable=False),  # the name of a token or a person
    Column("tenant", Name),  # the owner's; null for all
    Column("name", Name, nullable=False),
    Column("address", Text, nullable=False),
    Column("shared", Boolean, nullable=False),  # with all of that tenant
    Column("made_at", BigInteger, nullable=False),
    Column("identity", Name, nullable=False),  # the owner's; others may have the same name
    Index("views_tenant", "tenant"),
)

# Turns in data sets (`pipeline.stores.threads.datasets`). `thread_id`, `tenant`: as in `threads`. `number`: the order
# in which they were added to their set.
dataset_turns = Table(
    "dataset_turns",
    metadata,
    Column("id", Name, primary_key=True),  # a digest of tenant, set, thread and turn
    Column("tenant", Name, nullable=False),  # "" for none
    Column("dataset", Name, nullable=False),
    Column("number", Integer, nullable=False),
    Column("thread_id", Name, nullable=False),
    Column("turn_id", Name, nullable=False),
    Column("added_at", BigInteger, nullable=False),
    Index("dataset_turns_number", "tenant", "dataset", "number", "added_at"),  # a page of a set; a tenant's sets
    Index("dataset_turns_thread", "thread_id", "tenant", "dataset"),  # a thread's, in a set or in any
)

# Tables of whose changes triggers leave notices, since no other topic tells of them: table -> its key, and the column
# that each such change changes.
NOTED = {
    tokens: ("id", "digest"),
    holds: ("thread_key", "held_at"),
    erased: ("thread_key", "erased_at"),
    webhooks: ("id", "secrets"),
    views: ("id", "made_at"),
    dataset_turns: ("id", "added_at"),
}

# One row: the oldest revision whose code works with this schema, so that two versions can run during a rollout.
compatibility = Table("compatibility", metadata, Column("oldest", Name, primary_key=True))
