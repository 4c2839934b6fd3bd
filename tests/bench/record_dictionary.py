"""`python -m tests.bench.record_dictionary`: makes the dictionary of stored records of `examples/`.

A changed dictionary needs a new id (`packing.NEWEST`), since stored records name the one that they were packed with.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import zstandard

from pipeline.assembly.offline import assemble
from pipeline.cli.files.assemble import UnknownDialect, envelope_of, find_dialect, read_file
from pipeline.stores.database import packing
from tests.support.places import ROOT
from topics import turn_record
from turnmill.wire.framing import decode

FILE: Final = Path(packing.__file__).with_name("dictionaries") / f"{packing.NEWEST}.zstd-dictionary"
BYTES: Final = 8192  # the best of 4 to 64 KB for the records of all recorded wires
SEGMENT, UNIT = 1000, 8  # `k` and `d` of zstd's COVER, likewise


def records() -> Iterator[bytes]:
    """The turn records of all examples, as the turns topic has them."""
    for info in sorted((ROOT / "examples").rglob("*.run.json")):
        file = info.with_name(info.name.removesuffix(".run.json"))
        try:
            dialect = find_dialect(file)
        except UnknownDialect:
            continue
        events = [item.event for item in decode(read_file(file), dialect.wire) if item.event is not None]
        made, _ = assemble(dialect, [envelope_of(file, dialect, events)])
        for record in made:
            record.get("thread", {}).pop("meta:labels", None)  # of each fleet its own: they would pack no other's
            for timing in record.get("timings", ()):  # an example has no times, a stream has digits there
                timing.update(dict.fromkeys(timing, 0))
            yield turn_record.encode(record)


def made() -> bytes:
    """The dictionary."""
    dictionary = zstandard.train_dictionary(BYTES, list(records()), k=SEGMENT, d=UNIT, dict_id=packing.NEWEST)
    return dictionary.as_bytes()


if __name__ == "__main__":
    FILE.write_bytes(made())
