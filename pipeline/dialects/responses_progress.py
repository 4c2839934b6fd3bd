"""Events of OpenAI's Responses API: its texts as they grow, and those that only report progress of an item."""

import re
from typing import Final

from pipeline.assembly.dialect import Delta

DELTAS: Final[dict[str | None, tuple[Delta, ...]]] = {
    "response.output_text.delta": (Delta("text", ("delta",)),),
    "response.refusal.delta": (Delta("text", ("delta",)),),
    "response.reasoning_summary_text.delta": (Delta("thinking", ("delta",)),),
    "response.reasoning_text.delta": (Delta("thinking", ("delta",)),),
}
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
