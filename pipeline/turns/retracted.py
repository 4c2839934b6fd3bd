"""What answers took back: out of the conversation, kept beside it in its turn."""

from __future__ import annotations

from typing import Final

# {"messages": […]}, in the form of `meta:partial`; not in the canonical hash, and in no export of messages.
RETRACTED: Final = "meta:retracted"
