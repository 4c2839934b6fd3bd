"""Objects by their URI: files, buckets (obstore), and read-only https. Failures become StoreErrors."""

from __future__ import annotations

import asyncio
import io
import re
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.error import HTTPError
from urllib.parse import SplitResult, quote, unquote, urlsplit
from urllib.request import url2pathname, urlopen

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import ObjectStore, from_url

from pipeline.stores.content.files import FRESH_SECONDS, files_under, read_file, write_file
from pipeline.stores.database.errors import StoreError
from turnmill.errors import CallerError

if TYPE_CHECKING:
    from obstore import ReadableFile
    from obstore.store import RetryConfig  # in the stubs only

READABLE: Final = ("https", "s3", "gs", "azure", "file")
MAX_OBJECT_BYTES: Final = 1 << 30  # of an object that is read
RETRY: Final[RetryConfig] = {"max_retries": 3, "retry_timeout": timedelta(seconds=20)}
READ_TIMEOUT: Final = 30.0  # seconds without data after which an https server counts as dead


class NotThere(StoreError):
    """The object does not exist."""


class Found(NamedTuple):
    """An object, its size in bytes, and when it was written, in epoch ms."""

    uri: str
    size: int
    modified: int


class Objects:
    """Reads, writes and deletes by URI: https, s3, gs, azure, file. Credentials: AWS_*, GOOGLE_*, AZURE_*."""

    def __init__(self) -> None:
        self._buckets: dict[str, ObjectStore] = {}

    def open(self, uri: str) -> None:
        """Check that the bucket's or folder's configuration suffices. Raises CallerError."""
        try:
            if urlsplit(uri).scheme != "file":
                self._bucket(urlsplit(uri))
        except (BaseError, ValueError) as error:
            raise CallerError(f"{uri}: {_first_line(error)}; set the cloud's own variables") from None

    async def write(self, uri: str, data: bytes, media_type: str) -> None:
        """Write an object durably; an existing object is replaced."""
        where = urlsplit(uri)
        with failures("written", uri):
            if where.scheme == "file":
                await asyncio.to_thread(write_file, path_of(uri), data)
            else:
                bucket, attributes = self._bucket(where), {"Content-Type": media_type}
                await obstore.put_async(bucket, _key(where), data, attributes=attributes)

    async def add(self, uri: str, data: bytes, media_type: str) -> None:
        """Write an object of a bucket durably, unless it is fresh: an expiry may be about to delete an old object."""
        where = urlsplit(uri)
        with failures("written", uri):
            bucket, attributes = self._bucket(where), {"Content-Type": media_type}
            try:
                await obstore.put_async(bucket, _key(where), data, mode="create", attributes=attributes)
            except AlreadyExistsError:
                if not await self._fresh(where):
                    await obstore.put_async(bucket, _key(where), data, attributes=attributes)

    async def read(self, uri: str, most: int | None = None) -> bytes:
        """Return the whole object, at most `most` bytes and 1 GiB. Raises NotThere, StoreError."""
        bound = MAX_OBJECT_BYTES if most is None else min(most, MAX_OBJECT_BYTES)
        where = urlsplit(uri)
        if where.scheme not in READABLE:
            raise StoreError(f"{uri} can't be read: its scheme is none of {', '.join(READABLE)}")
        with failures("read", uri):
            if where.scheme == "file":
                return await asyncio.to_thread(read_file, path_of(uri), bound)
            if where.scheme == "https":
                return await asyncio.to_thread(_read_https, uri, bound)
            result = await obstore.get_async(self._bucket(where), _key(where))
            _bound(result.meta["size"], bound)
            return bytes(await result.bytes_async())

    @asynccontextmanager
    async def reading(self, uri: str) -> AsyncIterator[io.IOBase]:
        """Open an object as a seekable file that fetches only the ranges that are read; its calls block."""
        where = urlsplit(uri)
        with failures("read", uri):
            if where.scheme == "file":
                file: io.IOBase = await asyncio.to_thread(path_of(uri).open, "rb")
            else:
                file = Ranges(await asyncio.to_thread(obstore.open_reader, self._bucket(where), _key(where)))
            with file:
                yield file

    async def names_under(self, uri: str) -> AsyncIterator[str]:
        """Yield the URI of each object below `uri`/."""
        where = urlsplit(uri)
        with failures("listed", uri):
            if where.scheme == "file":
                for path in await asyncio.to_thread(files_under, path_of(uri)):
                    yield f"{uri}/{quote(path, safe='/=')}"
                return
            prefix = _key(where)
            async for some in obstore.list(self._bucket(where), prefix=f"{prefix}/" if prefix else None):
                for meta in some:
                    yield f"{uri}/{quote(meta['path'].removeprefix(prefix).lstrip('/'), safe='/=')}"

    async def found_under(self, uri: str) -> AsyncIterator[Found]:
        """Yield each object of a bucket whose URI begins with `uri`/."""
        where = urlsplit(uri)
        with failures("listed", uri):
            prefix = _key(where)
            async for some in obstore.list(self._bucket(where), prefix=f"{prefix}/"):
                for meta in some:
                    name = quote(meta["path"].removeprefix(prefix).lstrip("/"), safe="/=")
                    yield Found(f"{uri}/{name}", meta["size"], int(meta["last_modified"].timestamp() * 1000))

    async def delete(self, uri: str) -> None:
        """Delete an object if it exists."""
        where = urlsplit(uri)
        with failures("deleted", uri):
            if where.scheme == "file":
                await asyncio.to_thread(path_of(uri).unlink, missing_ok=True)
                return
            with suppress(FileNotFoundError):
                await obstore.delete_async(self._bucket(where), _key(where))

    async def delete_under(self, uri: str) -> int:
        """Delete all objects of a bucket whose URI begins with `uri`/; return how many."""
        where = urlsplit(uri)
        with failures("deleted", uri):
            bucket, count = self._bucket(where), 0
            async for some in obstore.list(bucket, prefix=f"{_key(where)}/"):
                await obstore.delete_async(bucket, [meta["path"] for meta in some])
                count += len(some)
            return count

    async def _fresh(self, where: SplitResult) -> bool:
        """Return True if an object was written just now."""
        try:
            meta = await obstore.head_async(self._bucket(where), _key(where))
        except FileNotFoundError:  # just deleted, since nothing referred to it
            return False
        return datetime.now(UTC) - meta["last_modified"] < timedelta(seconds=FRESH_SECONDS)

    def _bucket(self, where: SplitResult) -> ObjectStore:
        root = f"{where.scheme}://{where.netloc}"
        if root not in self._buckets:
            self._buckets[root] = from_url(root, retry_config=RETRY)
        return self._buckets[root]


class Ranges(io.RawIOBase):
    """An object of a bucket as a Python file."""

    def __init__(self, reader: ReadableFile) -> None:
        self._reader = reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._reader.tell()

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._reader.seek(offset, whence)

    def readinto(self, buffer: Any, /) -> int:
        data = bytes(self._reader.read(len(buffer)))
        buffer[: len(data)] = data
        return len(data)


def _read_https(uri: str, most: int) -> bytes:
    try:
        with urlopen(uri, timeout=READ_TIMEOUT) as response:  # noqa: S310  # the scheme is https
            if not response.geturl().startswith("https:"):
                raise ValueError(f"it leads to {response.geturl()}")
            data: bytes = response.read(most + 1)
    except HTTPError as error:
        raise FileNotFoundError if error.code in (404, 410) else error from None
    _bound(len(data), most)
    return data


def _bound(size: int, most: int) -> None:
    if size > most:
        raise ValueError(f"it has more than {most} bytes")


def _key(where: SplitResult) -> str:
    return unquote(where.path).strip("/")


def path_of(uri: str) -> Path:
    """Return the path of a file: URI."""
    return Path(url2pathname(urlsplit(uri).path))


@contextmanager
def failures(done: str, uri: str) -> Iterator[None]:
    """Raise any failure of a call as StoreError with advice; `transient` if the same call may work later."""
    what = f"{uri} can't be {done}"
    try:
        yield
    except FileNotFoundError:
        if done == "read":
            raise NotThere(f"{uri} is not there: it was deleted, or it is in another store") from None
        raise StoreError(f"{what}: the bucket is not there; create it, or correct the setting") from None
    except (PermissionDeniedError, UnauthenticatedError, PermissionError) as error:
        raise StoreError(f"{what}: refused; check credentials and rights ({_first_line(error)})") from None
    except (ValueError, NotImplementedError) as error:
        raise StoreError(f"{what}: {_first_line(error)}") from None
    except HTTPError as error:
        transient = error.code >= 500 or error.code in (408, 429)
        raise StoreError(f"{what}: the server answers {error.code}", transient=transient) from None
    except (BaseError, OSError, HTTPException, sqlite3.Error) as error:  # with TimeoutError, URLError
        raise StoreError(f"{what}: {_first_line(error)}", transient=True) from None


def _first_line(error: BaseException) -> str:
    """Return an error's first line without debug text, and without URLs' queries, which may contain signatures."""
    lines = str(error).splitlines() or [type(error).__name__]
    return re.sub(r"\?\S+", "?…", lines[0])[:300]
