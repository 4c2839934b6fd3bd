"""Every pool that the tenants of a gateway or a worker share, with its size. Each tenant has a share of each pool.

Without shares, a tenant could use up a pool for all others. So all bounds across tenants are listed here, and a test
searches the code for bounds that are not.
"""

from dataclasses import dataclass
from typing import Final, Literal

LEFT_FREE: Final = "a quarter and more stays free for the others"
OLDEST_OF_MOST: Final = "where it is full, the oldest of the tenant that has most goes"


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool. `used_by`: the module that implements it; `full`: what happens to a tenant that has its whole share."""

    name: str
    unit: str
    size: int
    used_by: str
    full: str
    process: Literal["gateway", "worker"] = "gateway"
    share: str = LEFT_FREE


BODIES: Final = Pool(
    "bodies of the proxy",
    "bytes",
    268_435_456,
    "pipeline.gateway.proxy.bodies",
    "its request is answered 503 with Retry-After",
)
CAPTURES: Final = Pool(
    "captured calls that are to be read",
    "bytes",
    33_554_432,
    "turnmill.capture.passing",
    "its call is passed on and not captured, or with a gap",
)
# About 10 MB, and at most 26 MB of what requests in threads leave out.
CONVERSATIONS: Final = Pool(
    "conversations of the proxy that are remembered",
    "answers",
    20_000,
    "turnmill.capture.conversations",
    "its oldest are forgotten",
    share=OLDEST_OF_MOST,
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
COMMANDS: Final = Pool(
    "commands to runs that are remembered",
    "bytes",
    67_108_864,
    "pipeline.gateway.control.memory",
    "its command is answered 429 with Retry-After; of what is over, the state of its oldest is no longer told",
    share=OLDEST_OF_MOST,
)
CLAIMS: Final = Pool(
    "answers of which the first counts",
    "bytes",
    67_108_864,
    "turnmill.control.claims",
    "its answer is answered 429 with Retry-After",
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
POOLS: Final = tuple(pool for pool in tuple(globals().values()) if isinstance(pool, Pool))
