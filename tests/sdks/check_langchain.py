"""A real graph takes our LangChain messages into its state, and its model goes on with them, from every wire."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.sdks.python_sdks import environment, problems
from tests.sdks.threads import STREAMS, exports, of_wire

LOADER = Path(__file__).with_name("langchain_loader.py")
RELEASE = "1.2.22"
NEEDS = ("langchain-core==1.7.2", "langchain-openai==1.7.3")
# The state takes them; but OpenAI's model, behind it here, has no such names of tools, and no audio by its address.
NOT_FOR_OPENAI = ("hostile-empty-ids", "hostile-odd-tool-names", "oc_unicode", "prompt_urls")


@cache
def found() -> dict[str, str]:
    given = {name: said for name, said in exports("langchain").items() if not any(map(name.count, NOT_FOR_OPENAI))}
    return problems(environment("langgraph", RELEASE, *NEEDS), LOADER, given)


@pytest.mark.parametrize("dialect", STREAMS)
def test_a_conversation_is_taken_and_goes_on(dialect: str) -> None:
    assert of_wire(dialect, found()) == {}
