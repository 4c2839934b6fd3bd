"""LangGraph's streams -> turns: the state of the root graph rules, in whatever form it is told."""

from itertools import product
from typing import Any

import pytest

from pipeline.dialects import DIALECTS, shown
from pipeline.dialects.history import Origin, thread
from pipeline.stores.costs.rows import usage_rows
from pipeline.turns.tokens import tier_of
from tests.support.assembled import Assembled, assembled
from topics.thread_rules import check
from turnmill.wire.registry import box

Fields = dict[str, Any]
USAGE = {"input_tokens": 12, "output_tokens": 3, "total_tokens": 15}
TASK = {"langgraph_step": 1, "langgraph_checkpoint_ns": "model:1"}
CALL = {"name": "weather", "args": {"city": "Paris"}, "id": "c1", "type": "tool_call"}


def ai(message_id: str, content: Any = "Sun.", **more: Any) -> Fields:
    return {"type": "ai", "id": message_id, "content": content, "usage_metadata": USAGE, **more}


def human(content: str = "Weather?", message_id: str = "h1") -> Fields:
    return {"type": "human", "id": message_id, "content": content}


def tool(content: Any = "sun", **more: Any) -> Fields:
    return {"type": "tool", "id": "t1", "content": content, "tool_call_id": "c1", "name": "weather", **more}


def chunk(message_id: str, content: Any, metadata: Fields = TASK, **more: Any) -> Any:
    return box([[], "messages", [{"type": "AIMessageChunk", "id": message_id, "content": content, **more}, metadata]])


def updates(*messages: Fields, node: str = "model", namespace: tuple[str, ...] = ()) -> Any:
    return box([list(namespace), "updates", {node: {"messages": list(messages)}}])


def run(*events: Any, end: str | None = "complete", **rest: Any) -> Assembled:
    got = assembled("langgraph", list(events), **({"end": end} if end else {}), **rest)
    assert [finding for finding in check(got.document) if finding.severity == "error"] == []
    return got


def said(got: Assembled) -> list[Any]:
    return [part.get("content", part.get("args")) for part in got.parts("response")]


def test_whole_messages_win_over_chunks() -> None:
    answer = updates(ai("m1", "Let me look.", tool_calls=[CALL]))
    got = run(chunk("m1", "Let"), chunk("m1", " me…"), answer, updates(tool(), node="tools"), updates(ai("m2")))
    assert said(got) == ["Let me look.", {"city": "Paris"}, "Sun."]
    assert got.parts("request")[0]["content"] == "sun"
    assert got.agent_turns[0]["total_usage"]["input_tokens"] == 24


def test_a_message_may_have_its_providers_id_and_langchains() -> None:
    last = chunk("lc_run--1", "n.", response_metadata={"finish_reason": "stop"})
    got = run(chunk("resp_1", "Su"), last, chunk("resp_2", "More."))
    assert said(got) == ["Sun.", "More."]


def test_an_attempt_that_broke_off_was_retried_by_its_task() -> None:
    assert said(run(chunk("lc_run--1", "Su"), chunk("lc_run--2", "Sun."))) == ["Sun."]


def test_calls_of_chunks_alone() -> None:
    pieces = [{"index": 0, "id": "c1", "name": "weather", "args": '{"city":'}, {"index": 0, "args": '"Paris"}'}]
    block = {"type": "tool_use", "id": "c1", "name": "weather", "input": {}, "index": 1}
    events = [chunk("m1", [block], tool_call_chunks=pieces[:1]), chunk("m1", [], tool_call_chunks=pieces[1:])]
    assert said(run(*events, box([tool(), TASK]))) == [{"city": "Paris"}]


def test_tasks_side_by_side_are_in_their_order() -> None:
    def part(number: int) -> Fields:
        return {
            "langgraph_step": 1,
            "langgraph_path": ["__pregel_push", number],
            "langgraph_checkpoint_ns": f"p:{number}",
        }

    events = [chunk("b", "B", part(1)), chunk("a", "A", part(0)), updates(ai("b", "B")), updates(ai("a", "A"))]
    assert said(run(*events)) == ["A", "B"]


def test_what_never_gets_into_the_state_is_not_in_the_turn() -> None:
    assert said(run(chunk("router", "yes"), updates(ai("m1")))) == ["Sun."]
    broken = run(chunk("router", "yes"), updates(ai("m1")), chunk("m2", "Mo"), end=None)
    assert said(broken) == ["Sun."]
    shown = [part["content"] for m in broken.agent_turns[0]["meta:partial"]["messages"] for part in m["parts"]]
    assert shown == ["yes", "Mo"]


def test_the_first_state_is_from_before_the_run() -> None:
    before = [human("Hi", "h0"), ai("m0", "Hello"), human()]
    states = [box(["values", {"messages": before}]), box(["values", {"messages": [*before, ai("m1")], "mood": "good"}])]
    got = run(*states)
    assert said(got) == ["Sun."]
    assert got.user_turns[0]["parts"][0]["content"] == "Weather?"
    assert got.messages("system")[0]["event_data"] == {"mood": "good"}


def test_a_single_state_is_the_runs_own() -> None:
    got = run({"event": "values", "data": {"messages": [human("Hi", "h0"), ai("m0", "Hello"), human(), ai("m1")]}})
    assert said(got) == ["Sun."]
    assert got.user_turns[0]["parts"][0]["content"] == "Weather?"


def test_messages_that_are_taken_back_are_gone() -> None:
    got = run(updates(ai("m1", "Never!")), updates({"type": "remove", "id": "m1", "content": ""}, ai("m2")))
    assert said(got) == ["Sun."]


def test_an_earlier_message_that_is_written_again_costs_nothing() -> None:
    again = updates(ai("m0", "Shall I?", tool_calls=[CALL]))
    got = run(again, updates(tool(), node="tools"), chunk("m1", "Su"), updates(ai("m1")))
    assert said(got) == ["Shall I?", {"city": "Paris"}, "Sun."]
    assert got.agent_turns[0]["total_usage"]["input_tokens"] == 12


def test_an_agent_inside_of_a_tool_is_told_beside() -> None:
    asked = updates(ai("m1", "", tool_calls=[CALL]))
    inner = updates(ai("i1", "Hm.", name="helper"), namespace=("tools:1",))
    got = run(asked, inner, updates(tool(), node="tools"), updates(ai("m2")))
    assert said(got) == [{"city": "Paris"}, "Sun."]
    (told,) = [m["event_data"] for m in got.messages("system") if m["event_type"] == "custom:langgraph.subagent"]
    assert (told["name"], told["namespace"], told["messages"][0]["content"]) == ("helper", ["tools:1"], "Hm.")


@pytest.mark.parametrize(
    ("events", "status"),
    [
        ([{"event": "end", "data": None}], "complete"),
        ([{"event": "error", "data": {"error": "ValueError", "message": "no"}}], "interrupted"),
        ([box(["updates", {"__interrupt__": [{"value": "Sure?", "id": "i1"}]}])], "interrupted"),
        ([], "interrupted"),
    ],
)
def test_how_a_stream_ends_by_itself(events: list[Any], status: str) -> None:
    assert run(updates(ai("m1")), *events, end=None).agent_turns[0]["completion_status"] == status


def root(kind: str, run_id: str = "r", **data: Any) -> Fields:
    return {"event": kind, "run_id": run_id, "parent_ids": [], "name": "LangGraph", "data": data}


def lifecycle(kind: str) -> Fields:
    return {"type": "event", "method": "lifecycle", "params": {"namespace": [], "data": {"event": kind}}}


STATE: Fields = {"output": {"messages": [ai("m1")]}}


@pytest.mark.parametrize(
    ("events", "status"),
    [
        ([root("on_chain_start"), root("on_chain_end", **STATE)], "complete"),
        ([root("on_chain_start")], "interrupted"),
        ([root("on_chain_start"), root("on_chain_start", "r2"), root("on_chain_end", "r2")], "interrupted"),
        ([lifecycle("running"), lifecycle("completed")], "complete"),
        ([lifecycle("running"), lifecycle("interrupted")], "complete"),
        ([lifecycle("running")], "interrupted"),
        ([], "complete"),
    ],
)
def test_where_the_root_began_its_end_is_needed_whatever_the_publisher_says(events: list[Any], status: str) -> None:
    streamed = {"event": "messages", "data": [ai("m1", type="AIMessageChunk"), TASK]}
    (turn,) = run(*events[:1], streamed, *events[1:], end="complete").agent_turns
    assert turn["completion_status"] == status
    assert ("meta:partial" in turn) == (status == "interrupted")


def test_an_error_behind_the_end_is_kept_beside_the_answer() -> None:
    got = run(updates(ai("m1")), {"event": "end", "data": None}, {"event": "error", "data": {"message": "late"}})
    assert got.agent_turns[0]["completion_status"] == "complete"
    assert [(m["event_type"], m["event_data"]) for m in got.messages("system")] == [("error", {"message": "late"})]


def test_forms_of_one_message() -> None:
    """The same words in every shape that LangGraph has for them."""
    lc = {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "AIMessage"], "kwargs": ai("m1")}
    todict = {"type": "ai", "data": ai("m1")}
    namespace: list[str] = []
    shapes: list[Any] = [
        {"model": {"messages": [lc]}},
        {"event": "updates", "data": {"model": {"messages": [todict]}}},
        {"event": "data", "data": {"model": {"messages": [ai("m1")]}}},
        {"type": "updates", "ns": [], "data": {"model": {"messages": ai("m1")}}},
        box([namespace, {"model": [{"messages": [ai("m1")]}]}]),
        {
            "type": "event",
            "method": "updates",
            "params": {"namespace": [], "data": {"model": {"messages": [ai("m1")]}}},
        },
        {"event": "messages/complete", "data": [ai("m1")]},
        box([ai("m1"), TASK]),
    ]
    assert [said(run(shape)) for shape in shapes] == [["Sun."]] * len(shapes)


def event(seq: int, method: str, told: Any = None, **data: Any) -> Fields:
    params = {"namespace": [], "data": data if told is None else told}
    return {"type": "event", "seq": seq, "method": method, "params": params}


def test_protocol_v3() -> None:
    delta = {"type": "text-delta", "text": "Sun."}
    events = [
        event(1, "messages", event="message-start", role="ai", id="m1"),
        event(2, "messages", event="content-block-start", index=0, content={"type": "reasoning", "reasoning": "Hm"}),
        event(3, "messages", event="content-block-delta", index=0, delta=delta),
        event(3, "messages", event="content-block-delta", index=0, delta=delta),
        event(4, "messages", event="message-finish", usage=USAGE),
        event(5, "lifecycle", event="completed"),
    ]
    got = run(*events, end=None)
    assert said(got) == ["Hm", "Sun."]
    assert got.agent_turns[0]["completion_status"] == "complete"
    assert got.agent_turns[0]["total_usage"]["output_tokens"] == 3


def test_content_blocks_of_every_provider() -> None:
    content = [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "reasoning", "id": "rs", "summary": [{"text": "A"}, {"text": "B"}], "encrypted_content": "gAA"},
        {"type": "web_search_call", "id": "ws", "action": {"query": "sun"}},
        {"type": "text", "text": "Sun.", "annotations": [{"url": "https://example.org", "title": "Sun"}]},
        {"type": "image", "base64": "AAAA", "mime_type": "image/png"},
        {"type": "tool_use", "id": "c1", "name": "weather", "input": {}},
        {"type": "redacted_thinking", "data": "x"},
    ]
    got = run(updates(ai("m1", content, tool_calls=[CALL])))
    assert [part["part_kind"] for part in got.parts("response")] == [
        "thinking", "thinking", "thinking", "builtin-tool-call", "builtin-tool-return", "text", "file", "tool-call",
        "custom:langchain",
    ]  # fmt: skip
    assert got.messages("system")[0]["event_data"] == {"url": "https://example.org", "title": "Sun"}


def test_messages_name_their_thread() -> None:
    tell = DIALECTS["langgraph"].conversation
    assert tell(chunk("m1", "Hi", {"thread_id": "t-1"})) == "t-1"
    assert tell({"event": "on_chain_start", "run_id": "r", "data": {}, "metadata": {"thread_id": "t-1"}}) == "t-1"
    assert tell(chunk("m1", "Hi")) is None


def test_telemetry_that_a_node_writes() -> None:
    usage = box(["custom", {"type": "data-sys-usage", "data": {"input_tokens": 5, "output_tokens": 1}}])
    got = run(box([[], "updates", {"model": {"messages": [{**ai("m1"), "usage_metadata": None}]}}]), usage)
    assert got.agent_turns[0]["total_usage"]["input_tokens"] == 5
    assert run(updates(ai("m1")), box(["custom", {"step": 1}])).messages("system")[0]["event_data"] == {"step": 1}


def test_unknown_fields_and_events_are_kept() -> None:
    got = run(
        updates(human(), ai("m1", tool_calls=[CALL], mood="calm"), tool(seen=1), ai("m2")),
        {"event": "end", "data": None},
        {"event": "brand_new", "data": {"late": 1}},
    )
    assert got.messages("response")[0]["meta:langchain"] == {"id": "m1", "fields": {"mood": "calm"}}
    assert got.parts("request")[0]["meta:langchain"] == {"id": "t1", "fields": {"seen": 1}}
    assert ("data-app-brand_new", {"late": 1}) in [(m["event_type"], m["event_data"]) for m in got.messages("system")]
    assert not [message for message in got.export("langchain") if "fields" in message or "mood" in message]


def kinds(got: Assembled) -> list[str]:
    return [part["part_kind"] for part in got.parts("response")]


def test_what_openais_older_messages_have_beside_the_content() -> None:
    """langchain-openai before 1.0, and LangChain.js: `content_blocks` puts it in this order."""
    summary = [{"type": "summary_text", "text": "A", "index": 0}, {"type": "summary_text", "text": "B", "index": 1}]
    outputs = [
        {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"query": "sun"}},
        {"type": "code_interpreter_call", "id": "ci", "code": "1", "outputs": [{"type": "logs", "logs": "1"}]},
    ]
    beside = {"reasoning": {"id": "rs", "type": "reasoning", "summary": summary}, "tool_outputs": outputs}
    content = [{"type": "text", "text": "Sun."}]
    got = run(updates(ai("m1", content, tool_calls=[CALL], additional_kwargs=beside)))
    assert kinds(got) == [
        "thinking", "thinking", "builtin-tool-call", "builtin-tool-return", "text", "tool-call",
        "builtin-tool-call", "builtin-tool-return",
    ]  # fmt: skip
    assert said(got)[:3] == ["A", "B", {"code": "1"}]
    assert got.parts("response")[0]["thinking_id"] == "rs"
    chunks = [chunk("m2", [], additional_kwargs={"reasoning": {"id": "rs", "summary": [{"index": 0, "text": text}]}})
              for text in ("Hm", "m.")]  # fmt: skip
    assert said(run(*chunks, chunk("m2", [{"type": "text", "text": "Sun.", "index": 0}]))) == ["Hmm.", "Sun."]


def test_thoughts_of_mistral_are_a_list_of_texts() -> None:
    def thought(text: str) -> Any:
        pieces = [{"type": "text", "text": text, "index": 0}]
        return chunk("m1", [{"type": "thinking", "thinking": pieces, "index": 0}])

    got = run(thought("H"), thought("m."), chunk("m1", [{"type": "text", "text": "Sun.", "index": 1}]))
    assert (kinds(got), said(got)) == (["thinking", "text"], ["Hm.", "Sun."])


def test_builtin_tools_as_langchain_js_writes_them() -> None:
    content = [
        {"type": "server_tool_call", "id": "s1", "name": "web_search", "args": {"query": "sun"}},
        {"type": "server_tool_call_result", "toolCallId": "s1", "status": "success", "output": {"n": 1}},
        {"type": "image", "data": "AAAA", "mimeType": "image/png", "id": "ig"},
        {"type": "non_standard", "value": {"type": "image_generation_call", "id": "ig", "result": "AAAA"}},
    ]
    rubbish = {"type": "invalid_tool_call", "args": '{"query": "sun"}', "index": 1}
    got = run(updates(ai("m1", content, invalid_tool_calls=[rubbish])))
    assert kinds(got) == ["builtin-tool-call", "builtin-tool-return", "file"]
    answer = got.parts("response")[1]
    assert (answer["tool_call_id"], answer["tool_name"]) == ("s1", "web_search")


@pytest.mark.parametrize("js", [False, True])
def test_code_that_google_ran(*, js: bool) -> None:
    if js:
        content: list[Fields] = [
            {"type": "executableCode", "executableCode": {"language": "PYTHON", "code": "1"}},
            {"type": "codeExecutionResult", "codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
            {"type": "inlineData", "inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        ]
    else:
        content = [
            {"type": "executable_code", "executable_code": "1", "language": "PYTHON", "id": "x"},
            {"type": "code_execution_result", "code_execution_result": "1", "outcome": 1, "tool_call_id": ""},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        ]
    got = run(updates(ai("m1", content)))
    call, answer, picture = got.parts("response")
    assert (call["tool_name"], call["args"]) == ("code_execution", {"language": "PYTHON", "code": "1"})
    assert call["tool_call_id"] == answer["tool_call_id"] == ("builtin:0" if js else "x")
    assert answer["content"]["output"] == "1"
    assert picture["content"] == {"kind": "binary", "data": "AAAA", "media_type": "image/png"}


def test_a_model_of_protocol_v3_that_does_not_stream() -> None:
    message = ai("m1", "Sun.")
    events = [event(1, "lifecycle", event="running"), event(2, "messages", [message, TASK]),
              event(3, "lifecycle", event="completed")]  # fmt: skip
    assert said(run(*events, end=None)) == ["Sun."]


def test_tokens_written_to_the_cache_are_told_by_lifetime() -> None:
    """langchain-anthropic sets `cache_creation` to 0 where the API tells lifetimes (`_create_usage_metadata`)."""
    lifetimes = {"ephemeral_5m_input_tokens": 20_000, "ephemeral_1h_input_tokens": 80_000}
    details = {"cache_read": 50_000, "cache_creation": 0, **lifetimes}
    usage = {"input_tokens": 151_000, "output_tokens": 500, "total_tokens": 151_500, "input_token_details": details}
    metadata = {"model_name": "claude-sonnet-4-5", "model_provider": "anthropic"}
    got = run(updates(ai("m1", usage_metadata=usage, response_metadata=metadata)))
    counts = got.messages("response")[0]["usage"]
    assert (counts["cache_read_tokens"], counts["cache_write_tokens"]) == (50_000, 100_000)
    assert counts["cache_write_1h_tokens"] == 80_000
    assert [row["cost_nano_usd"] for row in usage_rows(got.records[-1])] == [580_500_000]


def test_a_service_tier_stands_before_the_names_of_counts() -> None:
    """In langchain-openai 1.7.4 (`_create_usage_metadata`), for the tiers `flex` and `priority`."""
    read = {"flex": 8, "flex_cache_read": 4, "flex_cache_creation": 3}
    details = {"input_token_details": read, "output_token_details": {"flex_reasoning": 2}}
    usage = run(updates(ai("m1", usage_metadata={**USAGE, **details}))).messages("response")[0]["usage"]
    assert (usage["cache_read_tokens"], usage["thinking_tokens"], tier_of(usage)) == (4, 2, "flex")
    assert usage["cache_write_tokens"] == 3
    told = ai("m1", response_metadata={"service_tier": "priority"})
    assert tier_of(run(updates(told)).messages("response")[0]["usage"]) == "priority"


REMOVED: Fields = {"type": "remove", "id": "__remove_all__", "content": ""}
REWRITTEN = updates(REMOVED, human("Summary.", "s"), ai("m0", "Rain."), human(), node="SummarizationMiddleware")


def test_an_answer_of_an_earlier_run_in_a_rewritten_history_is_not_counted_again() -> None:
    before = box([[], "values", {"messages": [human("Rain?", "h0"), ai("m0", "Rain."), human()]}])
    after = box([[], "values", {"messages": [human("Summary.", "s"), ai("m0", "Rain."), human(), ai("m1")]}])
    got = run(before, REWRITTEN, updates(ai("m1")), after)
    assert got.agent_turns[0]["total_usage"] == USAGE
    assert run(before, REWRITTEN, chunk("m1", "Su"), updates(ai("m1"))).agent_turns[0]["total_usage"] == USAGE


SUMMARY: Fields = {**human("Summary.", "s"), "additional_kwargs": {"lc_source": "summarization"}}
OLD = (human("Rain?", "h0"), ai("m0", "Rain."))
STATE = (*OLD, human())


def values(*messages: Fields) -> Any:
    return box([[], "values", {"messages": list(messages)}])


def whole(message: Fields) -> Any:
    return box([[], "messages", [message, TASK]])


@pytest.mark.parametrize(
    ("summary", "kept", "mode"),
    [
        *product((SUMMARY,), ((*OLD[1:], human()), (human(),), ()), ("updates", "values", "both")),
        *product((human("Summary.", "s"),), ((*OLD[1:], human()), (human(),), ()), ("updates", "both")),
        *product((human("Summary.", "s"),), ((*OLD[1:], human()), (human(),)), ("values",)),
    ],
)
def test_a_summary_is_nobodys_words_and_nothing_old_comes_again(
    summary: Fields, kept: tuple[Fields, ...], mode: str
) -> None:
    """SummarizationMiddleware of langchain 1.5: it removes all, and writes a summary and the kept messages."""
    steps = [
        *([whole(REMOVED), whole(summary), updates(REMOVED, summary, *kept)] if mode != "values" else []),
        *([values(summary, *kept)] if mode != "updates" else []),
        *([chunk("m1", "Su"), updates(ai("m1"))] if mode != "values" else []),
        *([values(summary, *kept, ai("m1"))] if mode != "updates" else []),
    ]
    got = run(values(*STATE), *steps)
    assert (said(got), got.agent_turns[0]["total_usage"]) == (["Sun."], USAGE)
    assert [part["content"] for turn in got.user_turns for part in turn["parts"]] == ["Weather?"]
    (beside,) = got.messages("system")
    assert beside["event_type"] == "custom:langgraph.notification"
    assert beside["event_data"]["content"] == "Summary."
    assert beside["event_data"].get("source") == ("summarization" if summary is SUMMARY else None)


def test_a_rewritten_history_tells_what_the_user_said_where_nothing_else_does() -> None:
    """Modes `messages` and `updates` have no state from before the run."""
    rewrite = updates(REMOVED, SUMMARY, OLD[1], human(), node="SummarizationMiddleware.before_model")
    got = run(whole(REMOVED), whole(SUMMARY), rewrite, chunk("m1", "Sun."), updates(ai("m1")))
    assert (said(got), got.agent_turns[0]["total_usage"]) == (["Sun."], USAGE)
    assert [part["content"] for turn in got.user_turns for part in turn["parts"]] == ["Weather?"]
    alone = run(
        whole(REMOVED), whole(SUMMARY), chunk("m1", "Sun."), run={"request": {"input": {"messages": [human()]}}}
    )
    assert said(alone) == ["Sun."]
    assert [part["content"] for turn in alone.user_turns for part in turn["parts"]] == ["Weather?"]


@pytest.mark.parametrize("mode", ["updates", "values"])
@pytest.mark.parametrize("first", [(SUMMARY,), ()], ids=["summary", "cut"])
def test_what_a_run_has_said_before_a_summary_stays(mode: str, first: tuple[Fields, ...]) -> None:
    """A history may be rewritten, or only cut off, between two calls of the model in one run."""
    called, answered = ai("m1", "Hm.", tool_calls=[CALL]), tool()
    again = ai("m2", "", tool_calls=[{**CALL, "id": "c2"}])
    result = {**tool("rain"), "id": "t2", "tool_call_id": "c2"}
    if mode == "updates":
        steps = [*map(updates, (called, answered, again, result)), updates(REMOVED, *first, again, result)]
        steps += [updates(ai("m3"))]
    else:
        before = [*STATE, called, answered, again, result]
        steps = [values(*before[:n]) for n in range(4, len(before) + 1)]
        steps += [values(*first, again, result), values(*first, again, result, ai("m3"))]
    got = run(values(*STATE), *steps)
    assert said(got) == ["Hm.", {"city": "Paris"}, {"city": "Paris"}, "Sun."]
    assert [part["content"] for part in got.parts("request")] == ["sun", "rain"]
    assert got.agent_turns[0]["total_usage"]["input_tokens"] == 36
    assert len(got.messages("system")) == len(first)


def test_kept_messages_may_come_again_under_other_ids() -> None:
    copies = [{**message, "id": f"copy-{n}"} for n, message in enumerate((OLD[1], human()))]
    got = run(values(*STATE), updates(REMOVED, SUMMARY, *copies), updates(ai("m1")), values(SUMMARY, *copies, ai("m1")))
    assert (said(got), got.agent_turns[0]["total_usage"]) == (["Sun."], USAGE)


def test_a_summary_gets_its_id_from_the_graph() -> None:
    """`astream_events` has what a node returns first, and then what the graph made of it."""
    kept = (OLD[1], human())
    got = run(values(*STATE), updates(REMOVED, SUMMARY | {"id": None}, *kept), updates(REMOVED, SUMMARY, *kept))
    (beside,) = got.messages("system")
    assert beside["event_data"]["id"] == "s"
    again = run(values(SUMMARY, *STATE), updates(REMOVED, SUMMARY | {"id": "s2"}, *kept), updates(ai("m1")))
    assert [message["event_data"]["id"] for message in again.messages("system")] == ["s2"]


def test_words_of_a_program_in_the_request_are_beside_the_conversation() -> None:
    """langchain-core's `add_notification_metadata`, for example when a task in the background is done."""
    extra = {"lc_source": "async_subagent", "lc_data": {"task_id": "t"}}
    told = {**human("Task t is done."), "additional_kwargs": extra}
    got = run(updates(ai("m1")), run={"request": {"input": {"messages": [*OLD, told]}}})
    assert (said(got), got.user_turns) == (["Sun."], [])
    (beside,) = got.messages("system")
    kept = {"id": "h1", "source": "async_subagent", "data": {"task_id": "t"}}
    assert beside["event_data"] == {**kept, "content": "Task t is done."}


def test_a_summary_in_a_history_is_no_prompt() -> None:
    reader = DIALECTS["langgraph"].formats[0].reader
    assert reader is not None
    origin = Origin("0b0c4a3e-6a53-4a9e-9d0f-0d8f4c9d1a11", "agent-1", 1_768_903_200_000)
    document = thread(reader, [SUMMARY, OLD[1], human(), ai("m1")], origin)
    words = [part["content"] for turn in document["turns"] if turn["turn_type"] == "user" for part in turn["parts"]]
    assert words == ["Weather?"]


BEFORE = (human("Rain?", "h0"), ai("m0", "Rain."))


@pytest.mark.parametrize("repeated", [(*BEFORE, human()), ({"role": "user", "content": "Weather?"},)])
def test_a_node_that_writes_the_whole_conversation_bills_no_earlier_answer(repeated: tuple[Fields, ...]) -> None:
    """As a client sends all of it, or the server keeps it and gets the newest words alone."""
    for events in ([updates(*BEFORE, human(), ai("m1"))], [chunk("m1", "Su"), updates(*BEFORE, human(), ai("m1"))]):
        got = run(*events, run={"request": {"input": {"messages": list(repeated)}}})
        assert (said(got), got.agent_turns[0]["total_usage"]) == (["Sun."], USAGE)


def test_a_streamed_message_of_the_request_is_an_earlier_runs() -> None:
    """A node returns what the client has sent; LangGraph streams whole messages that a node returns."""
    body = {"input": {"messages": [*BEFORE, human()]}}
    got = run(box([BEFORE[1], TASK]), box([ai("m1"), TASK]), run={"request": body})
    assert (said(got), got.agent_turns[0]["total_usage"]) == (["Sun."], USAGE)


def test_a_whole_message_that_comes_again_is_the_same_call() -> None:
    """A sub-graph's message comes when its node, and when the sub-graph itself returns it."""
    of_child = updates(ai("m1"), namespace=("writer:1",))
    assert run(of_child, of_child).agent_turns[0]["total_usage"] == USAGE


def root_events(*inner: Fields) -> list[Fields]:
    begin = {"event": "on_chain_start", "name": "LangGraph", "run_id": "r", "parent_ids": [], "data": {}}
    last = {"messages": [human(), ai("m1")]}
    end = {"event": "on_chain_end", "name": "LangGraph", "run_id": "r", "parent_ids": [], "data": {"output": last}}
    return [begin, *inner, end]


def hidden(node: str, message: Fields) -> Fields:
    task = {"langgraph_node": node, "langgraph_checkpoint_ns": f"{node}:1"}
    data = {"output": {**message, "response_metadata": {"model_name": "small"}}}
    return {
        "event": "on_chat_model_end",
        "run_id": "c",
        "tags": ["nostream"],
        "parent_ids": ["r", "n"],
        "metadata": task,
        "data": data,
    }


@pytest.mark.parametrize(
    ("node", "purpose"), [("SummarizationMiddleware.before_model", "summary"), ("guard", "background")]
)
def test_a_call_that_the_graph_hides_is_beside_the_answer(node: str, purpose: str) -> None:
    got = run(*root_events(hidden(node, ai("s1", "Summary."))))
    answer, aside = got.messages("response")
    assert (aside["meta:purpose"], aside["model_name"], aside["parts"]) == (purpose, "small", [])
    assert (answer["usage"], aside["usage"]) == (USAGE, USAGE)
    assert got.agent_turns[0]["total_usage"]["input_tokens"] == 24


def test_a_hidden_call_is_not_shown_as_it_comes() -> None:
    piece = {"type": "AIMessageChunk", "id": "s1", "content": "Summary."}
    event = {"event": "on_chat_model_stream", "run_id": "c", "parent_ids": ["r"], "data": {"chunk": piece}}
    assert [each.text for each in shown("langgraph", event)] == ["Summary."]
    assert shown("langgraph", {**event, "tags": ["nostream"]}) == ()


def test_a_hidden_call_whose_message_is_in_the_state_is_the_answer() -> None:
    (answer,) = run(*root_events(hidden("model", ai("m1")))).messages("response")
    assert (answer["parts"][0]["content"], answer.get("meta:purpose")) == ("Sun.", None)


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("place", ["block", "beside"])
def test_a_refusal_is_a_text_that_is_marked(place: str, *, streamed: bool) -> None:
    """langchain-openai 1.7 has it as a block of Responses, and beside the content of Chat Completions."""
    content: Any = [{"type": "refusal", "refusal": "No."}] if place == "block" else ""
    said_no = {"additional_kwargs": {"refusal": "No."}} if place == "beside" else {}
    got = run(*([chunk("m1", content)] if streamed else []), updates(ai("m1", content, **said_no)))
    assert got.parts("response") == [{"part_kind": "text", "content": "No.", "meta:refusal": True}]
    (answer,) = got.export("langchain")
    assert answer["content"] == [{"type": "refusal", "refusal": "No."}]


def test_a_call_keeps_the_signature_of_its_thought() -> None:
    """langchain-google-genai 4.4; Gemini 3 refuses the call without it."""
    beside = {"__gemini_function_call_thought_signatures__": {"c1": "c2ln"}}
    got = run(updates(ai("m1", "", tool_calls=[CALL], additional_kwargs=beside)), updates(tool(), node="tools"))
    assert got.parts("response")[0]["meta:thought_signature"] == "c2ln"
    assert got.export("langchain")[0]["additional_kwargs"] == beside
    (call, *_) = [part for content in got.export("gemini") for part in content["parts"]]
    assert call["thoughtSignature"] == "c2ln"


def test_a_tool_of_openai_in_the_content_and_beside_it_counts_once() -> None:
    """LangChain.js 1.x with `outputVersion: "v1"`: the content has it in the standard form."""
    content = [
        {"type": "server_tool_call", "id": "ci", "name": "code_interpreter", "args": {"code": "1"}},
        {"type": "server_tool_call_result", "toolCallId": "ci", "status": "success", "output": {"stdout": "1"}},
        {"type": "text", "text": "One."},
    ]
    outputs = [{"type": "code_interpreter_call", "id": "ci", "code": "1", "outputs": []}]
    got = run(updates(ai("m1", content, additional_kwargs={"tool_outputs": outputs})))
    assert kinds(got) == ["builtin-tool-call", "builtin-tool-return", "text"]


def test_tools_of_openai_stand_where_the_output_has_them() -> None:
    """LangChain.js keeps the items of the answer in `response_metadata.output`."""
    searches = [{"type": "web_search_call", "id": name, "action": {"query": name}} for name in ("w1", "w2", "w3")]
    words = [{"type": "text", "text": text} for text in ("A", "B")]
    messages = [{"type": "message", "content": [{"type": "output_text", "text": word["text"]}]} for word in words]
    order = [searches[0], messages[0], searches[1], messages[1], searches[2]]
    beside = {"tool_outputs": searches}
    got = run(updates(ai("m1", words, additional_kwargs=beside, response_metadata={"output": order})))
    places = [part.get("args", part.get("content")) for part in got.parts("response")]
    assert [place for place in places if place != {}] == [{"query": "w1"}, "A", {"query": "w2"}, "B", {"query": "w3"}]


@pytest.mark.parametrize(
    ("reason", "kept"), [("lengthlength", "length"), ("STOPSTOPSTOP", "stop"), ("newnew", "error")]
)
def test_a_reason_that_langchain_has_added_up(reason: str, kept: str) -> None:
    """langchain-core 1.8 adds the texts of chunks up."""
    (response,) = run(updates(ai("m1", response_metadata={"finish_reason": reason}))).messages("response")
    assert response["finish_reason"] == kept
