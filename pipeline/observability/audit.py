"""The audit log: what was removed, held or released, by whom. Its lines are written whatever the level of others.

A line of what is removed comes before it is: a process that dies in between has removed nothing without a line.
"""

from __future__ import annotations

import getpass
import logging
from typing import Any, Final

from topics.thread_key import ThreadKey

audit: Final = logging.getLogger("pipeline.audit")


def about(key: ThreadKey) -> dict[str, Any]:
    """Return the fields of a line about a thread."""
    return {"thread_id": key.thread_id, "tenant": key.tenant}


def local_user() -> str:
    """Return the user who gives a command, as a line names them."""
    try:
        return f"{getpass.getuser()!r} on the command line"
    except (OSError, KeyError):  # a container's user may have no name
        return "the command line"
