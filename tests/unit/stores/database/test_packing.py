"""Records are packed and unpacked unchanged, whatever they are; the dictionary is made of the examples and no more."""

from random import Random

import orjson
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pipeline.stores.database import packing
from pipeline.stores.database.packing import DICTIONARIES, MAX_BYTES, NEWEST, packed, size_of, unpacked
from tests.bench import record_dictionary
from tests.support.turn_records import make_record
from topics import turn_record

TEXTS = st.dictionaries(st.text(), st.text() | st.integers(-(2**63), 2**63) | st.lists(st.text())).map(orjson.dumps)


@given(TEXTS)
def test_a_text_comes_back_as_it_was(text: bytes) -> None:
    assert unpacked(packed(text)) == text
    assert size_of(packed(text)) == len(text)


def test_a_record_takes_half_the_bytes_although_it_is_short() -> None:
    text = turn_record.encode(make_record("chat", text="What is the weather in Paris?"))
    assert len(packed(text)) < len(text) / 2


@pytest.mark.parametrize("text", [b"{}", b"{" + Random(1).randbytes(64), b" " * (MAX_BYTES + 1)])
def test_what_does_not_get_shorter_or_is_large_stays(text: bytes) -> None:
    assert packed(text) == unpacked(text) == text
    assert size_of(text) == len(text)


def test_a_frame_names_its_dictionary() -> None:
    frame = packed(turn_record.encode(make_record("chat")))
    assert zstandard.get_frame_parameters(frame).dict_id == NEWEST
    by_others = zstandard.ZstdDecompressor(dict_data=zstandard.ZstdCompressionDict(DICTIONARIES[NEWEST]))
    assert by_others.decompress(frame) == unpacked(frame)


def test_records_of_an_older_dictionary_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    record = turn_record.encode(make_record("chat"))
    other = zstandard.train_dictionary(2048, list(record_dictionary.records()), k=500, d=8, dict_id=NEWEST + 1)
    monkeypatch.setitem(packing.DICTIONARIES, NEWEST + 1, other.as_bytes())
    frame = zstandard.ZstdCompressor(dict_data=other).compress(record)
    assert unpacked(frame) == record


def test_the_dictionary_is_made_of_the_examples() -> None:
    assert record_dictionary.made() == DICTIONARIES[NEWEST], "a changed one needs a new id, and the old one stays"
