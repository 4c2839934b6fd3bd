"""Each count that the SDKs' types of usage name is counted, or said to be no count of its own."""

from __future__ import annotations

import pytest

from pipeline.turns.tokens import COST_SPELLINGS, NO_COUNT, SPELLINGS
from tests.sdks import python_sdks

READ = {*COST_SPELLINGS, "requests", *(spelling for spellings in SPELLINGS.values() for spelling in spellings)}
ENTRIES = ("iterations.", "request_usage_entries.")  # a usage object for each call


def is_known(name: str) -> bool:
    """Whether a field is read, or stands in NO_COUNT with the end, the beginning or the whole of its name."""
    bare = next((name.removeprefix(entry) for entry in ENTRIES if name.startswith(entry)), name)
    if bare in READ:
        return True
    return any(known in (name, bare) or bare.endswith(known) or bare.startswith(f"{known}.") for known in NO_COUNT)


@pytest.mark.parametrize(
    "sdk", ["openai", "anthropic", "google-genai", "langgraph", "pydantic-ai-2.68.0", "openai-agents"]
)
def test_every_field_of_usage_is_counted_or_said_not_to_be(sdk: str) -> None:
    types = python_sdks.run(sdk, "usage_types.py")
    assert types
    assert all(names for names in types.values()), types
    unknown = {wire: [name for name in names if not is_known(name)] for wire, names in types.items()}
    assert not any(unknown.values()), unknown
