"""The runner of OpenAI's Agents SDK takes our items, tells its model all of them, and goes on, from every wire."""

from functools import cache

import pytest

from tests.sdks.python_sdks import problems
from tests.sdks.threads import STREAMS, exports, of_wire


@cache
def found() -> dict[str, str]:
    return problems("openai-agents", "openai_agents_loader.py", exports("openai-responses"))


@pytest.mark.parametrize("dialect", STREAMS)
def test_a_conversation_is_taken_and_goes_on(dialect: str) -> None:
    assert of_wire(dialect, found()) == {}
