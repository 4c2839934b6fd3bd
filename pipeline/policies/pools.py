"""Every pool that the tenants of a gateway or a worker share, with its size. Each tenant has a share of each pool.

Without shares, one tenant could use up a pool for all others. So all bounds across tenants are listed here, and a test
searches the code for bounds that are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

LEFT_FREE: Final = "a quarter and more stays free for the others"
OLDEST_OF_MOST: Final = "where it is full, the oldest of the tenant that has most goes"


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool. `used_by`: the module that implements it; `full`: what happens to a tenant that has its whole share."""

    name: str
    process: Literal["gateway", "worker"]
    unit: str
    size: int
    used_by: str
    share: str
    full: str


BODIES: Final = Pool(
    "bodies of the proxy",
    "gateway",
    "bytes",
    268_435_456,
    "pipeline.gateway.proxy.bodies",
    LEFT_FREE,
    "its request is answered 503 with Retry-After",
)
CAPTURES: Final = Pool(
    "captured calls that are to be read",
    "gateway",
    "bytes",
    33_554_432,
    "turnmill.capture.passing",
    LEFT_FREE,
    "its call is passed on and not captured, or with a gap",
)
CONVERSATIONS: Final = Pool(
    "conversations of the proxy that are remembered",
    "gateway",
    "answers",
    20_000,  # about 10 MB
    "turnmill.capture.conversations",
    OLDEST_OF_MOST,
    "its oldest are forgotten",
)
SPOOL: Final = Pool(
    "uploads while the broker is away",
    "gateway",
    "bytes",
    536_870_912,  # or half of TURNMILL_SPOOL_BYTES, since records are larger than the bodies that they come from
    "pipeline.gateway.intake.uploads",
    LEFT_FREE,
    "its upload is answered 503 with Retry-After",
)
SEARCHES: Final = Pool(
    "searches, and lists that search or sift",
    "gateway",
    "slots",
    4,  # the others wait, so that connections to the store remain for everything else
    "pipeline.gateway.slots",
    LEFT_FREE,
    "its request waits",
)
ASIDE: Final = Pool(
    "threads for what would hold the event loop",
    "gateway",
    "slots",
    2,  # so that not many large bodies are unpacked at the same time
    "pipeline.gateway.slots",
    LEFT_FREE,
    "its request waits",
)
READS: Final = Pool(
    "stored threads that are read",
    "gateway",
    "slots",
    4,  # each holds a whole thread in memory
    "pipeline.gateway.slots",
    LEFT_FREE,
    "its request waits",
)
READERS: Final = Pool(
    "consumers of live streams that read what lies further back",
    "gateway",
    "slots",
    4,
    "pipeline.gateway.live.tail",
    LEFT_FREE,
    "its stream waits for its next page",
)
DELIVERIES: Final = Pool(
    "deliveries of webhooks that are under way",
    "worker",
    "slots",
    32,
    "pipeline.worker.webhooks.delivery",
    LEFT_FREE,
    "its deliveries wait in the store",
)
LOOKUPS: Final = Pool(
    "look-ups of webhooks' names",
    "worker",
    "slots",
    8,
    "pipeline.worker.webhooks.sender",
    LEFT_FREE,
    "its delivery waits, and is tried again later",
)
LETTERS: Final = Pool(
    "dead letters of webhooks that are made",
    "worker",
    "slots",
    4,  # each holds a record of the turns topic in memory
    "pipeline.worker.webhooks.delivery",
    LEFT_FREE,
    "its dead letter waits",
)
HELD: Final = Pool(
    "calls of the proxy that wait for the answer to a budget's question",
    "gateway",
    "calls",
    1_000,
    "pipeline.gateway.proxy.holding",
    LEFT_FREE,
    "its call is answered 429 at once",
)
COMMANDS: Final = Pool(
    "commands to runs that are remembered",
    "gateway",
    "commands",
    10_000,
    "pipeline.gateway.control.memory",
    OLDEST_OF_MOST,
    "what became of its oldest is no longer told",
)
COMMAND_STREAMS: Final = Pool(
    "streams of commands to publishers",
    "gateway",
    "streams",
    20_000,
    "pipeline.gateway.control.commands",
    LEFT_FREE,
    "its publisher is answered 429, and asks again",
)
RERUNS: Final = Pool(
    "answers that are asked for again",
    "gateway",
    "slots",
    8,
    "pipeline.gateway.rerun.routes",
    LEFT_FREE,
    "its request waits",
)
POOLS: Final = (
    BODIES,
    CAPTURES,
    CONVERSATIONS,
    SPOOL,
    SEARCHES,
    ASIDE,
    READS,
    READERS,
    DELIVERIES,
    LOOKUPS,
    LETTERS,
    HELD,
    COMMANDS,
    COMMAND_STREAMS,
    RERUNS,
)
