"""The contenders: each measures one load on a filled site, in processes of its own."""

from functools import partial
from typing import Final

from tests.bench import kafka_streams
from tests.bench.engines import quix, quix_missing, raw, stock_faust, streams
from tests.bench.postgres import missing
from tests.bench.result import Contender
from tests.bench.turnmill_runs import (
    apart,
    by_processes,
    cores_for_two_workers,
    to_postgres,
    to_sqlite,
    to_sqlite_of_two,
    to_turns,
)

# What a store keeps beside the turns: name -> title, and the settings that say so. The usual one is both.
KEPT: Final[dict[str, tuple[str, dict[str, object]]]] = {
    "bare": ("without search and sums", {"search": "off", "usage_sums": False}),
    "search": ("with search, without sums", {"usage_sums": False}),
    "sums": ("with sums, without search", {"search": "off"}),
}
LIMIT: Final = "raw"
TURNS: Final = "turns"
PEERS: Final = ("quix", "streams")
ROLES: Final = "a process for each role" if apart() else "both roles in one process"

CONTENDERS: Final[dict[str, Contender]] = {
    contender.name: contender
    for contender in (
        Contender(LIMIT, "raw read: aiokafka + orjson.loads, no job", raw),
        Contender(TURNS, "Turnmill to the turns topic", to_turns),
        Contender(
            "two",
            "Turnmill to the turns topic, two processes",
            partial(by_processes, count=2),
            missing=cores_for_two_workers,
        ),
        Contender("sqlite", f"Turnmill to SQLite, {ROLES}", to_sqlite),
        Contender("split", "Turnmill to SQLite, one worker of two processes", to_sqlite_of_two),
        Contender("postgres", f"Turnmill to Postgres, {ROLES}", to_postgres, missing=missing),
        *(
            Contender(f"sqlite-{name}", f"Turnmill to SQLite, {title}", partial(to_sqlite, kept=kept), any_load=False)
            for name, (title, kept) in KEPT.items()
        ),
        *(
            Contender(
                f"postgres-{name}",
                f"Turnmill to Postgres, {title}",
                partial(to_postgres, kept=kept),
                any_load=False,
                missing=missing,
            )
            for name, (title, kept) in KEPT.items()
        ),
        Contender("faust", "stock Faust agent, async for", stock_faust, any_load=False),
        Contender("quix", "Quix Streams with its state", quix, any_load=False, missing=quix_missing),
        Contender(
            "streams", "Kafka Streams with its state store", streams, any_load=False, missing=kafka_streams.missing
        ),
    )
}
# Contenders that the others are compared with -> the title of that column.
RATIOS: Final = {
    LIMIT: "of the raw read",
    "faust": "of stock Faust",
    "quix": "of Quix Streams",
    "streams": "of Kafka Streams",
}
