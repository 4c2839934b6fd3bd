"""Conversations of which the server keeps the beginning, and answers in several calls: each one thread.

The requests are those of anthropic 2.14 (`tool_runner`, `beta.messages.thread`), google-genai 3.6.1 and openai 3.57.
"""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS, FORMATS
from pipeline.turns.branches import one_branch
from pipeline.turns.thread_document import thread_document
from tests.support.spools import away, spooled
from topics.turn_record import TurnRecord
from turnmill import Publisher
from turnmill.capture.capture import Call, Capture, CapturedCall
from turnmill.capture.conversations import Conversations, fact_of, headers_of_fact

Fields = dict[str, Any]
SSE = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json"}
PATHS = {
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/gemini-4:streamGenerateContent",
    "openai-responses": "/v1/responses",
}
WEATHER: Fields = {"name": "weather", "input_schema": {"type": "object"}}
CALL: Fields = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Paris"}}
RESULT: Fields = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny"}
CREATE: Fields = {"type": "create"}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnmill.publish.publisher.KEEP_AFTER", 0.1)


def user(*content: Any) -> Fields:
    return {"role": "user", "content": content[0] if isinstance(content[0], str) else list(content)}


def model(*blocks: Fields | str) -> Fields:
    return {"role": "assistant", "content": [text(block) if isinstance(block, str) else block for block in blocks]}


def text(words: str) -> Fields:
    return {"type": "text", "text": words}


def after(response: str) -> Fields:
    return {"type": "continue", "previous_message_id": response}


def begin(capture: Capture, dialect: str, body: Fields) -> CapturedCall:
    time.sleep(0.003)  # turns are in the order of their times
    return capture.begin(Call("test", dialect, PATHS[dialect], {}, json.dumps(body).encode(), client="one"))


def ask(capture: Capture, thread: Fields | None, *messages: Fields) -> CapturedCall:
    body: Fields = {"model": "claude-x", "max_tokens": 9, "messages": list(messages)}
    if thread is None or thread == CREATE:
        body |= {"system": "Be brief.", "tools": [WEATHER]}
    return begin(capture, "anthropic", body if thread is None else {**body, "thread": thread})


def whole(call: CapturedCall, body: Fields, status: int = 200) -> None:
    call.answered(status, JSON)
    call.data(json.dumps(body).encode())
    call.finished()


def say(call: CapturedCall, name: str, *content: Fields | str, stop: str = "end_turn", **usage: Any) -> None:
    spent = {"input_tokens": 10, "output_tokens": 5, **usage}
    message = {"id": name, "type": "message", "model": "claude-x", **model(*content), "stop_reason": stop}
    whole(call, {**message, "usage": spent})


def lost(call: CapturedCall, code: str = "thread_not_found", status: int = 404) -> None:
    error = {"type": "not_found_error", "message": "gone", "details": {"error_code": code}}
    whole(call, {"type": "error", "error": error}, status)


def stream(call: CapturedCall, *events: Fields, ends: bool = True) -> None:
    call.answered(200, SSE)
    for event in events:
        call.data(b"data: " + json.dumps(event).encode() + b"\n\n")
    if ends:
        call.finished()
    else:
        call.failed(ConnectionResetError("by peer"))


def captured(home: Path, program: Callable[[Capture], Any]) -> list[list[Fields]]:
    """-> the records of each run, in the order in which they began."""
    settings = away(home)

    async def main() -> None:
        async with Publisher(settings) as publisher, Capture(publisher, agent_id="weather") as capture:
            program(capture)

    asyncio.run(main())
    runs: dict[str, list[Fields]] = {}
    for record in spooled(settings):
        runs.setdefault(record["run_id"], []).append(record)
    return list(runs.values())


def thread(runs: list[list[Fields]]) -> Fields:
    """-> the newest branch of the one thread of these runs."""
    assert len({run[0]["thread_id"] for run in runs}) == 1
    records: list[TurnRecord] = []
    for run in runs:
        found, refused = assemble(DIALECTS[run[0]["dialect"]], run)
        assert refused == []
        records += found
    return one_branch(thread_document(runs[0][0]["thread_id"], records))


def history(home: Path, program: Callable[[Capture], Any], form: str = "anthropic") -> list[Fields]:
    """-> the messages of the thread, in the form of the SDK."""
    return FORMATS[form].write(thread(captured(home, program)))


def plain(messages: list[Fields]) -> list[Any]:
    """-> roles and blocks, a text as one block."""
    return [
        (each["role"], [text(each["content"])] if isinstance(each["content"], str) else each["content"])
        for each in messages
    ]


def test_a_tool_runner(tmp_path: Path) -> None:
    def program(capture: Capture) -> None:
        say(ask(capture, CREATE, user("Weather?")), "m1", CALL, stop="tool_use")
        say(ask(capture, after("m1"), user(RESULT)), "m2", "It is sunny.")
        say(ask(capture, after("m2"), user("Thanks")), "m3", "Welcome.")

    runs = captured(tmp_path, program)
    assert [run[0]["run"].get("continues") for run in runs] == [None, runs[0][0]["run_id"], runs[1][0]["run_id"]]
    document = thread(runs)
    assert plain(FORMATS["anthropic"].write(document)) == plain(
        [user("Weather?"), model(CALL), user(RESULT), model("It is sunny."), user("Thanks"), model("Welcome.")]
    )
    returns = [
        part["tool_name"]
        for turn in document["turns"]
        for message in turn.get("messages", ())
        for part in message.get("parts", ())
        if part["part_kind"] == "tool-return"
    ]
    assert returns == ["weather"], "its call was in a request that is not repeated"
    asked = [event for run in runs for record in run for event in record["events"] if "request" in event]
    assert [event.get("kept") for event in asked] == [
        None,
        {"system": "Be brief.", "tools": [WEATHER], "calls": {"toolu_1": "weather"}},
        {"system": "Be brief.", "tools": [WEATHER]},
    ]


def test_what_a_request_leaves_out_is_what_the_thread_was_created_with(tmp_path: Path) -> None:
    def program(capture: Capture) -> None:
        say(ask(capture, CREATE, user("One")), "m1", "First.")
        say(ask(capture, after("m1"), user("Two")), "m2", "Second.")

    bodies = []
    for run in captured(tmp_path, program):
        for record in assemble(DIALECTS["anthropic"], run, keep_requests=True)[0]:
            bodies += record.get("requests", {}).values()
    assert [(body["system"], body["tools"], body["thread"]) for body in bodies] == [
        ("Be brief.", [WEATHER], CREATE),
        ("Be brief.", [WEATHER], after("m1")),
    ]


def test_the_same_words_each_time(tmp_path: Path) -> None:
    def program(capture: Capture) -> None:
        for number in range(3):
            say(ask(capture, after(f"m{number - 1}") if number else CREATE, user("Again")), f"m{number}", f"{number}.")

    assert [message["role"] for message in history(tmp_path, program)] == ["user", "assistant"] * 3


def test_a_thread_that_the_server_lost_is_the_same(tmp_path: Path) -> None:
    said = [user("One"), model("First."), user("Two"), model("Second."), user("Three")]

    def program(capture: Capture) -> None:
        say(ask(capture, CREATE, said[0]), "m1", "First.")
        say(ask(capture, after("m1"), said[2]), "m2", "Second.")
        lost(ask(capture, after("m2"), said[4]))
        say(ask(capture, CREATE, *said), "m3", "Third.")
        say(ask(capture, after("m3"), user("Four")), "m4", "Fourth.")

    runs = captured(tmp_path, program)
    assert len(runs) == 4, "the request that was refused and the one with all messages are one run"
    assert plain(FORMATS["anthropic"].write(thread(runs))) == plain(
        [*said, model("Third."), user("Four"), model("Fourth.")]
    )


def test_a_server_that_keeps_no_such_conversation(tmp_path: Path) -> None:
    def program(capture: Capture) -> None:
        lost(ask(capture, CREATE, user("One")), "thread_unsupported_request", 400)
        say(ask(capture, None, user("One")), "m1", "First.")
        say(ask(capture, None, user("One"), model("First."), user("Two")), "m2", "Second.")

    runs = captured(tmp_path, program)
    assert len(runs) == 2
    assert len(FORMATS["anthropic"].write(thread(runs))) == 4


def test_a_refused_exchange_is_in_no_history(tmp_path: Path) -> None:
    said = [user("One"), model("First."), user("Two")]

    def program(capture: Capture) -> None:
        say(ask(capture, CREATE, user("One")), "m1", "First.")
        say(ask(capture, after("m1"), user("How do I …?")), "m2", "No.", stop="refusal")
        say(ask(capture, CREATE, *said), "m3", "Second.")
        say(ask(capture, after("m3"), user("Three")), "m4", "Third.")

    assert plain(history(tmp_path, program)) == plain([*said, model("Second."), user("Three"), model("Third.")])


def test_an_answer_of_another_model_begins_the_servers_thread_anew(tmp_path: Path) -> None:
    said = [user("One"), model("First."), user("Two"), model("Second."), user("Three")]

    def program(capture: Capture) -> None:
        say(ask(capture, CREATE, user("One")), "m1", "First.")
        fallback = [{"type": "fallback_message", "model": "claude-y", "input_tokens": 10, "output_tokens": 5}]
        say(ask(capture, after("m1"), user("Two")), "m2", "Second.", iterations=fallback)
        say(ask(capture, CREATE, *said), "m3", "Third.")

    assert plain(history(tmp_path, program)) == plain([*said, model("Third.")])


def test_an_answer_that_pauses(tmp_path: Path) -> None:
    """Nothing new is said: the server goes on by itself, and the SDK keeps two messages of the model."""
    said = [user("Tell"), model("Once upon "), model("a time."), user("On!")]

    def program(capture: Capture) -> None:
        say(ask(capture, CREATE, user("Tell")), "m1", "Once upon ", stop="pause_turn")
        say(ask(capture, after("m1")), "m2", "a time.")
        say(ask(capture, CREATE, *said), "m3", "The end.")

    told = [user("Tell"), model("Once upon ", "a time."), user("On!"), model("The end.")]
    assert plain(history(tmp_path, program)) == plain(told)


def test_a_stream_that_ends_early_is_sent_again_with_all_messages(tmp_path: Path) -> None:
    def program(capture: Capture) -> None:
        say(ask(capture, CREATE, user("One")), "m1", "First.")
        start = {"type": "message_start", "message": {"id": "m2", "model": "claude-x", "content": [], "usage": {}}}
        stream(ask(capture, after("m1"), user("Two")), start, ends=False)
        say(ask(capture, CREATE, user("One"), model("First."), user("Two")), "m3", "Second.")

    runs = captured(tmp_path, program)
    assert len(runs) == 2
    assert len(FORMATS["anthropic"].write(thread(runs))) == 4


def test_a_compacted_conversation_is_the_same(tmp_path: Path) -> None:
    """anthropic 2.14, `compact_before_next_turn`: its summary stands for all messages before it."""
    summary = {"type": "compaction", "content": "They said one.", "signature": "s"}

    def program(capture: Capture) -> None:
        say(ask(capture, CREATE, user("One")), "m1", "First.")
        compacting = {"messages": [user("One"), model("First.")], "thread": CREATE, "compaction": {"type": "summarize"}}
        say(begin(capture, "anthropic", compacting), "m2", summary, stop="compaction")
        say(ask(capture, CREATE, model(summary), user("Two")), "m3", "Second.")
        say(ask(capture, after("m3"), user("Three")), "m4", "Third.")
        say(ask(capture, CREATE, model(summary), user("Two"), model("Second."), user("Four")), "m5", "Fourth.")

    runs = captured(tmp_path, program)
    names = [run[0]["run_id"] for run in runs]
    assert [run[0]["run"].get("continues") for run in runs] == [None, names[0], names[1], names[2], names[2]]
    said = [user("One"), model("First."), user("Two"), model("Second."), user("Four"), model("Fourth.")]
    assert plain(FORMATS["anthropic"].write(thread(runs))) == plain(said)


def test_another_process_knows_the_whole_conversation() -> None:
    """A gateway learns from the headers of another one's records what the hash of all messages is."""
    from tests.unit.turnmill.capture.test_conversations import asked, model, user

    here, there = Conversations(), Conversations()
    first = asked(user("hello"), in_thread=True)
    told = here.answered(here.place(first, "r1"), first, model("Hi!"), "m1")
    fact = fact_of(headers_of_fact(told), "")
    assert fact is not None
    there.learn(fact)
    second = asked(user("Weather?"), response="m1", in_thread=True)
    there.answered(there.place(second, "r2"), second, model("Rain."), "m2")
    third = asked(user("hello"), model("Hi!"), user("Weather?"), model("Rain."), user("Thanks"), in_thread=True)
    assert there.place(third, "r3").continues == "r2"
    assert here.place(asked(user("x"), response="unknown"), "r4").thread == "r4"


COUNT: Fields = {"contents": [{"role": "user", "parts": [{"text": "Count"}]}]}


def piece(words: str, output: int, finish: str | None = None, token: str | None = None) -> Fields:
    candidate = {"content": {"role": "model", "parts": [{"text": words}]}, "finishReason": finish}
    candidate |= {"continuationToken": token}
    known = {key: value for key, value in candidate.items() if value is not None}
    usage = {"promptTokenCount": 20, "candidatesTokenCount": output, "totalTokenCount": 20 + output}
    return {"candidates": [known], "usageMetadata": usage, "modelVersion": "gemini-4", "responseId": f"r{output}"}


@pytest.mark.parametrize("finish", [None, "CONTINUATION"])
def test_an_answer_in_several_calls(tmp_path: Path, finish: str | None) -> None:
    """A stream that broke off behind a token, or one that says that more will follow; the second try of the rest."""
    rest = {**COUNT, "continuationToken": "dG9r", "generationConfig": {}}
    following = [
        *COUNT["contents"],
        {"role": "model", "parts": [{"text": "One, two, "}, {"text": "three."}]},
        {"role": "user", "parts": [{"text": "Go on"}]},
    ]

    def program(capture: Capture) -> None:
        pieces = piece("One, ", 5), piece("two, ", 10, finish, "dG9r")
        stream(begin(capture, "gemini", COUNT), *pieces, ends=finish is not None)
        begin(capture, "gemini", rest).failed(ConnectionResetError("by peer"))
        stream(begin(capture, "gemini", rest), piece("three.", 5, "STOP"))
        stream(begin(capture, "gemini", {"contents": following}), piece("Four.", 5, "STOP"))

    runs = captured(tmp_path, program)
    assert [run[-1]["end"] for run in runs] == ["complete", "complete"]
    document = thread(runs)
    spoken = [
        (part["content"], turn["completion_status"], turn["total_usage"]["total_tokens"])
        for turn in document["turns"]
        for message in turn.get("messages", ())
        for part in message.get("parts", ())
    ]
    assert spoken == [("One, two, three.", "complete", 55), ("Four.", "complete", 25)]


def test_an_answer_that_is_not_continued_is_complete(tmp_path: Path) -> None:
    def program(capture: Capture) -> None:
        stream(begin(capture, "gemini", COUNT), piece("One, two, ", 10, "CONTINUATION", "dG9r"))

    document = thread(captured(tmp_path, program))
    assert document["turns"][-1]["completion_status"] == "complete"


def test_a_rest_that_is_requested_much_later_is_in_the_same_thread(tmp_path: Path) -> None:
    """Of an answer that used up its tokens, the program itself may ask for the rest (the AI SDK's option)."""

    def program(capture: Capture) -> None:
        stream(begin(capture, "gemini", COUNT), piece("One, two, ", 10, "MAX_TOKENS", "dG9r"))
        stream(begin(capture, "gemini", {**COUNT, "continuationToken": "dG9r"}), piece("three.", 5, "STOP"))
        said = {"role": "model", "parts": [{"text": "One, two, three."}]}
        on = {"role": "user", "parts": [{"text": "Go on"}]}
        stream(begin(capture, "gemini", {"contents": [*COUNT["contents"], said, on]}), piece("Four.", 5, "STOP"))

    document = thread(captured(tmp_path, program))
    assert [turn["turn_type"] for turn in document["turns"]] == ["user", "agent", "agent", "user", "agent"]


def test_all_messages_behind_those_that_the_server_kept(tmp_path: Path) -> None:
    """Over the Responses API, too, the whole history may follow requests with the newest messages alone."""

    def answer(call: CapturedCall, name: str, words: str) -> None:
        message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": words}]}
        whole(call, {"object": "response", "id": name, "status": "completed", "output": [message]})

    def program(capture: Capture) -> None:
        answer(begin(capture, "openai-responses", {"input": "One"}), "resp_1", "First.")
        second = {"input": "Two", "previous_response_id": "resp_1"}
        answer(begin(capture, "openai-responses", second), "resp_2", "Second.")
        third = {"input": "Three", "previous_response_id": "resp_2"}
        gone = {"error": {"code": "previous_response_not_found", "message": "gone"}}
        whole(begin(capture, "openai-responses", third), gone, 400)
        said = [("user", "One"), ("assistant", "First."), ("user", "Two"), ("assistant", "Second."), ("user", "Three")]
        history = [{"role": role, "content": words} for role, words in said]
        answer(begin(capture, "openai-responses", {"input": history}), "resp_3", "Third.")

    runs = captured(tmp_path, program)
    assert len(runs) == 3
    assert len(FORMATS["openai-chat"].write(thread(runs))) == 6


def test_what_claude_code_asks_on_its_own_is_beside_the_conversation(tmp_path: Path) -> None:
    """Claude Code 2.1.332: after an answer it asks what the user may type next, and is answered before they do."""
    reminder = text("<system-reminder>\nToday's date is 2026-11-28.\n</system-reminder>")

    def system(number: int) -> Fields:
        return {"role": "system", "content": f"{number} tokens left" if number else [text("0 tokens left")]}

    first = [user(reminder, text("Weather?")), system(0)]
    second = [user(text("Weather?")), system(1), model("Sunny."), user("Thanks"), system(0)]
    suggest = user("[SUGGESTION MODE: Suggest what the user might naturally type next into Claude Code.]\n\nFIRST: …")

    def program(capture: Capture) -> None:
        say(ask(capture, None, *first), "m1", "Sunny.")
        say(ask(capture, None, *first, model("Sunny."), suggest), "m2", "thanks")
        say(ask(capture, None, *second), "m3", "Welcome.")
        say(ask(capture, None, *second, model("Welcome."), suggest), "m4", "bye")

    runs = captured(tmp_path, program)
    document = thread(runs)
    assert [run[0]["run"].get("replaces") for run in runs] == [None] * 4
    assert not [turn for turn in document["turns"] if "meta:branch" in turn], "no run is a version of another"
    said = [user("Weather?"), model("Sunny."), user("Thanks"), model("Welcome.")]
    assert plain(FORMATS["anthropic"].write(document)) == plain(said)
    asides = [
        (message["meta:purpose"], message["usage"]["output_tokens"], message["meta:output"][0]["content"])
        for turn in document["turns"]
        for message in turn.get("messages", ())
        if "meta:purpose" in message
    ]
    assert asides == [("suggestion", 5, "thanks"), ("suggestion", 5, "bye")]
