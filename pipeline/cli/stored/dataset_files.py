"""Writes the lines of an export as JSON lines or Parquet. The same lines give the same bytes."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import IO, Final

from pipeline.dialects.training import dpo, sft
from pipeline.dialects.trajectory import atif
from pipeline.extras import need
from pipeline.turns.judged import Condition, chosen, score
from pipeline.turns.thread_document import only_turns
from topics import json_text
from topics.feedback import FeedbackRecord
from topics.json_text import Fields

Put = Callable[[Fields], None]
Kept = Collection[object] | None  # ids of the turns that are in the wanted data set of the store; None: all
Lines = Callable[[Fields, Mapping[str, Fields], Sequence[FeedbackRecord], Kept], Iterator[Fields]]
SFT, DPO, ATIF = "sft", "dpo", "atif"
DATASETS: Final = (SFT, DPO, ATIF)
COLUMNS: Final[Mapping[str, Sequence[str]]] = {
    SFT: ("messages", "tools", "metadata"),
    DPO: ("prompt", "chosen", "rejected", "tools", "metadata"),
    ATIF: ("schema_version", "session_id", "trajectory_id", "agent", "steps", "extra"),
}
PARQUET: Final = ".parquet"
GROUP_CHARACTERS: Final = 16_000_000  # in a row group of Parquet, which is kept in memory until it is written


def dataset(form: str, wanted: Condition | None) -> Lines:
    """Return the function that makes the lines of a data set. `wanted`: only of answers with such feedback."""

    def lines(
        document: Fields, bodies: Mapping[str, Fields], judged: Sequence[FeedbackRecord], kept: Kept
    ) -> Iterator[Fields]:
        good = None if kept is None else set(kept)
        if wanted is not None:
            liked = {turn.get("meta:turn_id") for turn in chosen(document["turns"], judged, wanted)}
            good = liked if good is None else good & liked
        if form == ATIF:
            if good is None or good:
                yield from atif(document if kept is None else only_turns(document, kept), bodies)
            return
        if form == SFT:
            made, member = sft(document, bodies), None
        else:
            name = None if wanted is None else wanted.name
            made, member = dpo(document, bodies, lambda turn: score(turn, judged, name)), "chosen"
        for line in made:
            named = line["metadata"] if member is None else line["metadata"][member]
            if good is None or named["turn_id"] in good:
                yield line

    return lines


@dataclass(frozen=True, slots=True)
class Export:
    """A format of exports. `lines` makes those of a document, with the bodies of the requests that `names` returns.

    Of a data set of the store, it makes those of the turns that are in it.

    `columns`: those of Parquet, None for JSON lines. `judged`: `lines` needs feedback.
    """

    lines: Lines
    names: Callable[[Fields], Collection[str]]
    columns: Sequence[str] | None = None
    judged: bool = False

    def writing(self, out: IO[bytes]) -> AbstractContextManager[Put]:
        """Return a block in which lines are written to `out`."""
        return json_lines(out) if self.columns is None else parquet(out, self.columns)


@contextmanager
def json_lines(out: IO[bytes]) -> Iterator[Put]:
    """Yield a function that writes an object as a line."""

    def put(line: Fields) -> None:
        out.write(json_text.to_bytes(line) + b"\n")

    yield put


@contextmanager
def parquet(out: IO[bytes], columns: Sequence[str]) -> Iterator[Put]:
    """Yield a function that writes an object as a row of text columns, other values as JSON. Raises CallerError."""
    need("archive", "Parquet")
    import pyarrow as pa  # noqa: PLC0415  # of an extra
    import pyarrow.parquet as pq  # noqa: PLC0415  # as above

    schema = pa.schema([pa.field(name, pa.string()) for name in columns])
    rows: list[dict[str, str]] = []
    size = 0

    def put(line: Fields) -> None:
        nonlocal size
        cells = ((name, line[name]) for name in columns)
        rows.append({name: cell if isinstance(cell, str) else json_text.dumps(cell) for name, cell in cells})
        size += sum(map(len, rows[-1].values()))
        if size >= GROUP_CHARACTERS:
            flush()

    def flush() -> None:
        nonlocal size
        writer.write_table(pa.Table.from_pylist(rows, schema))
        rows.clear()
        size = 0

    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        yield put
        if rows:
            flush()
