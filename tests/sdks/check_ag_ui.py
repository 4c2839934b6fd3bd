"""The real AG-UI client takes our messages by its own schemas, posts them as they are, and goes on, from every wire."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.sdks import node_sdks
from tests.sdks.threads import STREAMS, exports, of_wire


@cache
def found() -> dict[str, str]:
    with TemporaryDirectory() as folder:
        got = node_sdks.run("ag_ui.mjs", exports("ag-ui"), Path(folder))
    return {name: result["problem"] for name, result in got.items() if result["problem"]}


@pytest.mark.parametrize("dialect", STREAMS)
def test_a_conversation_is_taken_and_goes_on(dialect: str) -> None:
    assert of_wire(dialect, found()) == {}
