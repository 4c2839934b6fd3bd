"""The real openai package takes our items and messages by its own types, and goes on with them, from every wire."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.sdks.python_sdks import environment, problems
from tests.sdks.threads import STREAMS, exports, of_wire

LOADER = Path(__file__).with_name("openai_loader.py")
RELEASE = "3.54.0"


@cache
def found(form: str) -> dict[str, str]:
    return problems(environment("openai", RELEASE), LOADER, exports(form), form)


@pytest.mark.parametrize("dialect", STREAMS)
@pytest.mark.parametrize("form", ["openai-responses", "openai-chat"])
def test_a_conversation_is_taken_and_goes_on(form: str, dialect: str) -> None:
    assert of_wire(dialect, found(form)) == {}
