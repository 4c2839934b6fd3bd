"""The pools of a process, each with its size, and those of a publisher's. Each tenant has a share of each pool."""

from dataclasses import dataclass
from typing import Final, Literal

LEFT_FREE: Final = "a quarter and more stays free for the others"
OLDEST_OF_MOST: Final = "where it is full, the oldest of the tenant that has most goes"
OLDEST: Final = "where it is full, the oldest of all goes"
NEWEST_OF_MOST: Final = "where it is full, the newest of the tenant that has most go"
MIB: Final = 1_048_576

Process = Literal["gateway", "worker", "publisher", "any"]


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool. `used_by`: the module that implements it; `full`: what happens to a tenant that has its whole share."""

    name: str
    unit: str
    size: int
    used_by: str
    full: str
    process: Process = "gateway"
    share: str = LEFT_FREE


def memory(name: str, megabytes: float, full: str, share: str = OLDEST_OF_MOST, process: Process = "gateway") -> Pool:
    """Return the pool of a memory (`turnmill.remembered`)."""
    return Pool(name, "bytes", int(megabytes * MIB), "turnmill.remembered", full, process, share)


CAPTURES: Final = memory("captured calls to read", 32, "its call is not captured, or with a gap", LEFT_FREE)
ANSWERS: Final = memory("answers of captured calls", 32, "a call that follows them begins a thread")
FOLLOWERS: Final = memory("which captured call follows which", 8, "a branch is no branch")
NAMED: Final = memory("runs that captured calls have named", 4, "the name, used again, is no new run")
LEFT_OUT: Final = memory("what a next request leaves out", 32, "the next request is stored without it")
FAILED: Final = memory("failed calls", 4, "another attempt is another run")
RETRIED: Final = memory("runs of failed calls that may go on", 8, "its oldest end: another attempt is another run")
STOPPED: Final = memory("stopped calls of late", 4, "another attempt is not stopped before it is sent", OLDEST)
HEARD: Final = memory("commands that came before their run", 4, "a gateway repeats open ones", process="any")
STREAMED: Final = memory("runs that requests have named", 8, "a name, used again, is no new run", process="publisher")
LOGGED: Final = memory("log lines of late", 1, "they are written again", OLDEST, "any")
# Or TURNMILL_SPOOL_BYTES. Adopted records of dead processes count, too.
SPOOLED: Final = Pool(
    *("records while no broker answers", "bytes on the disk", 1_024 * MIB),
    *("turnmill.publish.spool", "the agent waits, or records are dropped"),
    process="publisher",
    share="a publisher has its own",
)
