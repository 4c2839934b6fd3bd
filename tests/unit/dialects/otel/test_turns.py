"""Which runs and threads a trace has, and what is left out of it."""

from typing import Any

import pytest

from tests.support.otel import events_in, records_of, said, threads_of, used
from topics.json_text import Fields, dumps

AT = 1_795_799_670_000_000_000  # ns
WEATHER = {"role": "user", "parts": [{"type": "text", "content": "Weather?"}]}
ROME = {"role": "user", "parts": [{"type": "text", "content": "And Rome?"}]}
CALL = {"type": "tool_call", "id": "call_paris", "name": "get_weather", "arguments": {"city": "Paris"}}
CALLED = {"role": "assistant", "parts": [CALL]}
RESULT = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_paris", "response": "sunny"}]}


def spoken(text: str) -> Fields:
    return {"role": "assistant", "parts": [{"type": "text", "content": text}]}


def span(trace: int, number: int, parent: int = 0, **attributes: Any) -> Fields:
    """A span that begins `number` ms after its trace, and takes one ms; number 0 takes all the time."""
    start = AT + trace * 10**9 + number * 10**6
    return {
        "type": "span",
        "trace_id": f"{trace:032x}",
        "span_id": f"{trace:08x}{number:08x}",
        "parent_id": f"{trace:08x}{parent - 1:08x}" if parent else "",
        "name": "span",
        "start": start,
        "end": start + (10**6 if number else 10**8),
        "status": {"code": 0, "message": ""},
        "attributes": {key.replace("__", "."): value for key, value in attributes.items()},
        "events": [],
        "scope": "emitter",
        "resource": {"service.name": "weather"},
    }


def called(trace: int, number: int, said: list[Fields], answer: Fields, parent: int = 0, **more: Any) -> Fields:
    """A call of a model."""
    told = {"gen_ai__operation__name": "chat", "gen_ai__usage__input_tokens": 10, "gen_ai__usage__output_tokens": 2}
    words = {"gen_ai__input__messages": dumps(said), "gen_ai__output__messages": dumps([answer])}
    return span(trace, number, parent, **told, **words, **more)


def agent(trace: int, **more: Any) -> Fields:
    return span(trace, 0, gen_ai__operation__name="invoke_agent", gen_ai__agent__name="weather", **more)


def first_turn(trace: int) -> list[Fields]:
    calls = [
        called(trace, 1, [WEATHER], CALLED, 1),
        called(trace, 3, [WEATHER, CALLED, RESULT], spoken("Sunny."), 1),
    ]
    return [*calls, agent(trace)]


@pytest.mark.parametrize("between", [[], [CALLED, RESULT]], ids=["the answer alone", "with its calls"])
def test_a_second_turn_of_an_agent_is_in_the_thread_of_the_first(between: list[Fields]) -> None:
    again = [WEATHER, *between, spoken("Sunny."), ROME]
    events = [*first_turn(1), called(2, 1, again, spoken("Sunny too."), 1), agent(2)]
    for order in (events, events[::-1]):
        [turns] = threads_of(records_of(order)).values()
        assert said(turns) == [
            *(("user", "Weather?"), ("call", "get_weather", "Paris"), ("result", "sunny"), ("text", "Sunny.")),
            *(("user", "And Rome?"), ("text", "Sunny too.")),
        ]
        assert used(turns)[::2] == (30, 6)


def test_calls_that_are_traces_by_themselves_are_one_thread() -> None:
    history = [WEATHER, CALLED, RESULT, spoken("Sunny.")]
    events = [
        called(1, 0, history[:1], CALLED),
        called(2, 0, history[:3], spoken("Sunny.")),
        called(3, 0, [*history, ROME], spoken("Sunny too.")),
    ]
    for order in (events, events[::-1]):
        [turns] = threads_of(records_of(order)).values()
        assert [piece[0] for piece in said(turns)] == ["user", "call", "result", "text", "user", "text"]
        assert not any("meta:branch" in turn for turn in turns)


def test_other_first_words_or_answers_are_other_threads() -> None:
    events = [called(n, 0, [WEATHER if n % 2 else ROME], spoken(f"Answer {n // 2}.")) for n in range(4)]
    assert len(threads_of(records_of(events))) == 4


def test_a_conversation_s_id_counts_on_whatever_span_it_is() -> None:
    named = [*first_turn(1)[:2], agent(1, session__id="chat-1")]
    other = [called(2, 1, [ROME], spoken("Yes."), 1, langfuse__session__id="chat-1"), agent(2)]
    [thread] = {record["thread_id"] for record in records_of([*named, *other])}
    assert records_of(named)[-1]["thread"]["external_id"] == "chat-1"
    assert thread == records_of(named)[0]["thread_id"]


def test_two_instrumentations_of_one_call_count_once() -> None:
    inner = called(1, 2, [WEATHER], spoken("Sunny."), 2)
    outer = span(1, 1, 1, openinference__span__kind="LLM")
    outer["end"] = inner["end"] + 10**6
    [turns] = threads_of(records_of([inner, outer, agent(1)])).values()
    assert (said(turns), used(turns)[::2]) == ([("user", "Weather?"), ("text", "Sunny.")], (10, 2))


@pytest.mark.parametrize("marked", [0, 1, 2], ids=["around the agent", "the call", "beneath the call"])
def test_what_was_published_is_left_out(marked: int) -> None:
    call, beneath = called(1, 1, [WEATHER], spoken("Sunny."), 1), span(1, 2, 2)
    events = [agent(1), call, beneath]
    events[marked]["attributes"]["turnmill.published"] = True
    assert records_of(events) == []


def test_what_a_tool_returned_is_known_by_its_arguments_where_no_id_is() -> None:
    calls = [{**CALL, "id": name, "arguments": {"city": name}} for name in ("Paris", "Oslo", "Rome")]
    tools = [
        span(1, 2 + n, 1, openinference__span__kind="TOOL", tool__name="get_weather", output__value=f"in {name}",
             input__value=dumps({"city": name}))
        for n, name in enumerate(("Oslo", "Paris"))
    ]  # fmt: skip
    events = [called(1, 1, [WEATHER], {"role": "assistant", "parts": calls}, 1), *tools, agent(1)]
    [turns] = threads_of(records_of(events)).values()
    assert said(turns)[-2:] == [("result", "in Paris"), ("result", "in Oslo")]


def test_a_thought_stands_before_the_text() -> None:
    parts = [{"type": "text", "content": "Sunny."}, {"type": "reasoning", "content": "Look."}]
    [turns] = threads_of(records_of([called(1, 0, [WEATHER], {"role": "assistant", "parts": parts})])).values()
    assert said(turns)[1:] == [("thinking", "Look."), ("text", "Sunny.")]


def test_a_thought_that_only_the_provider_s_answer_has() -> None:
    call = span(1, 0, openinference__span__kind="LLM", llm__token_count__prompt=1, llm__finish_reason="stop")
    message = {"role": "assistant", "content": "Sunny.", "reasoning_content": "Look."}
    call["attributes"] |= {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "Weather?",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": "Sunny.",
        "output.value": dumps({"id": "chatcmpl-1", "choices": [{"message": message, "finish_reason": "stop"}]}),
    }
    [turns] = threads_of(records_of([call])).values()
    assert said(turns) == [("user", "Weather?"), ("thinking", "Look."), ("text", "Sunny.")]


def test_a_trace_without_a_call_of_a_model_has_no_turn() -> None:
    assert records_of([agent(1), span(1, 1, 1, gen_ai__operation__name="execute_tool")]) == []


def test_a_span_that_was_told_in_pieces_is_one() -> None:
    events = events_in("pydantic-ai")
    pieces = [
        {**event, "attributes": dict(sorted(event["attributes"].items())[half::2])}
        for event in events
        for half in (0, 1)
    ]
    [whole], [joined] = threads_of(records_of(events)).values(), threads_of(records_of(pieces)).values()
    assert said(joined) == said(whole)
    assert used(joined) == used(whole)


@pytest.mark.parametrize("odd", [["x"], {"a": 1}, 1, None, ""])
def test_an_answer_s_id_of_any_type_loses_no_turn(odd: Any) -> None:
    call = span(1, 1, gen_ai__operation__name="chat", gen_ai__response__id=odd, gen_ai__usage__input_tokens=1)
    call["attributes"] |= {"gen_ai.input.messages": dumps([ROME]), "gen_ai.output.messages": dumps([spoken("Sunny.")])}
    [turns] = threads_of(records_of([call])).values()
    assert said(turns) == [("user", "And Rome?"), ("text", "Sunny.")]
