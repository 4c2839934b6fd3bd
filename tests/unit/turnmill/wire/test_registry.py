"""What a wire's line says of its events."""

from typing import Any

import pytest

from turnmill.wire.registry import WIRES, Wire
from turnmill.wire.sdk_objects import LEFT_OUT


class Event:
    """As pydantic models are, by shape."""

    def model_dump(self, **options: Any) -> dict[str, Any]:
        return {"type": "x"}


def test_objects_and_dicts_are_events() -> None:
    event = {"type": "x"}
    assert Wire().event_of(event) is event
    assert Wire().event_of(Event()) == event
    assert Wire(boxed=True).event_of(event) is event


def test_on_a_boxed_wire_any_other_value_travels_in_a_box() -> None:
    assert Wire(boxed=True).event_of(("messages", [1])) == {"event": None, "data": ("messages", [1])}
    assert Wire().event_of((1,)) == (1,), "the envelope refuses it"


def test_what_others_have_said_is_left_out() -> None:
    assert Wire(boxed=True, as_event=lambda _: LEFT_OUT).event_of(Event()) is LEFT_OUT


def test_objects_are_also_looked_for_within_dicts_where_a_wire_has_them() -> None:
    assert Wire(holds_objects=True, as_event=lambda event: {**event, "seen": True}).event_of({}) == {"seen": True}
    assert WIRES["langgraph"].event_of({"model": Event()}) == {"model": {"type": "x"}}


@pytest.mark.parametrize(
    ("wire", "kind", "taken"),
    [
        (Wire(), "x", True),
        (Wire(), None, False),
        (Wire(untyped=True), None, True),
        (Wire(untyped=True), 7, False),
        (Wire(boxed=True), None, True),
    ],
)
def test_an_event_has_a_type_unless_its_wire_has_untyped_ones(wire: Wire, kind: Any, *, taken: bool) -> None:
    assert wire.takes(kind) is taken
