"""Recorded histories, brought along: each comes back from its thread as the SDK's own messages."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.dialects import FORMATS
from pipeline.dialects.history import Origin, thread
from tests.corpus import compare_pi, compare_pydantic, compare_ui
from topics.thread_rules import check

HERE = Path(__file__).parent
ORIGIN = Origin("0b0c4a3e-6a53-4a9e-9d0f-0d8f4c9d1a11", "agent-1", 1_768_903_200_000)
PYDANTIC = sorted((HERE / "pydantic-ai").glob("*/*.messages.json"))
# 1.20 has no export of its own to UI messages.
PYDANTIC_UI = [path for path in sorted((HERE / "pydantic-ai").glob("*/*.ui.json")) if path.parent.name != "1.20.0"]
VERCEL = sorted((HERE / "vercel-ai").glob("*.uimessage.json"))
PI = sorted((HERE / "pi-agent").glob("*/*.messages.json"))
# A response that broke off: ThreadProtocol keeps complete cycles only.
BROKEN_OFF = {"2.68.0/model_error_midstream"}

Messages = list[dict[str, Any]]


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.name.split('.')[0]}"


def there_and_back(form: str, messages: Messages) -> Messages:
    document = thread(FORMATS[form].reader, messages, ORIGIN)
    assert [finding for finding in check(document) if finding.severity == "error"] == []
    return FORMATS[form].write(document)


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8", errors="surrogatepass"))


@pytest.mark.parametrize("path", PYDANTIC, ids=name)
def test_histories_of_pydantic_ai(path: Path) -> None:
    messages = load(path)
    kept = messages[:-1] if name(path) in BROKEN_OFF else messages
    assert compare_pydantic.full(there_and_back("pydantic-ai", messages)) == compare_pydantic.full(kept)


@pytest.mark.parametrize("path", VERCEL, ids=name)
def test_messages_of_the_ai_sdk(path: Path) -> None:
    messages = [load(path)]
    found = there_and_back("vercel-ai", messages)
    assert compare_ui.steps(found) == compare_ui.steps(messages)
    assert compare_ui.full(found) == compare_ui.full(messages)


@pytest.mark.parametrize("path", PYDANTIC_UI, ids=name)
def test_conversations_of_the_ai_sdk(path: Path) -> None:
    """Pydantic AI's own export to UI messages: whole conversations, without steps, the user's texts without state."""
    messages = load(path)
    found = there_and_back("vercel-ai", messages)
    assert compare_ui.full(found) == compare_ui.full(messages)
    assert [m["role"] for m in found] == [m["role"] for m in messages if m["role"] != "system" and m["parts"]]
    for given, got in zip(
        (m for m in messages if m["role"] == "user"), (m for m in found if m["role"] == "user"), strict=True
    ):
        assert got["id"] == given["id"]
        assert [p.get("text", p.get("url")) for p in got["parts"]] == [
            p.get("text", p.get("url")) for p in given["parts"]
        ]


@pytest.mark.parametrize("path", PI, ids=name)
def test_histories_of_pi(path: Path) -> None:
    messages = load(path)
    assert there_and_back("pi-agent", messages) == compare_pi.kept(messages)


def test_the_recordings_are_there() -> None:
    assert min(len(PYDANTIC), len(PYDANTIC_UI), len(VERCEL), len(PI)) > 80
