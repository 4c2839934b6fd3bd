"""A real graph takes our LangChain messages into its state, and its model goes on with them, from every wire."""

from functools import cache

import pytest

from tests.sdks.python_sdks import problems
from tests.sdks.threads import STREAMS, exports, of_wire

# The state takes them; but OpenAI's model, behind it here, has no such names of tools, and no audio by its address.
NOT_FOR_OPENAI = ("hostile-empty-ids", "hostile-odd-tool-names", "oc_unicode", "prompt_urls")


@cache
def found() -> dict[str, str]:
    given = {name: said for name, said in exports("langchain").items() if not any(map(name.count, NOT_FOR_OPENAI))}
    return problems("langgraph", "langchain_loader.py", given)


@pytest.mark.parametrize("dialect", STREAMS)
def test_a_conversation_is_taken_and_goes_on(dialect: str) -> None:
    assert of_wire(dialect, found()) == {}
