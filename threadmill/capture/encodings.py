"""Content encodings of HTTP -> the bytes behind them, piece by piece. Pure.

gzip and deflate come with Python. br and zstd are read with the package that the program itself has for them: else it
would not have asked the server for them.
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
            raise Unreadable(f"the answer is not the {name} that it says it is: {problem}") from problem

    return guarded


def _first(*modules: str) -> Any:
    for module in modules:
        try:
            return import_module(module)
        except ImportError:
            continue
    raise Unreadable(f"none of {', '.join(modules)} is installed, so the answer can't be decoded")
