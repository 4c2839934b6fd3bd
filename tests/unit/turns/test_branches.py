import random
from typing import Any

import pytest

from pipeline.dialects import FORMATS
from pipeline.turns.branches import UnknownBranch, one_branch
from pipeline.turns.canonical import turn_hash
from tests.support.forked import document, run, said, versions
from tests.support.histories import chat, ui

BRANCH = "meta:branch"


def marks(thread: dict[str, Any]) -> dict[str, Any]:
    return {turn["meta:run_id"]: turn.get(BRANCH) for turn in thread["turns"]}


def test_a_conversation_that_goes_on_does_not_fork() -> None:
    first = run(0, "A", request={"messages": ui("u1")})
    thread = document(first, run(1, "B", request={"messages": ui("u1", "A", "u2")}))
    assert marks(thread) == {"run-0": None, "run-1": None}
    assert one_branch(thread) == thread
    assert one_branch(thread, "run-0") == thread


def test_an_answer_that_is_regenerated_takes_the_place_of_the_first() -> None:
    first = run(0, "A", request={"messages": ui("u1"), "trigger": "submit-message"})
    again = run(1, "A2", request={"messages": ui("u1"), "trigger": "regenerate-message"})
    thread = document(first, again)
    assert said(thread) == ["u1", "A", "A2"]  # a thread keeps every branch
    one, two = {"number": 1, "of": 2, "first": "run-0"}, {"number": 2, "of": 2, "first": "run-0"}
    assert marks(thread) == {
        "run-0": {"run": "run-0", "follows": None, "version": {**one, "next": "run-1"}},
        "run-1": {"run": "run-1", "follows": None, "replaces": "run-0", "version": {**two, "before": "run-0"}},
    }
    assert said(one_branch(thread)) == ["u1", "A2"]
    assert said(one_branch(thread, "run-0")) == ["u1", "A"]


def test_each_message_format_has_the_newest_branch() -> None:
    first = run(0, "A", request={"messages": ui("u1")})
    thread = document(first, run(1, "A2", request={"messages": ui("u1"), "trigger": "regenerate-message"}))
    for form in FORMATS.values():
        printed = str(form.printed(thread))
        assert "A2" in printed
        assert ("'A'" in printed) is form.is_document
        assert "A2" not in str(form.printed(thread, branch="run-0"))


def test_words_that_are_edited_begin_another_branch_where_the_first_ones_stood() -> None:
    runs = [
        run(0, "A", request={"messages": ui("u1")}),
        run(1, "B", request={"messages": ui("u1", "A", "u2")}),
        run(2, "C", request={"messages": ui("u1", "A", "u2", "B", "u3")}),
        run(3, "B2", request={"messages": ui("u1", "A", "u2 again", ids={"u2 again": "u2"})}),
    ]
    thread = document(*runs)
    assert said(one_branch(thread)) == ["u1", "A", "u2 again", "B2"]
    assert said(one_branch(thread, "run-1")) == ["u1", "A", "u2", "B", "u3", "C"]
    assert versions(thread, "run-3") == ["run-1", "run-3"]
    assert marks(thread)["run-0"] == {"run": "run-0", "follows": None}


def test_a_conversation_goes_on_behind_the_version_whose_answer_its_history_has() -> None:
    runs = [
        run(0, "A", request={"messages": ui("u1")}),
        run(1, "A2", request={"messages": ui("u1"), "trigger": "regenerate-message"}),
        run(2, "B", request={"messages": ui("u1", "A", "u2")}),
        run(3, "B2", request={"messages": ui("u1", "A2", "u2", ids={"u2": "other"})}),
    ]
    thread = document(*runs)
    assert said(one_branch(thread)) == ["u1", "A2", "u2", "B2"]
    assert said(one_branch(thread, "run-0")) == ["u1", "A", "u2", "B"]


def test_a_history_without_ids_tells_by_its_words() -> None:
    runs = [
        run(0, "A", "openai-chat", request={"messages": chat("u1")}),
        run(1, "B", "openai-chat", request={"messages": chat("u1", "A", "u2")}),
        run(2, "B2", "openai-chat", request={"messages": chat("u1", "A", "u2")}),
        run(3, "C", "openai-chat", request={"messages": chat("u1", "A", "u3")}),
    ]
    thread = document(*runs)
    assert marks(thread)["run-2"] == {
        "run": "run-2",
        "follows": "run-0",
        "replaces": "run-1",
        "version": {"number": 2, "of": 3, "first": "run-1", "before": "run-1", "next": "run-3"},
    }
    assert versions(thread, "run-3") == ["run-1", "run-2", "run-3"]
    assert said(one_branch(thread)) == ["u1", "A", "u3", "C"]
    assert said(one_branch(thread, "run-2")) == ["u1", "A", "u2", "B2"]


def test_a_history_in_an_event_of_the_run_says_as_much() -> None:
    body = {"messages": chat("u1", "A", "u2")}
    asked = {"object": "turnmill.request", "request": body}
    runs = [
        run(0, "A", "openai-chat", request={"messages": chat("u1")}),
        run(1, "B", "openai-chat", request=body),
        run(2, "B2", "openai-chat", before=[asked]),
    ]
    assert said(one_branch(document(*runs))) == ["u1", "A", "u2", "B2"]


def test_the_publisher_s_word_is_above_all() -> None:
    runs = [
        run(0, "A", request={"messages": ui("u1")}),
        run(1, "B", continues="run-0"),
        run(2, "B2", replaces="run-1"),
        run(3, "C", continues="run-1"),
    ]
    thread = document(*runs)
    assert said(one_branch(thread)) == ["u1", "A", "B", "C"]
    assert said(one_branch(thread, "run-2")) == ["u1", "A", "B2"]


def test_a_run_that_is_named_may_have_begun_later_by_another_clock() -> None:
    thread = document(run(1, "A"), run(0, "A2", replaces="run-1"))
    assert said(one_branch(thread, "run-0")) == ["A2"]
    assert said(one_branch(thread, "run-1")) == ["A"]


def test_runs_that_name_each_other_end_somewhere() -> None:
    thread = document(run(0, "A", continues="run-1"), run(1, "B", continues="run-0"), run(2, "C", continues="run-2"))
    assert set(said(one_branch(thread))) == {"A", "B", "C"}


def test_first_words_without_ids_are_no_other_version() -> None:
    runs = [run(number, text, "openai-chat", request={"messages": chat("go on")}) for number, text in enumerate("AB")]
    assert said(one_branch(document(*runs))) == ["go on", "A", "go on", "B"]


def test_a_history_that_nobody_stored_tells_nothing() -> None:
    """As examples that stand before each question."""
    runs = [
        run(n, text, "openai-chat", request={"messages": chat("example", "so", "go")}) for n, text in enumerate("AB")
    ]
    assert said(one_branch(document(*runs))) == ["go", "A", "go", "B"]


def test_another_agent_that_hears_the_same_words_is_no_other_version() -> None:
    runs = [
        run(0, "A", request={"messages": ui("u1")}),
        run(1, "B", request={"messages": ui("u1", "A", "u2")}),
        run(2, "C", agent="b", request={"messages": ui("u1", "A", "u2")}),
    ]
    assert said(one_branch(document(*runs))) == ["u1", "A", "u2", "B", "u2", "C"]


def test_a_run_of_which_nothing_is_known_belongs_to_the_branch_before_it() -> None:
    runs = [
        run(0, "A", request={"messages": ui("u1")}),
        run(1, "noted"),
        run(2, "A2", request={"messages": ui("u1"), "trigger": "regenerate-message"}),
        run(3, "noted too"),
    ]
    thread = document(*runs)
    assert said(one_branch(thread)) == ["u1", "A2", "noted too"]
    assert said(one_branch(thread, "run-0")) == ["u1", "A", "noted"]


def test_a_sub_agent_s_run_goes_with_the_run_that_started_it() -> None:
    runs = [
        run(0, "A", request={"messages": ui("u1")}),
        run(1, "helped", parent_run_id="run-0"),
        run(2, "A2", request={"messages": ui("u1"), "trigger": "regenerate-message"}),
        run(3, "late help", parent_run_id="run-0"),
    ]
    thread = document(*runs)
    assert said(one_branch(thread)) == ["u1", "A2"]
    assert said(one_branch(thread, "run-0")) == ["u1", "A", "helped", "late help"]


def test_results_that_the_client_sends_go_on_with_the_answer() -> None:
    call = {"type": "tool-weather", "toolCallId": "c1", "state": "output-available", "input": {}, "output": 1}
    answered = {"id": "m", "role": "assistant", "parts": [call]}
    runs = [
        run(0, "A", request={"messages": ui("u1")}),
        run(1, "B", request={"messages": [*ui("u1"), answered]}),
        run(2, "C", request={"messages": ui("u1", "B", "u2")}),
    ]
    thread = document(*runs)
    assert marks(thread) == {"run-0": None, "run-1": None, "run-2": None}


def test_the_order_of_records_does_not_matter_and_no_hash_changes() -> None:
    runs = [
        run(0, "A", request={"messages": ui("u1")}),
        run(1, "A2", request={"messages": ui("u1"), "trigger": "regenerate-message"}),
        run(2, "B", request={"messages": ui("u1", "A2", "u2")}),
    ]
    thread = document(*runs)
    for seed in range(5):
        assert document(*random.Random(seed).sample(runs, 3)) == thread
    by_turn = {record["turn_id"]: record["hash"] for records in runs for record in records}
    assert {turn["meta:turn_id"]: turn_hash(turn) for turn in thread["turns"]} == by_turn


def test_a_branch_is_named_by_a_turn_as_well() -> None:
    first = run(0, "A", request={"messages": ui("u1")})
    thread = document(first, run(1, "A2", request={"messages": ui("u1"), "trigger": "regenerate-message"}))
    for turn in thread["turns"]:
        assert one_branch(thread, turn["meta:turn_id"]) == one_branch(thread, turn["meta:run_id"])
    assert said(one_branch(document(first), first[0]["turn_id"])) == ["u1", "A"]


def test_an_unknown_run_is_an_error() -> None:
    with pytest.raises(UnknownBranch, match="no run or turn of this thread is called 'other'"):
        one_branch(document(run(0, "A")), "other")


def test_a_run_s_name_in_marks_has_a_bound() -> None:
    """Many runs may name it, and a thread would be many times as large as what came in."""
    records = run(0, "A")
    long = [{**record, "run_id": "r" * 100_000} for record in records]
    for record in long:
        record["turn"] = {**(record["turn"] or {}), "meta:run_id": record["run_id"]}
    thread = document(long, run(1, "B"), run(2, "B2", replaces="run-1"), run(3, "helped", parent_run_id="r" * 100_000))
    assert len(str(thread)) < 210_000  # its own, and that of the run that it started
    assert said(one_branch(thread, "r" * 100_000)) == ["A", "B2", "helped"]
    assert marks(thread)["run-3"]["follows"] == marks(thread)["run-1"]["follows"]


def test_an_answer_without_an_id_is_nobody_s() -> None:
    records = run(0, "A")
    for record in records:
        for message in (record["turn"] or {}).get("messages", ()):
            message["provider_response_id"] = ""
    thread = document(records, run(1, "noted"), run(2, "noted too"))
    assert marks(thread) == {"run-0": None, "run-1": None, "run-2": None}


def test_marks_of_a_document_that_does_not_fork_are_left_out() -> None:
    """One branch of it was imported; or whoever wrote them was wrong."""
    records = run(0, "A")
    for record in records:
        record["turn"] = {**(record["turn"] or {}), BRANCH: {"run": "x", "follows": "y", "version": {"of": 10**9}}}
    assert marks(document(records)) == {"run-0": None}


def stated(run_id: str, parent: str | None, source: str) -> dict[str, Any]:
    """A checkpoint as LangGraph streams it."""
    configs = {"config": run_id, "parent_config": parent}
    told = {key: one and {"configurable": {"checkpoint_ns": "", "checkpoint_id": one}} for key, one in configs.items()}
    return {"event": None, "data": ["checkpoints", {**told, "metadata": {"source": source}}]}


def graph(number: int, text: str, *events: dict[str, Any], **info: Any) -> list[Any]:
    return run(number, text, "langgraph", before=events, **info)


def test_a_graph_that_goes_on_from_the_end_of_a_run_follows_it() -> None:
    thread = document(
        graph(0, "A", stated("c0", None, "input"), stated("c1", "c0", "loop")),
        graph(1, "B", stated("c2", "c1", "input"), stated("c3", "c2", "loop")),
        graph(2, "B2", stated("c4", "c1", "input"), stated("c5", "c4", "loop")),
    )
    assert said(one_branch(thread)) == ["A", "B2"]
    assert said(one_branch(thread, "run-1")) == ["A", "B"]


def test_a_graph_that_goes_on_from_the_middle_of_a_run_takes_its_place() -> None:
    thread = document(
        graph(0, "A", stated("c0", None, "input"), stated("c1", "c0", "loop"), stated("c2", "c1", "loop")),
        graph(1, "B", stated("c3", "c2", "input"), stated("c4", "c3", "loop"), stated("c5", "c4", "loop")),
        graph(2, "B2", stated("c6", "c4", "fork"), stated("c7", "c6", "loop")),
        graph(3, "C", stated("c8", "c7", "input")),
    )
    assert said(one_branch(thread)) == ["A", "B2", "C"]
    assert said(one_branch(thread, "run-1")) == ["A", "B"]
    assert marks(thread)["run-2"]["replaces"] == "run-1"


def test_a_graph_that_goes_on_with_what_it_waited_for_follows_the_run_that_waits() -> None:
    """It tells the checkpoint once more at which the run before it stopped."""
    waits = graph(0, "A", stated("c0", None, "input"), stated("c1", "c0", "loop"))
    goes_on = [
        graph(n, text, stated("c1", "c0", "loop"), stated(f"c{n + 1}", "c1", "loop"))
        for n, text in ((1, "B"), (2, "B2"))
    ]
    thread = document(waits, *goes_on)
    assert said(one_branch(thread)) == ["A", "B2"]
    assert said(one_branch(thread, "run-1")) == ["A", "B"]
    assert versions(thread, "run-1") == ["run-1", "run-2"]


@pytest.mark.parametrize(
    "asked",
    [
        {"checkpoint_id": "c9"},
        {"checkpoint": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "c9"}},
        {"config": {"configurable": {"checkpoint_id": "c9"}}},
    ],
)
def test_runs_from_the_same_checkpoint_are_versions_whoever_has_written_it(asked: dict[str, Any]) -> None:
    thread = document(
        graph(0, "A"), graph(1, "B", request={"input": None, **asked}), graph(2, "B2", request={"input": None, **asked})
    )
    assert said(one_branch(thread)) == ["A", "B2"]
    assert said(one_branch(thread, "run-1")) == ["A", "B"]


def test_the_state_before_the_run_is_a_history() -> None:
    def state(*texts: str) -> dict[str, Any]:
        kinds = ("human", "ai")
        given = [{"type": kinds[n % 2], "content": text, "id": f"{text}-id"} for n, text in enumerate(texts)]
        return {"event": None, "data": ["values", {"messages": given}]}

    thread = document(
        graph(0, "A", state("u1")),
        graph(1, "B", state("u1", "A", "u2")),
        graph(2, "B2", state("u1", "A", "u2")),
        graph(3, "C", state("u1", "A", "u3")),
    )
    assert said(one_branch(thread)) == ["u1", "A", "u3", "C"]
    assert said(one_branch(thread, "run-1")) == ["u1", "A", "u2", "B"]
    assert versions(thread, "run-1") == ["run-1", "run-2", "run-3"]


def started(run_id: str, parent: str | None = None, **more: Any) -> dict[str, Any]:
    return {"type": "RUN_STARTED", "threadId": "t", "runId": run_id, "parentRunId": parent, **more}


def agui(number: int, text: str, *events: dict[str, Any], **info: Any) -> list[Any]:
    return run(number, text, "ag-ui", before=events, **info)


def test_ag_ui_s_runs_name_the_run_that_they_go_on_from() -> None:
    """By AG-UI's own ids, which the publisher may not have taken for its own."""
    thread = document(
        agui(0, "A", started("x0")), agui(1, "B", started("x1", "x0")), agui(2, "B2", started("x2", "x0"))
    )
    assert said(one_branch(thread)) == ["A", "B2"]
    assert said(one_branch(thread, "run-1")) == ["A", "B"]


def test_ag_ui_s_requests_name_it_as_well() -> None:
    def asked(number: int, text: str, **more: Any) -> list[Any]:
        body = {"threadId": "t", "messages": [], "runId": f"x{number}", **more}
        return agui(number, text, started(f"x{number}"), request=body)

    thread = document(asked(0, "A"), asked(1, "B", parentRunId="x0"), asked(2, "B2", parentRunId="x0"))
    assert said(one_branch(thread)) == ["A", "B2"]
    assert said(one_branch(thread, "run-1")) == ["A", "B"]


def test_ag_ui_s_clients_that_call_all_runs_the_same_say_nothing_by_it() -> None:
    thread = document(*(agui(n, text, started("x"), request={"runId": "x"}) for n, text in enumerate("ABC")))
    assert said(one_branch(thread)) == ["A", "B", "C"]
    thread = document(*(agui(n, text, started("x", "x")) for n, text in enumerate("ABC")))
    assert said(one_branch(thread)) == ["A", "B", "C"]


def test_ag_ui_s_start_of_a_run_may_have_its_history() -> None:
    def asked(*texts: str) -> dict[str, Any]:
        roles = ("user", "assistant")
        messages = [{"id": f"{text}-id", "role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
        return started("x", input={"threadId": "t", "runId": "x", "messages": messages})

    thread = document(
        agui(0, "A", asked("u1")), agui(1, "B", asked("u1", "A", "u2")), agui(2, "B2", asked("u1", "A", "u3"))
    )
    assert said(one_branch(thread)) == ["u1", "A", "u3", "B2"]
    assert said(one_branch(thread, "run-1")) == ["u1", "A", "u2", "B"]
