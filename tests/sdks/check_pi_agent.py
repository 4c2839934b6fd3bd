"""The real pi-agent-core takes our messages as an agent's history, tells its model all of them, and goes on."""

from pathlib import Path

import pytest

from pipeline.dialects.pi_agent.formats import messages
from tests.sdks import node_sdks
from tests.sdks.threads import RUNS, STREAMS, all_threads

TOLD = ("user", "assistant", "toolResult")  # an application's own messages are not for the model


@pytest.mark.parametrize("dialect", STREAMS)
def test_an_agent_goes_on_with_every_history(dialect: str, tmp_path: Path) -> None:
    given = {name: messages(thread) for name, thread in all_threads(dialect)}
    assert len(given) > (60 if dialect in RUNS else 15)
    got = node_sdks.run("pi_agent.mjs", given, tmp_path)
    assert {name: result["problem"] for name, result in got.items() if result["problem"]} == {}
    told = {name: [message for message in said if message["role"] in TOLD] for name, said in given.items()}
    assert {name: result["told"] for name, result in got.items()} == node_sdks.as_javascript_reads(told)
