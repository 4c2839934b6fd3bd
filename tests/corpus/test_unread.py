"""Each field of a recorded event is read, or the table of those that nobody reads says why."""

import pytest

from docs.unread import UNREAD
from tests.corpus.test_recognition import RECORDINGS, wire_of
from tests.corpus.unread import unread


@pytest.mark.parametrize("wire", sorted({wire_of(path) for path in RECORDINGS}))
def test_each_field_of_a_recording_is_read_or_has_a_reason(wire: str) -> None:
    rows = UNREAD.get(wire, ())
    recordings = [path for path in RECORDINGS if wire_of(path) == wire]
    without = unread(wire, recordings, lambda name: any(row.matching(name) for row in rows))
    matches = {name: [(row, pair) for row in rows for pair in row.matching(name)] for name in without}
    assert [name for name, found in matches.items() if not found] == [], (
        "read it, keep it under `meta:`, or say why not"
    )
    used = {(row, pattern) for found in matches.values() for row, pair in found for pattern in pair}
    patterns = [(row, pattern) for row in rows for pattern in (*row.events.split(), *row.fields.split())]
    assert [(row.reason, pattern) for row, pattern in patterns if (row, pattern) not in used] == [], "no such field"
