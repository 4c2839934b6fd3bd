"""The `meta:*` keys of turns that came over the Responses API: what its items say beyond ThreadProtocol.

META is out of the canonical hash. Its value is an object, in the wire's own names:

    response   status, incomplete_details, service_tier, … of the response
    text       annotations, phase
    thinking   raw_content (the texts of `content`, where there is a summary), item (true: an item begins here)
    call       type, namespace, caller, environment, … of the item
    builtin    item (as it came, without an image's data)

REFUSAL marks the text of a refusal, on all wires.
"""

from __future__ import annotations

from typing import Any, Final

from topics.json_text import Fields

META: Final = "meta:openai_responses"
REFUSAL: Final = "meta:refusal"


def note(fields: Fields, /, **said: Any) -> None:
    """Keep what is not None under META."""
    found = {key: value for key, value in said.items() if value is not None}
    if found:
        fields[META] = {**fields.get(META, {}), **found}
