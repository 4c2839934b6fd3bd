"""The real openai package takes our items and messages by its own types, and goes on with them, from every wire."""

from functools import cache

import pytest

from tests.sdks.python_sdks import problems
from tests.sdks.threads import STREAMS, exports, of_wire


@cache
def found(form: str) -> dict[str, str]:
    return problems("openai", "openai_loader.py", exports(form), form)


@pytest.mark.parametrize("dialect", STREAMS)
@pytest.mark.parametrize("form", ["openai-responses", "openai-chat"])
def test_a_conversation_is_taken_and_goes_on(form: str, dialect: str) -> None:
    assert of_wire(dialect, found(form)) == {}
