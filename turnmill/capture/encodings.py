"""Decode content encodings of HTTP. Pure.

Answers are decoded piece by piece: gzip and deflate by Python itself, br and zstd by the package that the program has
for them, since without it it would not have requested them. Requests are complete, and decoded by cramjam, a
dependency of ours, which needs the whole body; Codex sends them as zstd.

A few bytes may unpack to gigabytes. So no step makes more than CHUNK_BYTES at a time if its library has such a limit;
otherwise it gets only some bytes at a time.
"""

import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from io import BytesIO
from itertools import chain
from typing import Any, Final

from turnmill.limits import ENCODINGS

Decode = Callable[[bytes], Iterator[bytes]]
CHUNK_BYTES: Final = 65_536
FED: Final = 32  # bytes at a time, without a limit in the library: a block of zstd is at least 4, and unpacks to 128 KB
FIRST_ROOM: Final = 64  # times the size of a body is allocated first: few bodies unpack to more


class Unreadable(ValueError):
    """The bytes can't be decoded; its text says why."""


def decoding(encodings: str) -> Decode:
    """Return a function that decodes the chunks of a body in turn, each into pieces.

    `encodings` is the value of `content-encoding`. Raises Unreadable for an encoding that is unknown, and for more than
    ENCODINGS of them; the pieces raise it for damaged bytes.
    """
    steps = [_step(name) for name in _names(encodings)]

    def decode(chunk: bytes) -> Iterator[bytes]:
        pieces = iter((chunk,))
        for step in steps:
            pieces = chain.from_iterable(map(step, pieces))
        return pieces

    return decode


def decoded(encodings: str, data: bytes, most: int) -> bytes:
    """Return a whole body decoded, at most `most` bytes; `encodings` is the value of `content-encoding`.

    Raises Unreadable for an encoding that is unknown, for damaged bytes, and for more bytes than that.
    """
    for name in _names(encodings):
        data = _whole(name, data, most)
    if len(data) > most:
        raise Unreadable(f"it has more than {most:,} bytes")
    return data


def _names(encodings: str) -> list[str]:
    """Return the names of the encodings, the outermost first."""
    names = [name.strip().lower() for name in encodings.split(",", 2 * ENCODINGS)]
    known = [name for name in reversed(names) if name not in ("", "identity")]
    if len(known) > ENCODINGS:
        raise Unreadable(f"it is encoded more than {ENCODINGS} times")
    return known


def _whole(name: str, data: bytes, most: int) -> bytes:
    if name in ("br", "zstd"):
        import cramjam  # noqa: PLC0415  # few requests are encoded so

        unpack = (cramjam.brotli if name == "br" else cramjam.zstd).decompress_into
        for size in sorted({min(most, FIRST_ROOM * len(data)), most}):
            room = _room(size)
            try:
                with room.getbuffer() as buffer:
                    made = unpack(data, buffer)
            except cramjam.DecompressionError as error:
                problem = error
            else:
                room.truncate(made)
                return room.getvalue()
        raise Unreadable(f"the {name} can't be read, or has more than {most:,} bytes: {problem}") from problem
    output = BytesIO()
    for piece in _step(name)(data):
        output.write(piece)
        if output.tell() > most:
            raise Unreadable(f"it has more than {most:,} bytes")
    return output.getvalue()


def _room(size: int) -> BytesIO:
    """Return a buffer of `size` bytes, from which the bytes are taken without a copy, which would double the memory."""
    room = BytesIO()
    room.seek(max(0, size - 1))
    room.write(b"\0"[:size])
    return room


def _step(name: str) -> Decode:
    if name in ("gzip", "x-gzip"):
        return _inflating(name, zlib.decompressobj(16 + zlib.MAX_WBITS))
    if name == "deflate":
        return _deflate()
    if name == "br":
        module = _first("brotli", "brotlicffi")
        decompressor = module.Decompressor()
        return _fed(name, getattr(decompressor, "process", None) or decompressor.decompress, module.error)
    if name == "zstd":
        module = _first("compression.zstd", "backports.zstd", "zstandard")
        if module.__name__ == "zstandard":
            return _fed(name, module.ZstdDecompressor().decompressobj().decompress, module.ZstdError)
        return _fed(name, module.ZstdDecompressor().decompress, module.ZstdError)
    raise Unreadable(f"the content-encoding {name[:40]!r} is not known")


def _deflate() -> Decode:
    """Return a decoder for both forms that servers send under this name: with zlib's header, and without."""
    decoders: list[Decode] = []

    def decode(chunk: bytes) -> Iterator[bytes]:
        if not chunk:
            return iter(())
        if not decoders:
            wrapped = chunk[0] & 0x0F == zlib.DEFLATED
            decoders.append(
                _inflating("deflate", zlib.decompressobj(wbits=zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS))
            )
        return decoders[0](chunk)

    return decode


def _inflating(name: str, decompressor: Any) -> Decode:
    def inflate(chunk: bytes) -> Iterator[bytes]:
        piece = b""
        while chunk or len(piece) == CHUNK_BYTES:  # after a full piece there may be more output
            try:
                piece = decompressor.decompress(chunk, CHUNK_BYTES)
            except zlib.error as problem:
                raise _not_so(name, problem) from problem
            chunk = decompressor.unconsumed_tail
            yield piece

    return inflate


def _fed(name: str, decode: Callable[[bytes], Any], error: type[Exception]) -> Decode:
    def feed(chunk: bytes) -> Iterator[bytes]:
        for at in range(0, len(chunk), FED):
            try:
                yield bytes(decode(chunk[at : at + FED]))
            except (error, EOFError) as problem:
                raise _not_so(name, problem) from problem

    return feed


def _not_so(name: str, problem: Exception) -> Unreadable:
    return Unreadable(f"it is not the {name} that it says it is: {problem}")


def _first(*modules: str) -> Any:
    for module in modules:
        try:
            return import_module(module)
        except ImportError:
            continue
    raise Unreadable(f"none of {', '.join(modules)} is installed, so it can't be decoded")
