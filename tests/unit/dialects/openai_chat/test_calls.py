"""Runs of several calls: what is new in a request, what was tried again, what is resent."""

from typing import Any

from tests.support.assembled import Assembled
from tests.support.chat_chunks import USER, calls, chunk, fragment, request, run, status

SYSTEM = {"role": "system", "content": "be brief"}
CALLED = {"role": "assistant", "content": None, "tool_calls": [{"id": "a", **fragment("{}", name="f")}]}
RESULT = {"role": "tool", "tool_call_id": "a", "content": "72F"}
CALL = [calls(fragment("{}", index=0, id="a", name="f")), chunk({}, "tool_calls")]
ANSWER = [chunk({"content": "72F."}), chunk({}, "stop")]


def said(got: Assembled) -> list[Any]:
    messages = [message for turn in got.agent_turns for message in turn["messages"]]
    return [[part.get("content", part.get("tool_call_id")) for part in message["parts"]] for message in messages]


def prompts(got: Assembled) -> list[Any]:
    return [part["content"] for turn in got.user_turns for part in turn["parts"]]


def test_results_and_words_of_the_user_stand_behind_the_response() -> None:
    more = {"role": "user", "content": [{"type": "text", "text": "hurry"}]}
    got = run(request(SYSTEM, USER), *CALL, request(SYSTEM, USER, CALLED, RESULT, more), *ANSWER)
    assert said(got) == [["a"], ["72F", "hurry"], ["72F."]]
    assert got.parts("request")[0]["tool_name"] == "f"
    assert prompts(got) == ["Weather?"]
    assert status(got) == "complete"


def test_a_trimmed_history_is_not_repeated() -> None:
    got = run(request(SYSTEM, USER), *CALL, request(CALLED, RESULT), *CALL, request(SYSTEM, CALLED, RESULT), *ANSWER)
    assert said(got) == [["a"], ["72F"], ["a"], ["72F"], ["72F."]]


def test_a_call_that_broke_off_and_is_asked_again_drops_out() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 1}
    got = run(request(USER), chunk({"content": "half"}, usage=usage), request(USER, temperature=1), *ANSWER)
    answer, retry = got.messages("response")
    assert ([part["content"] for part in answer["parts"]], "usage" in answer) == (["72F."], False)
    assert (retry["parts"], retry["meta:purpose"], retry["model_name"]) == ([], "retry", "m"), "it is billed"
    assert got.agent_turns[0]["total_usage"] == {"input_tokens": 5, "output_tokens": 1}
    assert prompts(got) == ["Weather?"]
    got = run(request(USER), chunk({"content": "half"}), request(USER, temperature=1), *ANSWER)
    assert (said(got), "total_usage" in got.agent_turns[0]) == ([["72F."]], False)


def test_another_question_after_a_call_that_broke_off_is_no_retry() -> None:
    more = {"role": "user", "content": "mend it"}
    got = run(request(USER), chunk({"content": "half"}), request(USER, more), *ANSWER)
    assert said(got) == [["mend it"], ["72F."]]


def test_a_run_whose_last_call_asks_for_tools_is_complete() -> None:
    for end in ("complete", "disconnected", None):
        got = run(request(USER), *CALL, end=end)
        assert (status(got), said(got)) == ("complete", [["a"]])


def test_a_request_without_an_answer_leaves_the_run_interrupted() -> None:
    got = run(request(USER), *CALL, request(USER, CALLED, RESULT), end="complete")
    assert status(got) == "interrupted"
    assert said(got) == [["a"], ["72F"]]


def test_an_id_that_comes_again_belongs_to_the_newest_call() -> None:
    history = [USER, CALLED, RESULT, CALLED, {**RESULT, "content": "73F"}]
    got = run(request(USER), *CALL, request(*history[:3]), *CALL, request(*history), *ANSWER)
    assert said(got) == [["a"], ["72F"], ["a"], ["73F"], ["72F."]]


def test_calls_without_ids_get_those_of_their_results() -> None:
    nameless = [calls(fragment("{}", index=0, name="f")), chunk({}, "tool_calls")]
    got = run(request(USER), *nameless, request(USER, CALLED, RESULT), *ANSWER)
    assert said(got) == [["a"], ["72F"], ["72F."]]


def test_a_first_request_with_results_answers_an_earlier_run() -> None:
    got = run(request(USER, CALLED, RESULT), *ANSWER)
    assert said(got) == [["72F"], ["72F."]]
    assert got.parts("request")[0]["tool_name"] == "f"
    assert prompts(got) == []


def test_the_history_of_earlier_runs_is_not_repeated() -> None:
    before = [USER, {"role": "assistant", "content": "72F."}]
    got = run(request(SYSTEM, *before, {"role": "user", "content": "And now?"}), *ANSWER)
    assert prompts(got) == ["And now?"]


def test_the_runs_own_request_is_the_first_calls() -> None:
    body = {"messages": [SYSTEM, USER]}
    assert prompts(run(*ANSWER, run={"request": body})) == ["Weather?"]
    assert prompts(run(request(USER), *ANSWER, run={"request": body})) == ["Weather?"]
    assert prompts(run(run={"request": body})) == ["Weather?"]


def test_the_same_old_function_twice_has_both_results() -> None:
    def called(argument: int) -> dict[str, Any]:
        said = {"name": "f", "arguments": f'{{"x":{argument}}}'}
        return {"role": "assistant", "content": None, "function_call": said}

    def result(content: str) -> dict[str, Any]:
        return {"role": "function", "name": "f", "content": content}

    first, second = ([chunk(called(x)), chunk({}, "function_call")] for x in (1, 5))
    history = [USER, called(1), result("2")]
    again = request(*history, called(5), result("6"))
    got = run(request(USER), *first, request(*history), *second, again, *ANSWER)
    assert said(got) == [["f"], ["2"], ["f"], ["6"], ["72F."]]
    assert [part["tool_name"] for part in got.parts("request") if part["part_kind"] == "tool-return"] == ["f", "f"]
