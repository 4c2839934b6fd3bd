"""Histories that LangChain writes anew, by the real package: nothing old comes again, nothing that was said is gone.

Part of `make test-sdks`; no broker is needed, since what can't be sent is in the spool.
"""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.sdks.python_sdks import run
from tests.sdks.recordings import by_run, turns
from tests.support.spools import away
from tests.support.workers import environment

RUNS = range(1, 6)
FORMS = ("values, messages, updates", "messages, updates", "values", "updates", "events")


@cache
def found() -> dict[str, list[dict[str, Any]]]:
    with TemporaryDirectory() as folder:
        settings = away(Path(folder))
        run("langchain", "langchain_summaries.py", variables=environment(settings))
        return by_run(settings)


@pytest.mark.parametrize("number", RUNS)
@pytest.mark.parametrize("agent", ["words", "tools"])
@pytest.mark.parametrize("form", FORMS)
def test_each_run_has_its_own_words_alone(form: str, agent: str, number: int) -> None:
    (*asked, answered), refused = turns(found()[f"{form}: {agent} {number}"])
    assert refused == []
    cities = ["Paris", "Rome"] if agent == "tools" else []
    spoken = [message for message in answered["messages"] if message["message_type"] == "response"]
    answers = [message for message in spoken if "meta:purpose" not in message]
    texts = [part["content"] for message in answers for part in message["parts"] if part["part_kind"] == "text"]
    assert texts == [*(f"Look at {city}." for city in cities), f"Answer {number}."]
    calls = [part["args"]["city"] for message in answers for part in message["parts"] if "args" in part]
    results = [
        part["tool_call_id"] for m in answered["messages"] if m["message_type"] == "request" for part in m["parts"]
    ]
    assert calls == results == cities
    assert [message["usage"]["input_tokens"] for message in answers] == [20] * len(answers)
    summaries = [
        m["event_data"] for m in answered["messages"] if m.get("event_type") == "custom:langgraph.notification"
    ]
    assert all(data["source"] == "summarization" for data in summaries)
    assert bool(summaries) == (bool(cities) or number > 2)
    assert len({data["id"] for data in summaries}) == len(summaries)
    if "values" in form or form == "events" or number > 2:  # else no event has the words, as docs say
        assert [part["content"] for turn in asked for part in turn["parts"]] == [f"Question {number}?"]
