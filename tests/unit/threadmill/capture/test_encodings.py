"""Answers as servers encode them; how they are cut does not matter."""

from __future__ import annotations

import gzip
import zlib

import pytest

from threadmill.capture.encodings import PIECE, Unreadable, decoding

TEXT = b"It rains in Paris. " * 1_000


def bare(data: bytes) -> bytes:
    made = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return made.compress(data) + made.flush()


ENCODED = {
    "": TEXT,
    "identity": TEXT,
    "gzip": gzip.compress(TEXT),
    "X-GZip": gzip.compress(TEXT),
    "deflate": zlib.compress(TEXT),
    "Deflate": bare(TEXT),
    "deflate, gzip": gzip.compress(zlib.compress(TEXT)),
}


@pytest.mark.parametrize("name", ENCODED)
@pytest.mark.parametrize("size", [1, 7, PIECE])
def test_decoded(name: str, size: int) -> None:
    decode, data = decoding(name), ENCODED[name]
    assert b"".join(decode(data[at : at + size]) for at in range(0, len(data), size)) == TEXT


@pytest.mark.parametrize("name", ["snappy", "gzip, snappy"])
def test_unknown_ones(name: str) -> None:
    with pytest.raises(Unreadable, match="'snappy' is not known"):
        decoding(name)


@pytest.mark.parametrize("name", ["gzip", "deflate"])
def test_what_is_not_encoded_so(name: str) -> None:
    with pytest.raises(Unreadable, match=f"not the {name}"):
        decoding(name)(b"{not at all}" * 10)


def test_those_that_nobody_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("threadmill.capture.encodings.import_module", missing)
    for name in ("br", "zstd"):
        with pytest.raises(Unreadable, match="is installed"):
            decoding(name)
