"""What a response is billed for: its tokens, the tier that served it, and the searches of its items."""

from collections.abc import Sequence
from typing import Final

from pipeline.dialects.wire_values import number_or_none
from pipeline.turns.tokens import at, tier_of
from topics.json_text import Fields, filled, object_of

LONG_WRITES: Final = ("input_tokens_details", "cache_write_tokens_details", "ttl_12h_tokens")
SEARCHES: Final = ("tool_usage", "web_search", "num_requests")  # as OpenAI counts them
READING: Final = frozenset({"open_page", "find_in_page", "find"})  # of a page; only searches are billed
LONG: Final = "12h cache"  # the tier of a response that wrote to the cache for twelve hours, at a price of its own


def usage_of(response: Fields, items: Sequence[Fields]) -> Fields | None:
    """Return the usage of a response that has these items; None if it has none.

    OpenAI's own count of searches is used where it is told. Tokens that are kept for twelve hours cost twice as much as
    those kept for thirty minutes: they are in `cache_write_1h_tokens`, and LONG is in the tier, so that no other price
    applies.
    """
    usage: Fields = dict(object_of(response.get("usage")))
    tiers = [tier_of({"service_tier": response.get("service_tier")})]
    if long := number_or_none(at(usage, LONG_WRITES)):
        tiers.append(LONG)
        usage["cache_write_1h_tokens"] = long
    usage |= filled({"service_tier": " ".join(name for name in tiers if name)})
    searches = number_or_none(at(response, SEARCHES))
    if searches is None:
        searches = sum(map(_is_search, items))
    files = sum(item.get("type") == "file_search_call" for item in items)
    return usage | filled({"web_searches": searches, "storage_searches": files}) or None


def _is_search(item: Fields) -> bool:
    """Return True for a search of the web; older servers don't tell the action."""
    return item.get("type") == "web_search_call" and str(at(item, ("action", "type"))) not in READING
