"""The large values of the content store: in packs on a local disk, or as objects in a bucket.

A value is named by its folder, which is a thread's, and by its SHA-256.
"""

from __future__ import annotations

import asyncio
import hashlib
from asyncio import Future
from collections.abc import Collection
from typing import Final
from urllib.parse import unquote, urlsplit

from pipeline.stores.content.objects import MAX_OBJECT_BYTES, Objects, failures, path_of
from pipeline.stores.content.packs import Packs, Stored

HASHED_APART: Final = 65_536  # bytes from which on a value is hashed in a thread, while others are assembled


def large_values(root: str, objects: Objects) -> Packed | InBucket:
    """Return the values under a URL. Raises CallerError if the cloud's variables are incomplete."""
    if urlsplit(root).scheme == "file":
        return Packed(root)
    objects.open(root)
    return InBucket(root, objects)


class Packed:
    """Values in packs. Values put while a batch is written form the next batch. Methods raise StoreError."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.packs = Packs(path_of(root))
        self._waiting: list[tuple[str, bytes, Future[str]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def put(self, folder: str, data: bytes, media_type: str) -> str:
        """Write a value durably; return its SHA-256. An existing value stays, and counts as written now."""
        loop = asyncio.get_running_loop()
        done: Future[str] = loop.create_future()
        self._waiting.append((folder, data, done))
        if self._writing is None:
            self._writing = loop.create_task(self._write())
        with failures("written", f"{self.root}/{folder}"):
            return await done

    async def _write(self) -> None:
        batch: list[tuple[str, bytes, Future[str]]] = []
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                try:
                    digests = await asyncio.to_thread(self.packs.put, [(folder, data) for folder, data, _ in batch])
                except Exception as error:  # every waiting caller gets it
                    for *_, done in batch:
                        if not done.done():
                            done.set_exception(error)
                else:
                    for (*_, done), digest in zip(batch, digests, strict=True):
                        if not done.done():
                            done.set_result(digest)
        finally:
            self._writing = None
            for *_, done in (*batch, *self._waiting):  # those that are not done when the event loop ends
                done.cancel()
            self._waiting.clear()

    async def read(self, folder: str, digest: str, most: int | None) -> bytes:
        """Return a value of at most `most` bytes. Raises NotThere, too."""
        with failures("read", f"{self.root}/{folder}/{digest}"):
            return await asyncio.to_thread(
                self.packs.read, folder, digest, MAX_OBJECT_BYTES if most is None else min(most, MAX_OBJECT_BYTES)
            )

    async def stored(self, folder: str) -> list[Stored]:
        """Return all values of a folder."""
        with failures("listed", f"{self.root}/{folder}"):
            return await asyncio.to_thread(self.packs.stored, folder)

    async def folders(self) -> set[str]:
        """Return all folders that contain values."""
        with failures("listed", self.root):
            return await asyncio.to_thread(self.packs.folders)

    async def erase(self, folder: str) -> int:
        """Delete all values of a folder; return how many. No pack contains a byte of them then."""
        with failures("deleted", f"{self.root}/{folder}"):
            return await asyncio.to_thread(self.packs.erase, folder)

    async def erase_some(self, folder: str, digests: Collection[str], before: int) -> None:
        """Delete values of a folder that were last written before `before`, in epoch ms; as `erase`."""
        with failures("deleted", f"{self.root}/{folder}"):
            await asyncio.to_thread(self.packs.erase, folder, digests, before)


class InBucket:
    """Values as objects FOLDER/SHA256. Methods raise StoreError."""

    def __init__(self, root: str, objects: Objects) -> None:
        self.root = root
        self.objects = objects

    async def put(self, folder: str, data: bytes, media_type: str) -> str:
        """Put a value, as `Packed.put` does."""
        apart = len(data) >= HASHED_APART
        digest = (await asyncio.to_thread(hashlib.sha256, data) if apart else hashlib.sha256(data)).hexdigest()
        await self.objects.add(f"{self.root}/{folder}/{digest}", data, media_type)
        return digest

    async def read(self, folder: str, digest: str, most: int | None) -> bytes:
        """Return a value, as `Packed.read` does."""
        return await self.objects.read(f"{self.root}/{folder}/{digest}", most)

    async def stored(self, folder: str) -> list[Stored]:
        """Return the values of a folder, as `Packed.stored` does."""
        names = self.objects.found_under(f"{self.root}/{folder}")
        return [Stored(name.uri.rpartition("/")[2].lower(), name.size, name.modified) async for name in names]

    async def folders(self) -> set[str]:
        """Return all folders, as `Packed.folders` does."""
        return {unquote(name.split("/")[-2]) async for name in self.objects.names_under(self.root)}

    async def erase(self, folder: str) -> int:
        """Erase a folder, as `Packed.erase` does."""
        return await self.objects.delete_under(f"{self.root}/{folder}")

    async def erase_some(self, folder: str, digests: Collection[str], before: int) -> None:
        """Erase values as `Packed.erase_some` does, but of any age: the caller has checked when they were written."""
        for digest in digests:
            await self.objects.delete(f"{self.root}/{folder}/{digest}")
