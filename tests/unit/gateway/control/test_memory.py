"""What a gateway remembers of commands: within bytes, open ones longest, and no tenant at another's cost."""

from typing import Final

import pytest

from pipeline.gateway.control.commands import new_command
from pipeline.gateway.control.memory import Known, Memory
from pipeline.policies.command_states import requested
from turnmill.control.record import ANSWER, NOW, STOP, Command

THREAD: Final = "8e06a734-32f3-584c-a380-4e57c9b39f3f"
SIZE: Final = 100_000


def command(tenant: str, kind: str = STOP, size: int = 0) -> Command:
    payload = {"answer_id": "q", "value": "x" * size} if kind == ANSWER else {}
    return new_command(kind, (THREAD, tenant), "r", NOW, "ann", payload)


def remembered(memory: Memory, given: Command) -> Known:
    known = Known(given, requested(given.at), counts=True)
    memory.add(known)
    return known


def test_what_is_open_outlasts_what_is_over() -> None:
    memory = Memory(SIZE)
    stop = remembered(memory, command("acme"))
    for _ in range(1_000):
        memory.settle(remembered(memory, command("acme")))
    assert memory.get(stop.command.id) is stop
    assert list(memory) == [stop]


def test_the_commands_of_a_tenant_forget_none_of_anothers() -> None:
    memory = Memory(SIZE)
    stop = remembered(memory, command("acme"))
    for _ in range(1_000):
        remembered(memory, command("evil", ANSWER, 5_000))
    assert memory.get(stop.command.id) is stop
    assert sum(known.command.size for known in memory) <= SIZE


@pytest.mark.parametrize(("kind", "size", "most"), [(STOP, 0, 40), (ANSWER, 10_000, 5)])
def test_a_tenant_gives_as_many_as_its_share_has_bytes(kind: str, size: int, most: int) -> None:
    memory = Memory(SIZE)
    given = 0
    while memory.has_room(wanted := command("evil", kind, size), 0):
        remembered(memory, wanted)
        given += 1
    assert 1 < given <= most
    assert memory.has_room(command("acme"), 0)


def test_what_has_expired_makes_room() -> None:
    memory = Memory(SIZE)
    while memory.has_room(wanted := command("acme"), 0):
        known = remembered(memory, wanted)
    assert not memory.has_room(wanted, known.command.expires - 10_000)
    assert memory.has_room(wanted, known.command.expires)
    assert list(memory) == []


def test_the_answers_of_a_thread_are_those_that_are_open() -> None:
    memory = Memory(SIZE)
    first, second = (remembered(memory, command("acme", ANSWER)) for _ in range(2))
    memory.settle(second)
    assert memory.answers("acme", THREAD) == [first]
    assert memory.answers("evil", THREAD) == []
