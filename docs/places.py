"""Every place that can contain content or identities of people: how it is erased and checked, how long data may stay.

The table of `retention.md` is made of these, and of the store's tables (`pipeline.stores.tables_that_follow`).
`tests/contract/test_places.py` holds them against the schema, the catalog of topics and the settings: whatever is added
there says here what becomes of it.
"""

from dataclasses import dataclass
from typing import Final

from pipeline.stores.tables_that_follow import BOOKS, NOW


@dataclass(frozen=True, slots=True)
class Place:
    """A topic, a folder, a bucket, a file or a memory. `settings`: those that name it; `module`: the memory's."""

    name: str
    erased: str
    checked: str
    stays: str
    settings: tuple[str, ...] = ()
    module: str = ""


TABLES: Final = tuple(table for book in BOOKS for table in book.tables)

RETENTION: Final = "by the topic's `retention.ms`, whole segments"
UNTIL: Final = "`tenants check` says until when"
TOPICS: Final = tuple(
    Place(name, RETENTION, UNTIL, "`retention.ms`, and at the latest `segment.ms` more")
    for name in ("events", "turns", "telemetry", "dead-letters", "state", "notices", "feedback", "control", "facts")
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
        *("webhooks", "alerts", "budgets", "prices", "gateway_oidc", "gateway_oidc_roles"),
    }
)
