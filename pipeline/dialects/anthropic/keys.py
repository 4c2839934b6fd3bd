"""The `meta:*` key of turns that came over the Messages API: what its messages say beyond ThreadProtocol.

META is out of the canonical hash. Its value is an object, in the wire's own names:

    response      stop_reason, stop_sequence, stop_details, container, context_management, … of the message
    text          citations
    thinking      type (thinking, redacted_thinking)
    call, result  type (tool_use, server_tool_use, web_search_tool_result, …), caller, server_name, …
    prompt, file  fields of the block beside its content (title, context, citations, …)
"""

from __future__ import annotations

from typing import Any, Final

from topics.json_text import Fields

META: Final = "meta:anthropic"


def note(fields: Fields, /, **said: Any) -> None:
    """Keep what is not None under META."""
    found = {key: value for key, value in said.items() if value is not None}
    if found:
        fields[META] = {**fields.get(META, {}), **found}
