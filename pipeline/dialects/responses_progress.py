"""Events of OpenAI's Responses API that only report progress: the items contain the same."""

from __future__ import annotations

import re
from typing import Final

PROGRESS: Final = re.compile(
    r"""response\.(?:
        (?:content|reasoning|reasoning_summary)_part\. |      # a piece of an item begins, or is whole
        output_text\.annotation\. |
        [a-z_]+_call(?:_[a-z_]+)?\. |                        # a tool of the server, or what a call is made of
        (?:audio|compaction|mcp_list_tools)\.
    )""",
    re.VERBOSE,
)


def is_progress(kind: str) -> bool:
    """Return True if an event of this `type`, which no handler knows, may be dropped; new types must be kept."""
    return kind == "keepalive" or PROGRESS.match(kind) is not None
