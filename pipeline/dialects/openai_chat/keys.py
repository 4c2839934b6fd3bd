"""The `meta:*` keys of turns that came over Chat Completions: fields of its messages that ThreadProtocol lacks.

META is not part of the canonical hash. Its value is an object, in the wire's names:

    response    fields of the chunks and of the choice beside those that ThreadProtocol has (system_fingerprint,
                service_tier, native_finish_reason, logprobs, …), fields of the delta that the protocol does not know,
                finish_reason where ThreadProtocol's says less, ended_by ([DONE], of an answer without a finish_reason),
                tool_calls (fragments without a name and an id)
    thinking    key (where the server writes it: reasoning_content, reasoning), reasoning_details, thinking_blocks,
                content_blocks, reasoning_items (the blocks of all parts of the thought); in (of the parts after it)
    call        call, function (fields of the call, and of its `function`, that the protocol does not know)
    text        id, expires_at (of a transcript)
    user prompt name; blocks (its content as it came, where texts in it have other fields)
    source      annotation (as it came)

REFUSAL marks the text of a refusal, on all wires.
"""

from functools import partial
from typing import Final

from pipeline.dialects.wire_values import note_under

META: Final = "meta:openai_chat"
REFUSAL: Final = "meta:refusal"

note: Final = partial(note_under, META)
