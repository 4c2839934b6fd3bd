"""The real AI SDK accepts our UI messages, and tells its model what they say."""

import re
from pathlib import Path
from typing import Any

import pytest

from pipeline.dialects.vercel_ai.export import messages
from tests.sdks import node_sdks
from tests.sdks.threads import RUNS, STREAMS, all_threads

SDKS = ("ai-5", "ai-6", "ai-7")
ONLY_7 = ("reasoning-file", "custom", "steering-message")  # kinds of parts that the versions before refuse
URL = re.compile(r"[a-z]+:")


def texts(said: list[dict[str, Any]]) -> list[str]:
    parts = [part for message in said if message["role"] == "assistant" for part in message["parts"]]
    return [part["text"] for part in parts if part["type"] == "text"]


def is_for(sdk: str, said: list[dict[str, Any]]) -> bool:
    """Whether the SDK takes such messages at all; 7 also reads the addresses of files, which must be some."""
    parts = [part for message in said for part in message["parts"]]
    if sdk != "ai-7":
        return not any(part["type"] in ONLY_7 for part in parts)
    return all(URL.match(part.get("url", "none:")) for part in parts if part["type"] in ("file", "reasoning-file"))


@pytest.mark.parametrize("dialect", STREAMS)
@pytest.mark.parametrize("sdk", SDKS)
def test_the_sdk_accepts_every_conversation(sdk: str, dialect: str, tmp_path: Path) -> None:
    given = {name: found for name, thread in all_threads(dialect) if (found := messages(thread))}
    given = {name: said for name, said in given.items() if is_for(sdk, said)}
    assert len(given) > (60 if dialect in RUNS else 15)
    got = node_sdks.run("ai_sdk.mjs", given, tmp_path, sdk)
    assert {name: result["problem"] for name, result in got.items() if result["problem"]} == {}
    assert {name: result["said"] for name, result in got.items()} == {name: texts(said) for name, said in given.items()}
