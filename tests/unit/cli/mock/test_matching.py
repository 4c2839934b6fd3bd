"""Which recorded call a request means, and how one that nobody made differs."""

from typing import Any

import pytest

from pipeline.cli.mock.calls import Call, Reply, frozen, thawed
from pipeline.cli.mock.matching import Tape
from pipeline.turns.redaction import Redaction
from pipeline.worker.assemble.redaction_rules import rules_of
from turnmill.errors import CallerError

TOOL = {"type": "function", "function": {"name": "look"}}
SAID = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather?"}]
BODY: dict[str, Any] = {"model": "gpt-5", "temperature": 0, "tools": [TOOL], "messages": SAID}


def call(answer: str = "Rain.", request: dict[str, Any] = BODY, dialect: str = "openai-chat", **more: Any) -> Call:
    reply = Reply([(0, {"text": answer})])
    return Call(
        **{"dialect": dialect, "run": "r", "request": request, "settings": True, **more}, whole=reply, stream=reply
    )


def texts(tape: Tape, *bodies: dict[str, Any]) -> list[str]:
    found = [tape.match("openai-chat", body).call for body in bodies]
    return [one.whole.events[0][1]["text"] for one in found if one is not None]


def test_equal_requests_get_the_answers_in_order_and_then_the_last_again() -> None:
    tape = Tape([call("one"), call("two")])
    assert [one.whole.events[0][1]["text"] for one in tape.unused] == ["one", "two"]
    assert texts(tape, BODY, BODY, BODY) == ["one", "two", "two"]
    assert tape.unused == []


def test_a_stream_is_the_same_request() -> None:
    assert (
        Tape([call()], strict=True).match("openai-chat", {**BODY, "stream": True, "stream_options": {}}).problem == ""
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"messages": [SAID[0], {"role": "user", "content": "Snow?"}]},
            "message 1 was user: 'Weather?', and is user: 'Snow?'",
        ),
        (
            {"messages": [*SAID, {"role": "assistant", "content": "No."}]},
            "message 2 was nothing, and is assistant: 'No.'",
        ),
        ({"messages": [{"role": "system", "content": "Be long."}, SAID[1]]}, "messages[0] was"),
        ({"tools": [TOOL, TOOL]}, "tools[1] was null, and is {"),
        ({"tools": None}, "tools was ["),
    ],
    ids=["words", "more", "system", "tool", "no-tools"],
)
def test_another_request_shows_how_it_differs(change: dict[str, Any], told: str) -> None:
    found = Tape([call()]).match("openai-chat", {**BODY, **change})
    assert found.call is None
    assert f"of call 1 of 1 (run r), {told}" in found.problem


def test_the_nearest_call_is_compared() -> None:
    later = {
        **BODY,
        "messages": [*SAID, {"role": "assistant", "content": "Rain."}, {"role": "user", "content": "And now?"}],
    }
    asked = {**later, "messages": [*later["messages"][:-1], {"role": "user", "content": "Really?"}]}
    assert (
        "of call 2 of 2 (run r), message 3 was user: 'And now?'"
        in Tape([call(), call(request=later)]).match("openai-chat", asked).problem
    )


def test_a_call_of_another_api_is_none() -> None:
    assert "its calls are of: openai-chat" in Tape([call()]).match("anthropic", BODY).problem


def test_other_parameters_are_warnings_unless_all_must_be_equal() -> None:
    asked = {**BODY, "temperature": 1}
    found = Tape([call()]).match("openai-chat", asked)
    assert (found.call is not None, found.warnings) == (True, ("temperature was 0, and is 1",))
    strict = Tape([call()], strict=True)
    assert strict.match("openai-chat", asked).call is None
    assert len(strict.unused) == 1


def test_a_call_whose_settings_are_not_known_is_found_by_its_messages() -> None:
    bare = call(request={"messages": SAID[1:]}, settings=False)
    assert texts(Tape([bare], strict=True), BODY) == ["Rain."]


def test_where_the_server_has_the_history_the_new_messages_count() -> None:
    first = {"model": "m", "input": [{"role": "user", "content": "One?"}]}
    second = {
        "model": "m",
        "input": [*first["input"], {"role": "assistant", "content": "1"}, {"role": "user", "content": "Two?"}],
    }
    tape = Tape([call("1", first, "openai-responses"), call("2", second, "openai-responses")])
    asked = {"model": "m", "previous_response_id": "resp_1", "input": "Two?"}
    found = tape.match("openai-responses", asked).call
    assert found is tape.calls[1]


def test_a_thread_of_the_server_has_its_prompt_and_tools_too() -> None:
    """As anthropic 2.14 continues one: the new messages alone."""
    kept = {"model": "m", "system": "be brief", "tools": [{"name": "f"}]}
    first = [{"role": "user", "content": "One?"}]
    second = [*first, {"role": "assistant", "content": "1"}, {"role": "user", "content": "Two?"}]
    recorded = [{**kept, "messages": said, "thread": {"type": "create"}} for said in (first, second)]
    tape = Tape([call(str(n), body, "anthropic") for n, body in enumerate(recorded)])
    thread = {"type": "continue", "previous_message_id": "msg_1"}
    asked = {"model": "m", "messages": second[2:], "thread": thread}
    assert tape.match("anthropic", asked).call is tape.calls[1]
    assert tape.match("anthropic", {**asked, "system": "be long"}).call is None


def test_requests_are_redacted_before_they_are_compared() -> None:
    stored = {**BODY, "messages": [SAID[0], {"role": "user", "content": "Write to [email]"}]}
    asked = {**BODY, "messages": [SAID[0], {"role": "user", "content": "Write to ann@example.org"}]}
    assert texts(Tape([call(request=stored)], redaction=Redaction(rules_of("email"))), asked) == ["Rain."]


def test_credentials_of_tools_are_not_compared() -> None:
    tools = [{"type": "mcp", "server_url": "https://x.example", "authorization": "***"}]
    given = [{**tools[0], "authorization": "sk-very-secret"}]
    tape = Tape([call(request={"input": "Hi", "tools": tools}, dialect="openai-responses")])
    assert tape.match("openai-responses", {"input": "Hi", "tools": given}).call is not None


def test_a_fixture_is_read_as_it_was_written() -> None:
    calls = [call(), call("two", settings=False)]
    (one, two) = thawed(frozen(calls), "f")
    assert (one.request, two.settings, two.stream.events[0][1]) == (BODY, False, {"text": "two"})
    assert len(frozen(calls).splitlines()) == 4


@pytest.mark.parametrize("text", ["", "[]", '{"turnmill_mock": 2}', '{"turnmill_mock": 1, "calls": [{}]}'])
def test_another_file_is_no_fixture(text: str) -> None:
    with pytest.raises(CallerError, match="is no fixture"):
        thawed(text, "f")
