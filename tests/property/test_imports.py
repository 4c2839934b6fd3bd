"""Histories that Hypothesis makes up come back from their threads as they were."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pipeline.dialects import FORMATS
from pipeline.dialects.history import Origin, thread
from tests.corpus import compare_pi, compare_pydantic, compare_ui
from tests.property import pi_streams, pydantic_streams, vercel_streams
from topics.thread_rules import check

ORIGIN = Origin("0b0c4a3e-6a53-4a9e-9d0f-0d8f4c9d1a11", "agent-1", 1_768_903_200_000)

Messages = list[dict[str, Any]]


def there_and_back(form: str, messages: Messages) -> Messages:
    document = thread(FORMATS[form].reader, messages, ORIGIN)
    assert [finding for finding in check(document) if finding.severity == "error"] == []
    return FORMATS[form].write(document)


@given(st.lists(pydantic_streams.streams(), max_size=3))
def test_histories_of_pydantic_ai(runs: list[pydantic_streams.Stream]) -> None:
    messages = [message for run in runs for message in run.messages]
    assert compare_pydantic.full(there_and_back("pydantic-ai", messages)) == compare_pydantic.full(messages)


@given(pi_streams.runs())
def test_histories_of_pi(runs: list[Messages]) -> None:
    messages = [message for run in runs for message in run]
    assert there_and_back("pi-agent", messages) == compare_pi.kept(messages)


@given(st.lists(vercel_streams.streams(), max_size=3))
def test_messages_of_the_ai_sdk(made: list[tuple[Messages, dict[str, Any]]]) -> None:
    messages = [{**truth, "id": f"m{number}"} for number, (_, truth) in enumerate(made)]
    found = there_and_back("vercel-ai", messages)
    assert compare_ui.steps(found) == compare_ui.steps(messages)
    assert compare_ui.full(found) == compare_ui.full(messages)
