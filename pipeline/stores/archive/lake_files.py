"""The files of the lake behind pyiceberg's FileIO: through obstore, like all other objects, or synced to disk.

So buckets are accessed in the same way, with the credentials of the cloud's variables, and a written file is durable.
Its calls block.
"""

import io
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

import obstore
from obstore.store import ObjectStore, from_url
from pyarrow.fs import FileSelector, FileType
from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.io.pyarrow import PyArrowFileIO

from pipeline.stores.content.files import write_file
from pipeline.stores.content.objects import RETRY, Ranges


class LakeFiles(FileIO):
    """file:///folder, s3://bucket/key, gs://… or azure://container/key; the path is as it is, without escapes."""

    def new_input(self, location: str) -> InputFile:
        """Return a file to be read."""
        return LakeFile(location)

    def new_output(self, location: str) -> OutputFile:
        """Return a file to be written."""
        return LakeFile(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file. Raises FileNotFoundError."""
        path = location if isinstance(location, str) else location.location
        bucket, key = _place(path)
        if bucket is None:
            Path(key).unlink()
        else:
            obstore.delete(bucket, key)


class LakeFile(InputFile, OutputFile):
    """One file."""

    def __len__(self) -> int:
        bucket, key = _place(self.location)
        return Path(key).stat().st_size if bucket is None else obstore.head(bucket, key)["size"]

    def exists(self) -> bool:
        """Return True if it exists."""
        try:
            len(self)
        except FileNotFoundError:
            return False
        return True

    def open(self, seekable: bool = True) -> InputStream:  # noqa: FBT001, FBT002  # as pyiceberg declares it
        """Open the file to be read. Raises FileNotFoundError."""
        bucket, key = _place(self.location)
        if bucket is None:
            return Path(key).open("rb")
        return io.BufferedReader(Ranges(obstore.open_reader(bucket, key)))

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: FBT001, FBT002  # as pyiceberg declares it
        """Open the file to be written; it exists, durably, once it is closed. Raises FileExistsError."""
        if not overwrite and self.exists():
            raise FileExistsError(f"{self.location} exists already")
        return Written(self.location)

    def to_input_file(self) -> InputFile:
        """Return the same file, to be read."""
        return self


class Written(io.BytesIO):
    """A file that is being written, until it is closed."""

    def __init__(self, location: str) -> None:
        super().__init__()
        self.location = location

    def close(self) -> None:
        """Write the file when closed for the first time."""
        if not self.closed:
            bucket, key = _place(self.location)
            if bucket is None:
                write_file(Path(key), self.getvalue())
            else:
                obstore.put(bucket, key, self.getvalue())
        super().close()


def listed(location: str, files: FileIO | None = None) -> Iterator[tuple[str, float]]:
    """Yield the files below a location and when each was written, in epoch seconds; through `files`, if given."""
    if isinstance(files, PyArrowFileIO):
        yield from _listed_by_arrow(location, files)
        return
    bucket, key = _place(location)
    if bucket is None:
        for path in sorted(Path(key).rglob("*")):
            if path.is_file():
                yield f"file://{path}", path.stat().st_mtime
        return
    root = location.removesuffix(key)
    for some in obstore.list(bucket, prefix=f"{key}/"):
        for meta in some:
            yield root + meta["path"], meta["last_modified"].timestamp()


def _listed_by_arrow(location: str, files: PyArrowFileIO) -> Iterator[tuple[str, float]]:
    scheme, netloc, path = PyArrowFileIO.parse_location(location)
    below = FileSelector(path, recursive=True, allow_not_found=True)
    for info in files.fs_by_scheme(scheme, netloc).get_file_info(below):
        if info.type == FileType.File:
            yield location.removesuffix(path) + info.path, info.mtime.timestamp()


def _place(location: str) -> tuple[ObjectStore | None, str]:
    where = urlsplit(location, allow_fragments=False)
    if where.scheme == "file":
        return None, location.removeprefix("file://")
    root = f"{where.scheme}://{where.netloc}"
    return _bucket(root), location.removeprefix(f"{root}/")


@lru_cache
def _bucket(root: str) -> ObjectStore:
    return from_url(root, retry_config=RETRY)
