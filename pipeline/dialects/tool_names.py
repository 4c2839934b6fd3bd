"""Names and ids of tool calls as models' servers take them: they refuse a conversation that has others.

Threads hold what each wire said: names with dots and slashes, of other scripts or none at all, and ids that some SDK
made up. A character that servers refuse becomes `_`; an empty name or id becomes a word.
"""

from __future__ import annotations

import re
from typing import Final

ODD: Final = re.compile(r"[^a-zA-Z0-9_-]")


def tool_name(name: object) -> str:
    """-> letters, digits, `_` and `-`."""
    return ODD.sub("_", str(name or "unnamed"))


def call_id(identity: object) -> str:
    """-> letters, digits, `_` and `-`, as Anthropic's API asks."""
    return ODD.sub("_", str(identity or "call"))
