"""Records as bytes that tell whether they are whole."""

import pytest

from turnmill.publish.spool_segment import MARK, Damage, Frame, encode, scan

ONE, TWO = encode(b"k", b'{"n":1}'), encode(b"key 2", b"")


def test_what_is_written_is_read() -> None:
    assert list(scan(ONE + TWO)) == [
        Frame(0, len(ONE), b"k", b'{"n":1}'),
        Frame(len(ONE), len(ONE) + len(TWO), b"key 2", b""),
    ]
    assert list(scan(b"")) == []


@pytest.mark.parametrize("kept", range(1, len(TWO)))
def test_a_cut_record_is_torn(kept: int) -> None:
    assert list(scan(ONE + TWO[:kept]))[1:] == [Damage(len(ONE), len(ONE) + kept, torn=True)]


def test_zeros_at_the_end_are_damage_of_another_kind() -> None:
    # File systems leave them where a power cut came between the new length and the data.
    assert list(scan(ONE + bytes(64)))[1:] == [Damage(len(ONE), len(ONE) + 64, torn=False)]


def test_a_mark_in_a_damaged_record_begins_none() -> None:
    inner = encode(b"k", MARK + b"x" * 20)
    broken = bytearray(inner)
    broken[-1] ^= 1
    found = list(scan(bytes(broken) + ONE))
    assert [type(item) for item in found] == [Damage, Frame]
    assert (found[0].start, found[0].end) == (0, len(inner))
