"""Whatever a crash cuts off and whatever a disk flips: what is whole comes back, in order, and the rest is noticed."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from turnmill.publish import spool as spool_module
from turnmill.publish.spool import Spool, SpoolFull
from turnmill.publish.spool_segment import Damage, Frame, RecordEnd, encode, scan

Record = tuple[bytes, bytes]
RECORDS = st.lists(st.tuples(st.binary(max_size=8), st.binary(max_size=40)), min_size=1, max_size=8)


def whole(found: Sequence[Frame | Damage]) -> list[Record]:
    return [(item.key, item.value) for item in found if isinstance(item, Frame)]


@given(RECORDS, st.data())
def test_a_cut_anywhere_loses_only_the_torn_record(records: list[Record], data: st.DataObject) -> None:
    frames = [encode(*record) for record in records]
    ends = [sum(map(len, frames[: n + 1])) for n in range(len(frames))]
    cut = data.draw(st.integers(0, ends[-1]))
    found = list(scan(b"".join(frames)[:cut]))
    complete = sum(end <= cut for end in ends)
    assert whole(found) == records[:complete]
    rest = cut - (ends[complete - 1] if complete else 0)
    assert found[complete:] == ([Damage(cut - rest, cut, torn=True)] if rest else [])


@given(RECORDS, st.data())
def test_a_flipped_byte_anywhere_is_found_and_costs_its_record_only(records: list[Record], data: st.DataObject) -> None:
    frames = [encode(*record) for record in records]
    number = data.draw(st.integers(0, len(frames) - 1))
    place = data.draw(st.integers(0, len(frames[number]) - 1))
    broken = bytearray(frames[number])
    broken[place] ^= data.draw(st.integers(1, 255))
    found = list(scan(b"".join([*frames[:number], bytes(broken), *frames[number + 1 :]])))
    assert whole(found) == records[:number] + records[number + 1 :]
    start = sum(map(len, frames[:number]))
    assert [(d.start, d.end) for d in found if isinstance(d, Damage)] == [(start, start + len(broken))]


@given(st.binary(max_size=200))
def test_rubbish_is_covered_from_end_to_end(rubbish: bytes) -> None:
    found = list(scan(rubbish))
    assert [item.start for item in found] == [0, *[item.end for item in found]][: len(found)]
    assert (found[-1].end if found else 0) == len(rubbish)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 60)),
        st.tuples(st.just("read"), st.just(0)),
        st.tuples(st.just("ack"), st.integers(1, 4)),
        st.tuples(st.just("crash"), st.just(0)),
        st.tuples(st.just("leave"), st.just(0)),
    ),
    max_size=40,
)


@given(ACTIONS)
def test_a_spool_is_a_queue_whatever_happens_to_its_process(actions: list[tuple[str, int]]) -> None:
    """Against a list: what was appended and not confirmed comes back in order; after a crash, from the last mark on."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "spool"
        spool = Spool(folder, 500)
        kept: list[bytes] = []  # appended, and not confirmed
        given_out: list[tuple[bytes, RecordEnd]] = []
        for number, (action, size) in enumerate(actions):
            if action == "append":
                value = b"%d/" % number + b"x" * size
                try:
                    spool.append(b"k", value)
                except SpoolFull:
                    assert spool.size + len(encode(b"k", value)) > 500
                else:
                    kept.append(value)
            elif action == "read":
                given_out += [(record.value, record.record_end) for record in spool.read()]
                assert [value for value, _ in given_out] == kept[: len(given_out)]
            elif action == "ack":
                spool.ack([place for _, place in given_out[:size]])
                del kept[: len(given_out[:size])], given_out[:size]
            else:
                if action == "leave":
                    spool.close()
                    assert bool(kept) == any(path.name != "damaged" for path in folder.iterdir())
                else:  # the system closes what a dead process held
                    spool_module.os.close(spool._lock)
                spool, given_out = Spool(folder, 500), []
                assert (spool.adopted, spool.damaged) == (len(kept), 0)
        rest = [value for value, _ in given_out]
        while found := spool.read():
            rest += [record.value for record in found]
        assert rest == kept
        spool.close()
