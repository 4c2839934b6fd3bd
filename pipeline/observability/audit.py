"""The audit log: who changed something or read it out, what, whose, and from where.

Its lines are written whatever the level of others. A line of what is removed comes before it is: a process that dies in
between has removed nothing without a line. A line that names an action is also an `Entry` for whoever keeps them.
"""

from __future__ import annotations

import getpass
import logging
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from topics.thread_key import ThreadKey

audit: Final = logging.getLogger("pipeline.audit")

DONE, FAILED, REFUSED = "done", "failed", "refused"
ERASURES: Final = ("thread.erase", "tenant.erase")  # their entries outlast the tenant: they prove that it is gone


@dataclass(frozen=True, slots=True)
class Entry:
    """An action, at `at` (epoch ms): ids and names, never contents.

    `who`: a name, "" of somebody unknown; `token`: the id of their token or session, "" without one; `address`: where
    they called from, "" on the command line. `subject`: the id of what it was done to. `tenant`: whose that is, "" for
    threads without one, None for what is of all. `outcome`: DONE, FAILED or REFUSED.
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
    """Who acts, as in an entry; `tenant`: their own. `keep` takes their entries, where somebody keeps them."""

    name: str
    token: str = ""
    address: str = ""
    tenant: str | None = None
    keep: Callable[[Entry], None] | None = None


acting: Final[ContextVar[Actor | None]] = ContextVar("acting", default=None)


def of(action: str, subject: str, tenant: str | None = None, outcome: str = DONE) -> dict[str, Any]:
    """Return the fields of a line that tells of an action."""
    return {"action": action, "subject": subject, "tenant": tenant, "outcome": outcome}


def about(key: ThreadKey, action: str | None = None, outcome: str = DONE) -> dict[str, Any]:
    """Return the fields of a line about a thread; `action`: what was done to it, for an entry."""
    told = {} if action is None else of(action, key.thread_id, key.tenant or "", outcome)
    return {"tenant": key.tenant, **told, "thread_id": key.thread_id}


def local_user() -> str:
    """Return the user who gives a command, as a line names them."""
    name = user_name()
    return f"{name!r} on the command line" if name else "the command line"


def user_name() -> str:
    """Return the name of the user who runs this process, "" where the system has none, as in a container."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


class _Keeping(logging.Handler):
    """Hands the entries of lines to whoever keeps those of the actor."""

    def emit(self, record: logging.LogRecord) -> None:
        said, actor = vars(record), acting.get()
        if "action" in said and actor is not None and actor.keep is not None:
            who = int(record.created * 1000), actor.name, actor.token, actor.address
            actor.keep(Entry(*who, *(said[name] for name in ("action", "subject", "tenant", "outcome"))))


audit.setLevel(logging.INFO)
audit.addHandler(_Keeping())
