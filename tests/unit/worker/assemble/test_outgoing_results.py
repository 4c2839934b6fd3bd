"""What is sent instead of a record that its topic does not take."""

from pipeline.assembly.records import Refused, StoredRecord
from pipeline.assembly.results import Out
from pipeline.kafka.outbox import Outgoing
from pipeline.worker.assemble.outgoing_results import OutgoingResults
from topics import dead_letter
from turnmill.errors import Reason


def test_a_dead_letter_that_is_too_large_still_says_where_its_record_is() -> None:
    counted: list[int] = []
    results = OutgoingResults("p", lambda _, refused: counted.append(len(refused)))
    whole = Refused(StoredRecord(b"x" * 100, 17, 0, b"k"), Reason.UNDECODABLE, "no JSON")
    (sent,) = results.others(3, Out(dead=[whole]))
    instead = results.too_large(sent)
    letter = dead_letter.from_record(instead.key, instead.value, instead.headers or [])
    assert (letter.offset, letter.reason, letter.value) == (17, Reason.UNDECODABLE, b"")
    assert not counted, "it was counted when it was refused"


def test_another_record_that_is_too_large_becomes_a_dead_letter() -> None:
    counted: list[int] = []
    results = OutgoingResults("p", lambda _, refused: counted.append(len(refused)))
    instead = results.too_large(Outgoing("p.turns", b"k", b"x" * 100, 3))
    letter = dead_letter.from_record(instead.key, instead.value, instead.headers or [])
    assert letter.reason is Reason.TOO_LARGE
    assert counted == [1]
