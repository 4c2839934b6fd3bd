"""What a gateway says in a header that a call has cost, put into the usage of the call's answer. Pure.

It is said before a stream begins, so most streams have no such header, or it is empty or zero: then nothing is known.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

Fields = dict[str, Any]
# Headers with US dollars as decimal text. Cloudflare, Portkey, Helicone and Bifrost document none (November 2026).
HEADERS: Final = (
    "x-litellm-response-cost",  # LiteLLM 1.110 (docs.litellm.ai/docs/proxy/response_headers), with fees and discounts
    "x-nr-request-cost",  # nRouter 3.1 (docs.rs/nrouter), absent for a model without a price
)
# Where the events of captured wires have usage: in these objects, or directly; under these names.
WITHIN: Final = ("response", "message")
USAGE: Final = ("usage", "usageMetadata")
WHOLE: Final = frozenset({"chat.completion", "response", "message"})  # `object` or `type` of whole answers


def told_cost(headers: Mapping[str, str]) -> float | None:
    """Return the cost in US dollars; None if it is unknown. Names of headers are in lower case."""
    for name in HEADERS:
        try:
            dollars = float(headers.get(name, ""))
        except ValueError:
            continue
        if math.isfinite(dollars) and dollars > 0:  # 0 is also what gateways say of a model whose price they don't know
            return dollars
    return None


def with_cost(event: Fields, dollars: float) -> Fields:
    """Return an event, with the cost in its usage, if that tells none itself; a whole answer gets usage for it."""
    for name in USAGE:
        usage = event.get(name)
        if isinstance(usage, dict) and usage:
            told = any("cost" in key and value is not None for key, value in usage.items())
            return event if told else {**event, name: {**usage, "cost_usd": dollars}}
    for name in WITHIN:
        inner = event.get(name)
        if isinstance(inner, dict) and any(inner.get(kind) for kind in USAGE):
            return {**event, name: with_cost(inner, dollars)}
    whole = event.get("object") or event.get("type")
    return {**event, "usage": {"cost_usd": dollars}} if isinstance(whole, str) and whole in WHOLE else event
