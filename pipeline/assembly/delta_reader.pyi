# The native kernel of the core, `delta_reader.c`; see `expected_record`.
from typing import Any

def read_deltas(expecting: dict[bytes, Any], value: bytes, /) -> tuple[Any, int, int, int, int, str] | None: ...
