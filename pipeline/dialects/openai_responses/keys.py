"""The `meta:*` keys of turns that came over the Responses API: fields of its items that ThreadProtocol lacks.

META is not part of the canonical hash. Its value is an object, in the wire's names:

    response   status, incomplete_details, service_tier, … of the response
    text       annotations, phase, logprobs
    thinking   raw_content (the texts of `content`, where there is a summary), item (true: an item begins here)
    both       fields (the item's unknown fields)
    call       type, namespace, caller, environment, … of the item
    builtin    item (as it came, without an image's data)

REFUSAL marks the text of a refusal, on all wires. FAKE_ID is what OpenAI's Agents SDK writes where an item of another
provider has no id: no server knows it.
"""

from functools import partial
from typing import Final

from pipeline.dialects.wire_values import note_under

META: Final = "meta:openai_responses"
REFUSAL: Final = "meta:refusal"
FAKE_ID: Final = "__fake_id__"

note: Final = partial(note_under, META)
