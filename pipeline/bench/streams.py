"""One run's stream in each wire that has a sample: from text deltas to the events of an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Final

from pipeline.dialects import DIALECTS, package_of
from topics.json_text import Fields

Stream = Callable[[Sequence[str]], list[Fields]]

STREAMS: Final[dict[str, Stream]] = {
    name: import_module(f"{package_of(name)}.sample").answer
    for name in DIALECTS
    if find_spec(f"{package_of(name)}.sample") is not None
}
