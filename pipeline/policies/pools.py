"""Every pool that the tenants of a gateway or a worker share, with its size. Each tenant has a share of each pool.

Without shares, a tenant could use up a pool for all others. So all bounds across tenants are listed here, and a test
searches the code for bounds that are not.
"""

from typing import Final

from turnmill import pools
from turnmill.limits import LISTED_BYTES, OVER_BYTES
from turnmill.pools import LEFT_FREE, OLDEST, OLDEST_OF_MOST, Pool, memory

BODIES: Final = Pool(
    "bodies of the proxy",
    "bytes",
    268_435_456,
    "pipeline.gateway.proxy.bodies",
    "its request is answered 503 with Retry-After",
)
# Or half of of TURNMILL_SPOOL_BYTES, since records are larger than the bodies that they come from.
SPOOL: Final = Pool(
    "uploads while the broker is away",
    "bytes",
    536_870_912,
    "pipeline.gateway.intake.uploads",
    "its upload is answered 503 with Retry-After",
)
# The others wait, so that connections to the store remain for everything else.
SEARCHES: Final = Pool(
    "searches, and lists that search or sift", "slots", 4, "pipeline.gateway.state", "its request waits"
)
# So that not many large bodies are unpacked at the same time.
ASIDE: Final = Pool(
    "threads for what would hold the event loop", "slots", 2, "pipeline.gateway.state", "its request waits"
)
# Each holds a whole thread in memory.
READS: Final = Pool("stored threads that are read", "slots", 4, "pipeline.gateway.state", "its request waits")
READERS: Final = Pool(
    "consumers of live streams that read what lies further back",
    "slots",
    4,
    "pipeline.gateway.live.tail",
    "its stream waits for its next page",
)
DELIVERIES: Final = Pool(
    "deliveries of webhooks that are under way",
    "slots",
    32,
    "pipeline.worker.webhooks.delivery",
    "its deliveries wait in the store",
    process="worker",
)
LOOKUPS: Final = Pool(
    "look-ups of webhooks' names",
    "slots",
    8,
    "pipeline.worker.webhooks.sender",
    "its delivery waits, and is tried again later",
    process="worker",
)
# Each holds a record of the turns topic in memory.
LETTERS: Final = Pool(
    "dead letters of webhooks that are made",
    "slots",
    4,
    "pipeline.worker.webhooks.delivery",
    "its dead letter waits",
    process="worker",
)
HELD: Final = Pool(
    "calls of the proxy that wait for the answer to a budget's question",
    "calls",
    1_000,
    "pipeline.gateway.proxy.passing",
    "its call is answered 429 at once",
)
COMMANDS: Final = memory(
    *("commands to runs that are remembered", 64, "pipeline.gateway.control.memory"),
    "its command is answered 429 with Retry-After; of what is over, the state of its oldest is no longer told",
)
CLAIMS: Final = memory(
    *("answers of which the first counts", 64, "turnmill.control.claims"),
    *("its answer is answered 429 with Retry-After", LEFT_FREE),
)
COMMAND_STREAMS: Final = Pool(
    "streams of commands to publishers",
    "streams",
    20_000,
    "pipeline.gateway.control.streams",
    "its publisher is answered 429, and asks again",
)
RERUNS: Final = Pool(
    "answers that are asked for again", "slots", 8, "pipeline.gateway.rerun.routes", "its request waits"
)
CALLERS: Final = memory(
    "rates of callers", 8, "pipeline.gateway.access.limits", "their next requests may come at once", OLDEST
)
AUDITED: Final = memory(
    *("entries of the audit log that wait for the store", 32, "pipeline.stores.accounts.audit"),
    *("further entries of it are lost, and counted", LEFT_FREE, "any"),
)
SEEN: Final = memory(
    *("refusals and reads of a minute that are in the audit log", 32, "pipeline.stores.accounts.audit"),
    *("an entry has the number of its further ones", LEFT_FREE, "any"),
)
ERASED: Final = memory("threads deleted or not", 8, "pipeline.gateway.live.erased", "the store is asked again")
# Or TURNMILL_GATEWAY_LIVE_BYTES.
RECENT: Final = memory(
    "newest events", 64, "pipeline.gateway.live.recent_events", "what lies further back is read from the topic", OLDEST
)
# A megabyte of `[],[],…` takes 22 MB as objects.
FRESH: Final = memory(
    "newest events, decoded", 2, "pipeline.gateway.live.recent_events", "each reader decodes them", OLDEST
)
LATE: Final = memory(
    *("records that come while a reader of the gateway reads earlier ones", 32, "pipeline.gateway.live.follower"),
    *("they are read from the topic", LEFT_FREE),
)
FIGURES: Final = memory(
    *("live figures by second", 64, "pipeline.gateway.dashboard.figures"),
    *("its models and agents are summed as `other`; of all, the oldest seconds go", OLDEST),
)
COUNTED: Final = memory(
    "turns in live figures", 16, "pipeline.gateway.dashboard.figures", "they are counted again if they come again"
)
OPEN_USE: Final = memory(
    "what open runs have used", 32, "pipeline.gateway.control.budget_stops", "budgets count them once they are stored"
)
# The smaller ones are those of commands; live streams have 128 MB of finished runs.
OPEN_RUNS: Final = memory(
    *("open runs", LISTED_BYTES / 1_048_576, "pipeline.assembly.run_list", "they are not listed until they go on"),
    "where it is full, the newest of the tenant that has most go",
)
OVER_RUNS: Final = memory("finished runs", OVER_BYTES / 1_048_576, "pipeline.assembly.run_list", "streams begin later")
SEGMENTS: Final = memory(
    "segments of open runs", 32, "pipeline.assembly.run_list", "a run that is given up is listed until its mark", OLDEST
)
SILENCES: Final = memory("usual silences of agents", 16, "pipeline.assembly.usual_silence", "they are learnt anew")
FITTING: Final = memory("prices that fit", 4, "pipeline.policies.prices", "they are looked for again", process="any")
LABELS: Final = memory(
    "values of metrics' labels", 32, "pipeline.observability.metrics", "they are counted as `other`", LEFT_FREE, "any"
)
LISTED: Final = memory("listed prices", 4, "pipeline.stores.costs.prices", "they are looked for again", process="any")
FACETS: Final = memory("words of the index", 4, "pipeline.stores.search.query", "they are made again", process="any")
WARNINGS: Final = memory(
    "warnings of late", 0.25, "pipeline.observability.logs", "they are logged again", OLDEST, "any"
)
BURIED: Final = memory(
    *("records with a dead letter of a webhook", 1, "pipeline.worker.webhooks.delivery"),
    *("a further letter has the record again", OLDEST_OF_MOST, "worker"),
)
POOLS: Final = tuple(pool for pool in (*vars(pools).values(), *globals().values()) if isinstance(pool, Pool))
