"""A data folder that is formatted without Kafka's tool; that Kafka takes it: tests/integration/test_local_broker.py."""

from pathlib import Path

from pipeline.devbroker.processes import format_by, is_formatted, keep, new_id

ID = "4L6g3nShT-eMCtK--X86sw"


def test_what_the_tool_wrote_once_formats_all_that_come_after(tmp_path: Path) -> None:
    kept, first, second = tmp_path / "kept", tmp_path / "first", tmp_path / "second" / "data"
    assert not format_by(kept, second, 2, ID)
    assert not is_formatted(second)
    first.mkdir()
    (first / "bootstrap.checkpoint").write_bytes(b"features")
    keep(kept, first)
    assert format_by(kept, second, 2, ID)
    assert is_formatted(second)
    assert (second / "bootstrap.checkpoint").read_bytes() == b"features"
    lines = dict(line.split("=", 1) for line in (second / "meta.properties").read_text().splitlines())
    assert len(lines.pop("directory.id")) == len(ID)
    assert lines == {"version": "1", "cluster.id": ID, "node.id": "2"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "kept", "second"]


def test_what_can_t_be_kept_is_done_again(tmp_path: Path) -> None:
    keep(tmp_path / "kept", tmp_path)
    keep(tmp_path / "no folder" / "kept", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_ids_do_not_begin_like_an_option() -> None:
    ids = {new_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert not any(one.startswith("-") for one in ids)
