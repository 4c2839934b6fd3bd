"""Names and ids of tool calls as models' servers take them."""

from typing import Any

import pytest

from pipeline.dialects import FORMATS
from pipeline.dialects.exports import OwnIds
from pipeline.dialects.history import Origin, thread
from pipeline.turns.newest_results import with_newest_results
from tests.support.assembled import START, THREAD_ID, Assembled, assembled


def called(*ids: str) -> dict[str, Any]:
    function = {"name": "f", "arguments": "{}"}
    return {"role": "assistant", "tool_calls": [{"id": i, "type": "function", "function": function} for i in ids]}


def told(identity: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": identity, "content": content}


# As of a server that counts from 0 in each answer.
MESSAGES = [
    {"role": "user", "content": "Go."},
    called("0"),
    told("0", "a"),
    called("0", "1"),
    told("0", "b"),
    told("1", "c"),
    called("0"),
    told("0", "d"),
    {"role": "assistant", "content": "Done."},
]


def exported(form: str) -> list[dict[str, Any]]:
    reader = FORMATS["openai-chat"].reader
    assert reader is not None
    return FORMATS[form].write(thread(reader, MESSAGES, Origin(THREAD_ID, "agent", START)))


def test_later_calls_of_an_id_get_a_number_that_no_other_has() -> None:
    ids = OwnIds(["0", "0_2"])
    assert [ids.of_call("0"), ids.of_call("0"), ids.of_call("0_2"), ids.of_call("0")] == ["0", "0_3", "0_2", "0_4"]
    assert [ids.of_result("0") for _ in range(4)] == ["0", "0_3", "0_4", "0"]


def test_results_of_responses_items_stay_with_their_calls() -> None:
    items = exported("openai-responses")
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    results = [(item["call_id"], item["output"]) for item in items if item.get("type") == "function_call_output"]
    assert calls == ["0", "0_2", "1", "0_3"]
    assert results == [("0", "a"), ("0_2", "b"), ("1", "c"), ("0_3", "d")]


def test_results_of_anthropics_messages_stay_with_their_calls() -> None:
    blocks = [
        b for message in exported("anthropic") if isinstance(message["content"], list) for b in message["content"]
    ]
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    results = [(block["tool_use_id"], block["content"]) for block in blocks if block["type"] == "tool_result"]
    assert calls == ["0", "0_2", "1", "0_3"]
    assert results == [("0", "a"), ("0_2", "b"), ("1", "c"), ("0_3", "d")]


def adk(author: str, **part: Any) -> dict[str, Any]:
    role = "model" if "functionCall" in part or "text" in part else "user"
    return {"author": author, "content": {"role": role, "parts": [part]}}


def answer(status: str) -> dict[str, Any]:
    return {"id": "c1", "name": "book", "response": {"status": status}}


def long_running(*answers: dict[str, Any]) -> Assembled:
    """A tool of ADK that takes long: it tells that it has begun, and the client sends the result later."""
    call = adk("helper", functionCall={"id": "c1", "name": "book", "args": {}})
    return assembled("google-adk", [call, *answers, adk("helper", text="Room 12 is booked.")], end="complete")


@pytest.mark.parametrize("form", sorted(name for name, form in FORMATS.items() if not form.is_document))
def test_the_newest_result_of_a_call_is_in_each_export_once(form: str) -> None:
    pending = adk("helper", functionResponse=answer("pending"))
    done = adk("user", functionResponse=answer("approved"))
    got = long_running(pending, adk("helper", text="Please wait."), done)
    assert [part["content"]["status"] for part in got.parts("request")] == ["pending", "approved"]
    written = str(FORMATS[form].made(got.document))
    assert (written.count("pending"), written.count("approved")) == (0, 1)
    assert written.index("approved") < written.index("Please wait.") < written.index("Room 12")
    twice = str(FORMATS[form].made(long_running(done, done).document))
    assert twice.count("approved") == 1


def test_results_of_several_calls_of_one_id_all_stay() -> None:
    reader = FORMATS["openai-chat"].reader
    assert reader is not None
    document = thread(reader, MESSAGES, Origin(THREAD_ID, "agent", START))
    assert with_newest_results(document) is document
