"""Answers as servers encode them; how they are cut does not matter."""

import gzip
import tracemalloc
import zlib

import cramjam
import pytest

from turnmill.capture.encodings import CHUNK_BYTES, Unreadable, decoded, decoding

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
@pytest.mark.parametrize("size", [1, 7, CHUNK_BYTES])
def test_decoded(name: str, size: int) -> None:
    decode, data = decoding(name), ENCODED[name]
    pieces = [piece for at in range(0, len(data), size) for piece in decode(data[at : at + size])]
    assert b"".join(pieces) == TEXT


@pytest.mark.parametrize("name", ["snappy", "gzip, snappy"])
def test_unknown_ones(name: str) -> None:
    with pytest.raises(Unreadable, match="'snappy' is not known"):
        decoding(name)


@pytest.mark.parametrize("name", ["gzip", "deflate"])
def test_what_is_not_encoded_so(name: str) -> None:
    with pytest.raises(Unreadable, match=f"not the {name}"):
        list(decoding(name)(b"{not at all}" * 10))


def test_those_that_nobody_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("turnmill.capture.encodings.import_module", missing)
    for name in ("br", "zstd"):
        with pytest.raises(Unreadable, match="is installed"):
            decoding(name)


WHOLE = {**ENCODED, "zstd": bytes(cramjam.zstd.compress(TEXT)), "br": bytes(cramjam.brotli.compress(TEXT))}
WHOLE["gzip, ZSTD"] = bytes(cramjam.zstd.compress(gzip.compress(TEXT)))


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_body(name: str) -> None:
    assert decoded(name, WHOLE[name], len(TEXT)) == TEXT
    with pytest.raises(Unreadable, match=r"more than 18,999 bytes"):
        decoded(name, WHOLE[name], len(TEXT) - 1)


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd", "snappy"])
def test_a_whole_body_that_is_not_so(name: str) -> None:
    with pytest.raises(Unreadable):
        decoded(name, b"{not at all}" * 10, 1_000)


@pytest.mark.parametrize("name", ["zstd", "br", "gzip"])
def test_what_unpacks_to_very_much_is_given_up(name: str) -> None:
    zeros = bytes(100_000_000)
    pack = {"zstd": cramjam.zstd.compress, "br": lambda data: cramjam.brotli.compress(data, 1), "gzip": gzip.compress}
    with pytest.raises(Unreadable, match="more than 1,000,000 bytes"):
        decoded(name, bytes(pack[name](zeros)), 1_000_000)


@pytest.mark.parametrize("name", ["br, br, br", ",".join(["br"] * 2_500), "gzip,,identity,deflate,br,zstd"])
def test_more_than_two_are_not_decoded(name: str) -> None:
    with pytest.raises(Unreadable, match="more than 2 times"):
        decoding(name)
    with pytest.raises(Unreadable, match="more than 2 times"):
        decoded(name, b"x", 1_000)


@pytest.mark.parametrize("name", ["gzip", "deflate", "zstd", "br"])
def test_a_body_that_stands_for_far_more_is_not_unpacked(name: str) -> None:
    pack = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": cramjam.zstd.compress}.get(
        name, cramjam.brotli.compress
    )
    small = bytes(pack(bytes(50_000_000)))
    assert len(small) < 60_000
    with pytest.raises(Unreadable, match="has more than 1,000,000 bytes"):
        decoded(name, small, 1_000_000)


@pytest.mark.parametrize("name", ["gzip", "br", "zstd"])
def test_a_whole_body_is_there_once(name: str) -> None:
    size = 8 << 20
    data = {"gzip": gzip.compress, "br": cramjam.brotli.compress, "zstd": cramjam.zstd.compress}[name](bytes(size))
    tracemalloc.start()
    try:
        assert decoded(name, bytes(data), size) == bytes(size)
        assert tracemalloc.get_traced_memory()[1] < 2.3 * size  # with the one that it is compared with
    finally:
        tracemalloc.stop()


def test_an_answer_that_stands_for_far_more_comes_in_small_pieces() -> None:
    for name, pack in (("gzip", gzip.compress), ("zstd", cramjam.zstd.compress)):
        small = bytes(pack(bytes(50_000_000)))
        pieces = decoding(name)(small)
        assert max(len(next(pieces)) for _ in range(20)) <= 2_000_000
    twice = decoding("gzip, gzip")(gzip.compress(gzip.compress(bytes(50_000_000))))
    assert max(map(len, twice)) == CHUNK_BYTES
