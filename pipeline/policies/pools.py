"""Every pool that the tenants of a gateway or a worker share, with its size. Each tenant has a share of each pool.

Without shares, a tenant could use up a pool for all others. So all bounds across tenants are listed here, and a test
searches the code for bounds that are not.
"""

from typing import Final

from turnmill import limits, pools
from turnmill.limits import LISTED_BYTES, OVER_BYTES
from turnmill.pools import LEFT_FREE, MIB, NEWEST_OF_MOST, OLDEST, Pool, memory

BODIES: Final = Pool(
    *("bodies of the proxy", "bytes", 268_435_456),
    *("pipeline.gateway.proxy.bodies", "its request is answered 503 with Retry-After"),
)
# Or half of TURNMILL_SPOOL_BYTES, since records are larger than the bodies that they come from.
SPOOL: Final = Pool(
    *("uploads while the broker is away", "bytes", 536_870_912),
    *("pipeline.gateway.intake.uploads", "its upload is answered 503 with Retry-After"),
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
    *("consumers of live streams that read what lies further back", "slots", 4),
    *("pipeline.gateway.live.tail", "its stream waits for its next page"),
)
DELIVERIES: Final = Pool(
    *("deliveries of webhooks that are under way", "slots", 32),
    *("pipeline.worker.webhooks.delivery", "its deliveries wait in the store", "worker"),
)
LOOKUPS: Final = Pool(
    *("look-ups of webhooks' names", "slots", 8),
    *("pipeline.worker.webhooks.sender", "its delivery waits, and is tried again later", "worker"),
)
# Each holds a record of the turns topic in memory.
LETTERS: Final = Pool(
    *("dead letters of webhooks that are made", "slots", 4),
    *("pipeline.worker.webhooks.delivery", "its dead letter waits", "worker"),
)
HELD: Final = Pool(
    *("calls of the proxy that wait for the answer to a budget's question", "calls", 1_000),
    *("pipeline.gateway.proxy.passing", "its call is answered 429 at once"),
)
# The store's, of which each gateway has a copy in memory.
TOKENS: Final = Pool(
    *("tokens that the API has made", "tokens", limits.TOKENS),
    *("pipeline.gateway.access.token_memory", "no more are made until some are revoked"),
    share="each has so many",
)
COMMANDS: Final = memory("commands to runs", 64, "it is answered 429; of what is over, the oldest is no longer told")
CLAIMS: Final = memory("answers of which the first counts", 64, "it is answered 429 with Retry-After", LEFT_FREE)
COMMAND_STREAMS: Final = Pool(
    *("streams of commands to publishers", "streams", 20_000),
    *("pipeline.gateway.control.streams", "its publisher is answered 429, and asks again"),
)
QUEUED: Final = Pool(
    *("commands on their way to publishers", "bytes", 16 * MIB),
    *("pipeline.gateway.control.streams", "its stream ends, and its publisher asks again"),
)
RERUNS: Final = Pool(
    "answers that are asked for again", "slots", 8, "pipeline.gateway.rerun.routes", "its request waits"
)
CALLERS: Final = memory("rates of callers", 8, "their next requests may come at once", OLDEST)
AUDITED: Final = memory("entries on their way to the audit log", 16, "further ones are counted", LEFT_FREE, "any")
SEEN: Final = memory("refusals and reads of a minute", 16, "the audit log has the number of more", LEFT_FREE, "any")
ERASED: Final = memory("threads deleted or not", 8, "the store is asked again")
# Or TURNMILL_GATEWAY_LIVE_BYTES.
RECENT: Final = memory("newest events", 64, "what lies further back is read from the topic", OLDEST)
# A megabyte of `[],[],…` takes 22 MB as objects.
FRESH: Final = memory("newest events, decoded", 2, "each reader decodes them", OLDEST)
LATE: Final = memory("records that come while earlier ones are read", 16, "they are read again", LEFT_FREE)
FIGURES: Final = memory("live figures", 32, "its models are summed as `other`; the oldest seconds go", OLDEST)
COUNTED: Final = memory("turns in live figures", 8, "they are counted again if they come again")
OPEN_USE: Final = memory("what open runs have used", 16, "budgets count them once they are stored")
# Live streams have 128 MB of finished runs.
OPEN_RUNS: Final = memory("open runs", LISTED_BYTES / MIB, "its newest are not listed until they go on", NEWEST_OF_MOST)
OVER_RUNS: Final = memory("finished runs", OVER_BYTES / MIB, "streams begin later")
SEGMENTS: Final = memory("segments of open runs", 16, "a run that is given up is listed until its mark", OLDEST)
SILENCES: Final = memory("usual silences of agents", 8, "they are learnt anew")
FITTING: Final = memory("prices that fit", 4, "they are looked for again", process="any")
LABELS: Final = memory("values of metrics' labels", 8, "they are counted as `other`", LEFT_FREE, "any")
LISTED: Final = memory("listed prices", 4, "they are looked for again", process="any")
FACETS: Final = memory("words of the index", 4, "they are made again", process="any")
WARNINGS: Final = memory("warnings of late", 0.25, "they are logged again", OLDEST, "any")
BURIED: Final = memory("records with a dead letter", 1, "a further letter has it again", process="worker")
POOLS: Final = tuple(pool for pool in (*vars(pools).values(), *globals().values()) if isinstance(pool, Pool))
