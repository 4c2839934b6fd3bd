"""What answers took back: out of the conversation, kept beside it in its turn."""

from __future__ import annotations

from typing import Final

# {"messages": [{"message_type", "parts", …}, …]}, in the form of `meta:partial`; not in the canonical hash, nor exported.
RETRACTED: Final = "meta:retracted"
