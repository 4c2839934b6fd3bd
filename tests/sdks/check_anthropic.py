"""The real anthropic package takes our messages by its own types, and goes on with them, from every wire."""

from functools import cache

import pytest

from tests.sdks.python_sdks import problems
from tests.sdks.threads import STREAMS, exports, of_wire

# They hold a block that no release knows, and it goes back to the API that sent it.
UNKNOWN = {"anthropic: anthropic/unknown-everything", "claude-code: claude-code/lines-unknown"}


@cache
def found() -> dict[str, str]:
    given = {name: messages for name, messages in exports("anthropic").items() if name not in UNKNOWN}
    return problems("anthropic", "anthropic_loader.py", given)


@pytest.mark.parametrize("dialect", STREAMS)
def test_a_conversation_is_taken_and_goes_on(dialect: str) -> None:
    assert of_wire(dialect, found()) == {}
