"""One run's stream in each wire that has a sample: from text deltas to the events of an answer."""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from pipeline.dialects import DIALECTS
from topics.json_text import Fields

Stream = Callable[[Sequence[str]], list[Fields]]

SAMPLES: Final = {path.stem.replace("_", "-"): path.stem for path in Path(__file__).with_name("samples").glob("*.py")}
STREAMS: Final[dict[str, Stream]] = {
    name: import_module(f"tests.bench.samples.{SAMPLES[name]}").answer for name in DIALECTS if name in SAMPLES
}
