from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnmill.identity import is_uuid, thread_uuid, turn_id

THREAD = "6f1d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e11"


@pytest.mark.parametrize(
    "written", [THREAD, THREAD.upper(), THREAD.replace("-", ""), f"{{{THREAD}}}", f"urn:uuid:{THREAD}"]
)
def test_a_uuid_stays_the_same_however_it_is_written(written: str) -> None:
    assert thread_uuid(written) == (THREAD, None)


@pytest.mark.parametrize(
    "other",
    [
        "chat-1",
        "",
        " ",
        "\ud800",
        "\0",
        "１" * 32,
        "1_2" + "0" * 29,
        " " + "a" * 31,
        "+" + "1" * 31,
        THREAD + " ",
        "0x" + "1" * 30,
    ],
)
def test_any_other_id_is_kept_beside_its_uuid(other: str) -> None:
    thread_id, external_id = thread_uuid(other)
    assert (UUID(thread_id).version, external_id) == (5, other)


def test_ids_are_the_same_for_ever() -> None:
    assert thread_uuid("chat-1") == ("563a159f-339c-579c-b43d-f49d669bd11b", "chat-1")
    assert turn_id(THREAD, "run") == turn_id(THREAD.upper(), "run") == "85dc1364-15b3-5368-a0a0-cc093fde8eb7"
    assert turn_id(THREAD, "run", "user") == "5597e284-5be0-55d4-b785-87ae38a55e66"


@given(st.text(st.characters(exclude_categories=())), st.text(st.characters(exclude_categories=())))
def test_different_runs_have_different_turns(one: str, other: str) -> None:
    assert (turn_id(THREAD, one) == turn_id(THREAD, other)) is (one == other)


@pytest.mark.parametrize(
    ("value", "yes"),
    [
        (THREAD, True),
        (THREAD.upper(), True),
        (THREAD.replace("-", ""), False),
        (f"{{{THREAD}}}", False),
        (THREAD[:-1] + "g", False),
        (THREAD[:-1] + "１", False),
        (THREAD.replace("-", "_"), False),
        ("", False),
        (None, False),
        (5, False),
        ([THREAD], False),
    ],
)
def test_is_uuid(value: object, yes: bool) -> None:  # noqa: FBT001
    assert is_uuid(value) is yes
