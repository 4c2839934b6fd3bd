"""The `meta:*` key of turns that came over the Messages API: fields of its messages that ThreadProtocol lacks.

META is not part of the canonical hash. Its value is an object, in the wire's names:

    response      stop_reason, stop_sequence, stop_details, container, context_management, … of the message
    text          citations
    thinking      type (thinking, redacted_thinking)
    call, result  type (tool_use, server_tool_use, web_search_tool_result, …), caller, server_name, …
    prompt, file  fields of the block beside its content (title, context, citations, …)
"""

from functools import partial
from typing import Final

from pipeline.dialects.wire_values import note_under

META: Final = "meta:anthropic"

note: Final = partial(note_under, META)
