"""The pools of a process, each with its size, and those of a publisher's. Each tenant has a share of each pool."""

from dataclasses import dataclass
from typing import Final, Literal

LEFT_FREE: Final = "a quarter and more stays free for the others"
OLDEST_OF_MOST: Final = "where it is full, the oldest of the tenant that has most goes"
OLDEST: Final = "where it is full, the oldest of all goes"


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool. `used_by`: the module that implements it; `full`: what happens to a tenant that has its whole share."""

    name: str
    unit: str
    size: int
    used_by: str
    full: str
    process: Literal["gateway", "worker", "publisher", "any"] = "gateway"
    share: str = LEFT_FREE


def memory(
    name: str,
    megabytes: float,
    used_by: str,
    full: str,
    share: str = OLDEST_OF_MOST,
    process: Literal["gateway", "worker", "publisher", "any"] = "gateway",
) -> Pool:
    """Return the pool of a memory (`turnmill.remembered`)."""
    return Pool(name, "bytes", int(megabytes * 1_048_576), used_by, full, process, share)


_CONVERSATIONS: Final = "turnmill.capture.conversations"
CAPTURES: Final = memory(
    *("captured calls that are to be read", 32, "turnmill.capture.passing"),
    *("its call is passed on and not captured, or with a gap", LEFT_FREE),
)
ANSWERS: Final = memory("answers of captured calls", 32, _CONVERSATIONS, "a call that follows them begins a thread")
FOLLOWERS: Final = memory("which captured call follows which", 16, _CONVERSATIONS, "a branch is no branch")
NAMED: Final = memory("runs that captured calls have named", 8, _CONVERSATIONS, "the name, used again, is no new run")
LEFT_OUT: Final = memory("what a next request leaves out", 32, _CONVERSATIONS, "the next request is stored without it")
FAILED: Final = memory("failed calls", 8, "turnmill.capture.attempts", "another attempt is another run")
HEARD: Final = memory(
    "commands that came before their run", 4, "turnmill.control.receiver", "a gateway repeats open ones", process="any"
)
STREAMED: Final = memory(
    *("runs that AG-UI requests have named", 8, "turnmill.integrations.stream_request"),
    *("a name that comes again is no new run", OLDEST_OF_MOST, "publisher"),
)
LOGGED: Final = memory("log lines of late", 1, "turnmill.kafka.client_log", "they are written again", OLDEST, "any")
