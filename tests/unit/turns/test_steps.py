"""Where the time of a turn went, as far as events tell it."""

from typing import Any

from pipeline.assembly.builder import Builder
from pipeline.assembly.finish import finish
from pipeline.assembly.parts import Context
from pipeline.turns.steps import nested, spawned_by, steps_of

THREAD = "6f1d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e11"


class Played:
    """A run that is built event by event, each at a time in ms."""

    def __init__(self) -> None:
        self.builder = Builder(Context(THREAD, "r", "a", "toy", model_name="m"), 1000)
        self.builder.first_at = self.builder.last_at = 1000

    def at(self, ms: int) -> Builder:
        self.builder.at = self.builder.last_at = ms
        return self.builder

    def says(self, first: int, last: int, *calls: str) -> None:
        """A response from its first part to its last, which calls these tools."""
        self.at(first).add_part({"part_kind": "text", "content": "Let me look."})
        self.at(last)
        for name in calls:
            self.builder.tool_call(name, f"tool-{name}", {})

    def steps(self, end: str = "complete") -> Any:
        [record] = finish(self.builder, end, events=1)
        return steps_of(record)


def times(steps: Any) -> list[tuple[Any, ...]]:
    return [(step["name"], step["start"], step.get("first_token"), step["end"], step["status"]) for step in steps]


def test_a_tool_begins_with_the_end_of_its_call_and_ends_with_its_result() -> None:
    run = Played()
    run.says(1200, 1500, "a")
    run.builder.close_response()
    run.at(4000).tool_return("a", content="found")
    run.says(4300, 4700)
    run.builder.close_response()
    assert times(run.steps()) == [
        ("m", 1000, 1200, 1500, "complete"),
        ("tool-a", 1500, None, 4000, "success"),
        ("m", 4000, 4300, 4700, "complete"),
    ]


def test_of_several_tools_of_a_response_it_is_not_known_when_each_has_answered() -> None:
    run = Played()
    run.says(1200, 1500, "a", "b")
    run.builder.close_response()
    run.at(4000).tool_return("a", content="found")
    run.at(9000).tool_return("b", kind="retry-prompt", content="again")
    run.says(9500, 9900)
    run.builder.close_response()
    assert times(run.steps()) == [
        ("m", 1000, 1200, 1500, "complete"),
        ("tool-a", 1500, None, None, "success"),
        ("tool-b", 1500, None, None, "retry"),
        ("m", 9000, 9500, 9900, "complete"),
    ]


def test_a_turn_that_broke_off_has_its_last_step_and_the_tools_that_nobody_answered() -> None:
    run = Played()
    run.says(1200, 1500, "a")
    run.builder.close_response()
    run.at(2000)
    assert times(run.steps("error")) == [
        (None, 1000, None, None, "complete"),
        ("tool-a", None, None, None, "unanswered"),
    ]


def test_a_response_that_broke_off_ends_with_its_turn() -> None:
    run = Played()
    run.says(1200, 2000)
    assert times(run.steps("aborted")) == [(None, 1000, None, 2000, "interrupted")]


def test_a_tool_that_would_end_before_it_began_has_no_end() -> None:
    run = Played()
    run.says(1200, 1500, "a")
    run.at(1480).tool_return("a", content="found")  # some wires end a response behind the results of its tools
    run.at(1520).close_response()
    run.says(1700, 1900)
    run.builder.close_response()
    assert times(run.steps()) == [
        ("m", 1000, 1200, 1520, "complete"),
        ("tool-a", 1520, None, None, "success"),
        ("m", 1520, 1700, 1900, "complete"),
    ]


def test_responses_of_a_single_time_have_no_start() -> None:
    run = Played()
    run.says(1000, 1000, "a")
    run.builder.close_response()
    run.at(1000).tool_return("a", content="found")
    run.says(1000, 1000)
    run.builder.close_response()
    assert times(run.steps()) == [
        ("m", None, None, None, "complete"),
        ("tool-a", None, None, 1000, "success"),
        ("m", None, None, None, "complete"),
    ]


def test_a_response_that_would_end_before_its_tools_results_came_has_no_start() -> None:
    run = Played()
    run.says(1200, 1500, "a")
    run.builder.close_response()
    run.at(9000).tool_return("a", content="found")  # by the clock of another machine
    run.says(1700, 1900)
    run.builder.close_response()
    assert times(run.steps())[1:] == [("tool-a", 1500, None, 9000, "success"), ("m", None, 1700, 1900, "complete")]


def test_a_sub_agents_steps_are_below_the_call_that_began_it() -> None:
    run = Played()
    run.says(1200, 1500, "a")
    run.builder.close_response()
    run.at(4000).tool_return("a", content="found")
    steps = run.steps()
    link = {"relation": "spawned_from", "thread_id": THREAD, "metadata": {"tool_call_id": "a"}}
    record: Any = {"links": [{"relation": "referenced"}, link]}
    name = spawned_by(record)
    assert name == "a"
    below = [{"kind": "model", "name": "small"}]
    assert [step.get("steps") for step in nested(steps, {name: below})] == [None, below]
    assert spawned_by({"links": "any"}) is None  # type: ignore[typeddict-item]  # of a foreign record


def test_a_users_turn_has_no_steps() -> None:
    assert steps_of({"turn": {"turn_type": "user"}}) == []  # type: ignore[typeddict-item]  # nothing else is read
    assert steps_of({"turn": None}) == []  # type: ignore[typeddict-item]
