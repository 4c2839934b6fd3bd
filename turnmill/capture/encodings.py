"""Content encodings of HTTP -> the bytes behind them. Pure.

Answers are read piece by piece. gzip and deflate come with Python. br and zstd are read with the package that the
program itself has for them: else it would not have asked the server for them. Requests are there as a whole, which is
what cramjam reads, a dependency of ours; Codex sends them as zstd.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

Decode = Callable[[bytes], bytes]
PIECE: Final = 4_096  # bytes that are decoded at a time: what they unpack to may be a thousand times as much


class Unreadable(ValueError):
    """The bytes can't be decoded; its text says why."""


def decoding(encodings: str) -> Decode:
    """The value of `content-encoding` -> a function that decodes chunks in turn; they should have PIECE bytes at most.

    Raises Unreadable for an encoding that is not known; the function raises it for bytes that are not of it.
    """
    names = [name.strip().lower() for name in encodings.split(",")]
    steps = [_step(name) for name in reversed(names) if name not in ("", "identity")]
    if not steps:
        return bytes

    def decode(chunk: bytes) -> bytes:
        for step in steps:
            chunk = step(chunk)
        return chunk

    return decode


def decoded(encodings: str, data: bytes, most: int) -> bytes:
    """The value of `content-encoding`, and a whole body -> what is behind it, of at most `most` bytes.

    Raises Unreadable for an encoding that is not known, for bytes that are not of it, and for more of them.
    """
    names = [name.strip().lower() for name in encodings.split(",")]
    for name in reversed(names):
        if name not in ("", "identity"):
            data = _whole(name, data, most)
    if len(data) > most:
        raise Unreadable(f"it has more than {most:,} bytes")
    return data


def _whole(name: str, data: bytes, most: int) -> bytes:
    if name in ("br", "zstd"):
        import cramjam  # noqa: PLC0415  # few requests are encoded so

        room = bytearray(most)  # memory is taken for what is written
        try:
            size = (cramjam.brotli if name == "br" else cramjam.zstd).decompress_into(data, room)
        except cramjam.DecompressionError as error:
            raise Unreadable(f"the {name} can't be read, or has more than {most:,} bytes: {error}") from error
        return bytes(memoryview(room)[:size])
    decode, found = _step(name), bytearray()
    for at in range(0, len(data), PIECE):
        found += decode(data[at : at + PIECE])
        if len(found) > most:
            raise Unreadable(f"it has more than {most:,} bytes")
    return bytes(found)


def _step(name: str) -> Decode:
    if name in ("gzip", "x-gzip"):
        return _guarded(name, zlib.decompressobj(16 + zlib.MAX_WBITS).decompress, zlib.error)
    if name == "deflate":
        return _deflate()
    if name == "br":
        module = _first("brotli", "brotlicffi")
        decompressor = module.Decompressor()
        return _guarded(name, getattr(decompressor, "process", None) or decompressor.decompress, module.error)
    if name == "zstd":
        module = _first("compression.zstd", "backports.zstd", "zstandard")
        if module.__name__ == "zstandard":
            return _guarded(name, module.ZstdDecompressor().decompressobj().decompress, module.ZstdError)
        return _guarded(name, module.ZstdDecompressor().decompress, module.ZstdError)
    raise Unreadable(f"the content-encoding {name[:40]!r} is not known")


def _deflate() -> Decode:
    """Both forms that servers send under this name: zlib's, and the bare one."""
    found: list[Decode] = []

    def decode(chunk: bytes) -> bytes:
        if not chunk:
            return b""
        if not found:
            wrapped = chunk[0] & 0x0F == zlib.DEFLATED
            decompressor = zlib.decompressobj() if wrapped else zlib.decompressobj(-zlib.MAX_WBITS)
            found.append(_guarded("deflate", decompressor.decompress, zlib.error))
        return found[0](chunk)

    return decode


def _guarded(name: str, decode: Callable[[bytes], Any], error: type[Exception]) -> Decode:
    def guarded(chunk: bytes) -> bytes:
        try:
            return bytes(decode(chunk))
        except (error, EOFError) as problem:
            raise Unreadable(f"it is not the {name} that it says it is: {problem}") from problem

    return guarded


def _first(*modules: str) -> Any:
    for module in modules:
        try:
            return import_module(module)
        except ImportError:
            continue
    raise Unreadable(f"none of {', '.join(modules)} is installed, so it can't be decoded")
