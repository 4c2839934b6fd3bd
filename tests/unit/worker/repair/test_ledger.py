"""Which run a dead letter is of."""

import orjson

from pipeline.worker.repair.ledger import run_of_letter
from tests.support.fleet import run_of
from tests.support.turn_records import make_record
from topics.dead_letter import DeadLetter
from turnmill.errors import Reason


def letter(topic: str, value: bytes | None) -> DeadLetter:
    return DeadLetter(Reason.UNPROCESSABLE, "no", topic, 3, 7, 0, None, value)


def test_a_record_of_events_names_its_run() -> None:
    run = run_of(1, 1)
    assert run_of_letter(letter("events", run.values()[0]))[-2:] == (run.thread_id, run.run_id)


def test_a_turn_that_the_store_did_not_take_names_its_run() -> None:
    record = make_record(run="r-1")
    assert run_of_letter(letter("turns", orjson.dumps(record)))[-2:] == (record["thread_id"], "r-1")


def test_what_nobody_can_read_is_a_run_of_its_own() -> None:
    assert run_of_letter(letter("events", b"\xff"))[-2:] == ("events/3", "7")
    assert run_of_letter(letter("events", None))[-2:] == ("events/3", "7")
