"""What google-genai makes of the streams in tests/corpus/wires/gemini today is what was recorded."""

from pathlib import Path

from tests.corpus.compare_wires import FOLDER
from tests.sdks.python_sdks import run


def test_the_recordings_are_those_that_the_script_writes(tmp_path: Path) -> None:
    run("google-genai", "gemini_corpus.py", tmp_path)
    kept = {path.name: path.read_bytes() for path in (FOLDER / "gemini").iterdir()}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == kept
