"""A resumed run in the order of its seq: a model, and the bound of what waits."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.gateway.live.recent_events import OVERHEAD, Frame, InOrder

MUCH = 10**9


@given(st.permutations(range(12)), st.integers(0, 12), st.lists(st.integers(0, 11)))
def test_each_seq_once_and_in_order(order: list[int], first: int, again: list[int]) -> None:
    frames = InOrder(first, MUCH)
    found = [given.seq for seq in [*order, *again] for given in frames.take(Frame(seq, b"x"))]
    assert found == list(range(first, 12))
    assert (frames.rest(), frames.size) == ([], 0)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 900)), max_size=60), st.integers(0, 4000))
def test_what_waits_is_bounded_in_bytes(given_frames: list[tuple[int, int]], most: int) -> None:
    frames = InOrder(0, most)
    found = []
    for seq, size in given_frames:
        found += frames.take(Frame(seq, bytes(size)))
        assert frames.size <= most
    found += frames.rest()
    seqs = [frame.seq for frame in found]
    assert seqs == sorted(set(seqs))
    assert frames.size == 0


def test_what_never_comes_is_passed_over_once_too_much_waits() -> None:
    frames = InOrder(0, 2 * (100 + OVERHEAD))
    assert [frames.take(Frame(seq, bytes(100))) for seq in (1, 3)] == [[], []]
    assert [frame.seq for frame in frames.take(Frame(4, bytes(100), last=True))] == [1]
    assert [(frame.seq, frame.last) for frame in frames.take(Frame(2, bytes(100)))] == [
        (2, False),
        (3, False),
        (4, True),
    ]
