"""Workers of this version and of another one take partitions from each other during an update."""

from pathlib import Path

from tests.chaos.versions import ENTRIES, RUN, made, read, written_again


def test_another_version_understands_the_state_topic_and_is_understood(tmp_path: Path) -> None:
    written = written_again(made(tmp_path))
    assert all(b'"later":1' in value for value in written), "it is another version"
    assert read(written) == [(RUN, entry) for entry in ENTRIES]
