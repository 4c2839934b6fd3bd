"""What JavaScript's SDKs read of an agent's large numbers: the nearest double or a text, and never nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.dialects import FORMATS
from pipeline.dialects.history import Origin, thread
from tests.sdks import node_sdks
from tests.support.assembled import START, THREAD_ID

HUGE = 10**400  # JavaScript would read infinity, and write null
ARGUMENTS = {"exact": 2**53, "rounded": 12345678901234567890, "small": -(2**63), "huge": HUGE, "least": [-HUGE]}
READ = {"exact": 2**53, "rounded": 12345678901234567000, "small": -(2**63), "huge": str(HUGE), "least": [str(-HUGE)]}


def thread_of_numbers() -> dict[str, Any]:
    """What an agent of Python may have: a call with large numbers, and a result with them."""
    call = {"part_kind": "tool-call", "tool_name": "count", "tool_call_id": "c", "args": ARGUMENTS}
    result = {"part_kind": "tool-return", "tool_name": "count", "tool_call_id": "c", "content": ARGUMENTS}
    history = [
        {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "Count."}]},
        {"kind": "response", "parts": [call]},
        {"kind": "request", "parts": [result]},
        {"kind": "response", "parts": [{"part_kind": "text", "content": "Done."}]},
    ]
    reader = FORMATS["pydantic-ai"].reader
    assert reader is not None
    return thread(reader, history, Origin(THREAD_ID, "agent", START))


def as_read(value: dict[str, Any]) -> dict[str, Any]:
    """Doubles that are integers, compared as such."""
    return {key: float(item) if isinstance(item, int) else item for key, item in value.items()}


@pytest.mark.parametrize("sdk", ["ai-5", "ai-6", "ai-7"])
def test_the_ai_sdk_tells_its_model_doubles_and_texts(sdk: str, tmp_path: Path) -> None:
    given = {"numbers": FORMATS["vercel-ai"].write(thread_of_numbers())}
    got = node_sdks.run("ai_sdk.mjs", given, tmp_path, sdk)["numbers"]
    assert got["problem"] is None
    assert [as_read(value) for value in got["called"]] == [as_read(READ)]
    assert [as_read(value) for value in got["given"]] == [as_read(READ)]


def test_pi_tells_its_model_doubles_and_texts(tmp_path: Path) -> None:
    given = {"numbers": FORMATS["pi-agent"].write(thread_of_numbers())}
    got = node_sdks.run("pi_agent.mjs", given, tmp_path)["numbers"]
    assert got["problem"] is None
    _, called, told, _ = got["told"]
    assert as_read(called["content"][0]["arguments"]) == as_read(READ)
    assert json.loads(told["content"][0]["text"]) == ARGUMENTS, "a result is text, and exact"


def test_ag_uis_client_posts_them_exactly(tmp_path: Path) -> None:
    messages = FORMATS["ag-ui"].write(thread_of_numbers())
    assert node_sdks.run("ag_ui.mjs", {"numbers": messages}, tmp_path)["numbers"]["problem"] is None
    assert json.loads(messages[1]["toolCalls"][0]["function"]["arguments"]) == ARGUMENTS
    assert json.loads(messages[2]["content"]) == ARGUMENTS
