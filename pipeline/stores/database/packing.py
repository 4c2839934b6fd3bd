"""A turn record's JSON as the store holds it: packed by zstd, which halves a turn's bytes for little time.

A short text packs badly by itself, so a dictionary has what records of many wires have in common. It is made of
`examples/` (`python -m tests.bench.record_dictionary`) and never of stored records, since what is in a dictionary
outlasts each erasure. A frame names its dictionary's id. All dictionaries that were ever used are in this folder, and
in the table `dictionaries` for those who read a database without this package. A text that doesn't get shorter, or that
is large, is stored as it is: JSON never begins as a frame does.
"""

import threading
from pathlib import Path
from typing import Final

import zstandard

LEVEL: Final = 3  # 4 % fewer bytes than level 1, for a microsecond a record; higher ones take more and give nothing
MAX_BYTES: Final = 1_048_576  # of a text that is packed: the event loop waits meanwhile
MAGIC: Final = zstandard.FRAME_HEADER
NEWEST: Final = 32_769  # the first id that isn't reserved
DICTIONARIES: Final[dict[int, bytes]] = {
    int(file.stem): file.read_bytes() for file in Path(__file__).with_name("dictionaries").glob("*.zstd-dictionary")
}


class _Codecs(threading.local):
    """A thread's, since they can't be shared."""

    def __init__(self) -> None:
        newest = zstandard.ZstdCompressionDict(DICTIONARIES[NEWEST])
        newest.precompute_compress(LEVEL)
        self.compressor = zstandard.ZstdCompressor(level=LEVEL, dict_data=newest, write_checksum=False)
        self.decompressors = {NEWEST: zstandard.ZstdDecompressor(dict_data=newest)}

    def decompressor(self, number: int) -> zstandard.ZstdDecompressor:
        """Return one for frames with this dictionary. Raises KeyError where there is none."""
        if number not in self.decompressors:
            of = zstandard.ZstdCompressionDict(DICTIONARIES[number])
            self.decompressors[number] = zstandard.ZstdDecompressor(dict_data=of)
        return self.decompressors[number]


_codecs: Final = _Codecs()


def packed(text: bytes) -> bytes:
    """Return a JSON text as it is stored."""
    if len(text) > MAX_BYTES:
        return text
    frame = _codecs.compressor.compress(text)
    return frame if len(frame) < len(text) else text


def unpacked(stored: bytes) -> bytes:
    """Return the JSON text that is stored as these bytes."""
    if not stored.startswith(MAGIC):
        return stored
    return _codecs.decompressor(zstandard.get_frame_parameters(stored).dict_id).decompress(stored)


def size_of(stored: bytes) -> int:
    """Return how many bytes the JSON text has."""
    return zstandard.frame_content_size(stored) if stored.startswith(MAGIC) else len(stored)
