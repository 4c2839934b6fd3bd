"""The audit log: who changed data or read it out, which data, of which tenant, and from where.

Its lines are written at any log level. The line about a removal is written before the removal, so that nothing is
removed without a line even if the process dies in between. A line that names an action also becomes an `Entry`, which
the actor's `keep` receives.
"""

import getpass
import logging
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from topics.thread_key import ThreadKey

audit: Final = logging.getLogger("pipeline.audit")

DONE, FAILED, REFUSED = "done", "failed", "refused"
REMOVED: Final = "records.removed"  # by retention, before a role had read them; its entries are kept for ever
ERASURES: Final = ("thread.erase", "tenant.erase")  # their entries are kept after the tenant's erasure, as its proof


@dataclass(frozen=True, slots=True)
class Entry:
    """An action, at `at` (epoch ms): ids and names, never contents.

    `who`: the actor's name, "" if unknown; `token`: the id of their token or session, "" without one; `address`: the
    caller's address, "" on the command line. `subject`: the id of the object of the action. `tenant`: the object's
    tenant, "" for threads without one, None if it belongs to all. `outcome`: DONE, FAILED or REFUSED.
    """

    at: int
    who: str
    token: str
    address: str
    action: str
    subject: str
    tenant: str | None
    outcome: str


@dataclass(frozen=True, slots=True)
class Actor:
    """A person or program that acts; fields as in Entry, but `tenant` is their own. `keep` receives their entries."""

    name: str
    token: str = ""
    address: str = ""
    tenant: str | None = None
    keep: Callable[[Entry], None] | None = None


acting: Final[ContextVar[Actor | None]] = ContextVar("acting", default=None)


def of(action: str, subject: str, tenant: str | None = None, outcome: str = DONE) -> dict[str, Any]:
    """Return the fields of a log line about an action."""
    return {"action": action, "subject": subject, "tenant": tenant, "outcome": outcome}


def about(key: ThreadKey, action: str | None = None, outcome: str = DONE) -> dict[str, Any]:
    """Return the fields of a log line about a thread; with an `action`, the line also becomes an entry."""
    entry = {} if action is None else of(action, key.thread_id, key.tenant or "", outcome)
    return {"tenant": key.tenant, **entry, "thread_id": key.thread_id}


def local_user() -> str:
    """Return the user of the command line, as log lines name them."""
    name = user_name()
    return f"{name!r} on the command line" if name else "the command line"


def user_name() -> str:
    """Return the name of the user who runs this process, "" if the system has none, as in a container."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


class _Keeping(logging.Handler):
    """Passes the entries of log lines to the actor's `keep`."""

    def emit(self, record: logging.LogRecord) -> None:
        fields, actor = vars(record), acting.get()
        if "action" in fields and actor is not None and actor.keep is not None:
            who = int(record.created * 1000), actor.name, actor.token, actor.address
            actor.keep(Entry(*who, *(fields[name] for name in ("action", "subject", "tenant", "outcome"))))


audit.setLevel(logging.INFO)
audit.addHandler(_Keeping())
