"""The content store: large values of turns, in a bucket or in packs on a disk, named by the SHA-256 of what they hold.

An object's name is THREAD_ID/SHA256 under the store's URL; of a thread with a tenant THREAD_ID@SHA256-OF-TENANT/SHA256.
Within a thread the same content is the same object, and writing it again changes nothing. Threads share none: so a
thread's objects are deleted with it, without counting references, and nobody can find out what another tenant has.
"""

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Collection, Sequence
from posixpath import normpath
from typing import Any, Final, Self
from urllib.parse import unquote, urlsplit

from pipeline.settings import Settings
from pipeline.stores.content.large_values import large_values
from pipeline.stores.content.objects import Objects
from pipeline.stores.content.packs import Stored
from pipeline.stores.database.errors import StoreError
from pipeline.turns.content import Place, references, resolved
from topics.json_text import Fields
from topics.thread_key import ThreadKey

OWN_REFERENCE: Final = re.compile(r"/([0-9a-f-]{36}(?:@[0-9a-f]{64})?)/([0-9a-f]{64})$", re.IGNORECASE)
HASH: Final = re.compile(r"(?:sha-?256:)?([0-9a-f]{64})", re.IGNORECASE)
CONCURRENCY: Final = 8  # objects that are read at the same time

Ref = dict[str, Any]  # ThreadProtocol ContentRef: {"uri", "size_bytes", "hash": "sha256:…", "media_type"}


class Room:
    """How many bytes may still be added to a document; without a limit if `most` is None."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self.left = most

    def take(self, size: int) -> None:
        """Subtract `size` bytes from the rest. Raises StoreError if fewer are left."""
        if self.left is None:
            return
        self.left -= size
        if self.left < 0:
            raise StoreError(f"with its large values the thread has more than {self._most:,} bytes in one answer")


class ContentStore:
    """`root`: file:///folder, s3://bucket/prefix, gs://… or azure://container/…; None stores no objects.

    Objects elsewhere are read, too (a producer's `content_ref`: https, s3, gs, azure, file), unless `elsewhere` is
    False. They need a hash, so nobody can make us read a file, or an internal service, whose content they don't know.
    """

    def __init__(self, root: str | None, *, elsewhere: bool = True) -> None:
        """Open the store under `root`. Raises CallerError if the cloud's variables are incomplete."""
        self.root = root.rstrip("/") if root is not None else None
        self.elsewhere = elsewhere
        self.objects = Objects()
        self.values = large_values(self.root, self.objects) if self.root is not None else None

    @classmethod
    def of(cls, settings: Settings, *, elsewhere: bool = True) -> Self:
        """Return the store of TURNMILL_CONTENT."""
        return cls(settings.content_url, elsewhere=elsewhere)

    async def put(self, key: ThreadKey, data: bytes, media_type: str) -> Ref:
        """Write an object of a thread durably; return its ContentRef. Raises StoreError."""
        if self.values is None:
            raise StoreError("there is no content store to write to: set TURNMILL_CONTENT")
        return self._ref(key, await self.values.put(folder(key), data, media_type), len(data), media_type)

    def ref(self, key: ThreadKey, data: bytes, media_type: str) -> Ref:
        """Return the ContentRef that `put` would return, without writing."""
        return self._ref(key, hashlib.sha256(data).hexdigest(), len(data), media_type)

    def _ref(self, key: ThreadKey, digest: str, size: int, media_type: str) -> Ref:
        uri = f"{self.root}/{folder(key)}/{digest}"
        return {"uri": uri, "size_bytes": size, "hash": f"sha256:{digest}", "media_type": media_type}

    async def get(self, key: ThreadKey, ref: Ref, most: int | None = None) -> bytes:
        """Return a value of this thread, its hash verified. Raises StoreError, also above `most` bytes."""
        uri, named = ref.get("uri"), ref.get("hash")
        match = HASH.fullmatch(named) if isinstance(named, str) else None
        digest = match[1].lower() if match is not None else None
        if not isinstance(uri, str):
            raise StoreError(f"a content reference needs a URI, got {ref!r:.200}")
        ours = _ours(uri)
        if ours is not None and self.values is not None and ours[0] == folder(key):
            expected = digest or ours[1]
            data = await self.values.read(*ours, most)  # ours by its name, even if the store has moved since
        elif ours is not None or not self.elsewhere:
            raise StoreError(f"{uri} is not in the content store, and nothing else is read here")
        elif digest is None:
            raise StoreError(f"{uri} is not in the content store, and without a SHA-256 in `hash` it is not read")
        else:
            expected = digest
            data = await self.objects.read(uri, most)
        actual = hashlib.sha256(data).hexdigest()
        if actual != expected:
            raise StoreError(f"{uri} does not hold what it should: its SHA-256 is {actual}, not {expected}")
        return data

    async def delete_thread(self, key: ThreadKey) -> int:
        """Delete all objects of a thread; return how many there were. Raises StoreError."""
        return 0 if self.values is None else await self.values.erase(folder(key))

    async def delete(self, key: ThreadKey, digests: Collection[str], before: int) -> None:
        """Delete objects of a thread that were written before then, in epoch ms. Raises StoreError."""
        if self.values is not None:
            await self.values.erase_some(folder(key), digests, before)

    async def objects_of(self, key: ThreadKey) -> list[Stored]:
        """Return all objects of a thread. Raises StoreError."""
        return [] if self.values is None else await self.values.stored(folder(key))

    async def threads_of(self, tenant: str) -> set[ThreadKey]:
        """Return the threads of a tenant, "" for none, that have objects. Raises StoreError."""
        names = await self.values.folders() if self.values is not None else set()
        wanted = folder(ThreadKey.of("", tenant))  # the part of a folder's name that follows the thread's id
        ours = [name for name in names if OWN_REFERENCE.search(f"/{name}/{'0' * 64}")]
        return {ThreadKey.of(name[:36], tenant) for name in ours if name[36:] == wanted}

    async def inlined(self, key: ThreadKey, document: Fields, most: int | None = None) -> Fields:
        """Return a document with its values inlined; `most` bytes, repetitions counted. Raises StoreError."""
        turns = document.get("turns")
        if not isinstance(turns, list):
            return document
        room, references_of = Room(most), await asyncio.to_thread(_references, turns)
        whole = list(turns)
        for number, places in references_of.items():
            whole[number] = await self._inlined_turn(key, number, turns[number], places, room)
        return {**document, "turns": whole}

    async def _inlined_turn(
        self, key: ThreadKey, number: int, turn: Fields, references: Sequence[tuple[Place, Ref]], room: Room
    ) -> Fields:
        name = f"thread {key.thread_id}, turn {turn.get('meta:turn_id', number)}"
        try:
            return await asyncio.to_thread(resolved, turn, await self._contents(key, references, room))
        except StoreError as error:
            raise StoreError(f"{name}: {error}", transient=error.transient) from None
        except ValueError as error:
            uris = ", ".join(str(ref.get("uri")) for _, ref in references)
            raise StoreError(f"{name}: {uris}: not what its media type says: {error}") from None

    async def _contents(
        self, key: ThreadKey, references: Sequence[tuple[Place, Ref]], room: Room
    ) -> dict[Place, bytes]:
        slots = asyncio.Semaphore(CONCURRENCY)
        places = Counter(_object(ref) for _, ref in references)
        objects = {_object(ref): ref for _, ref in reversed(references)}

        async def fetch(ref: Ref, places: int) -> bytes:
            size = ref.get("size_bytes")
            known = size if type(size) is int and size >= 0 else None
            async with slots:
                room.take(places * (known or 0))
                data = await self.get(key, ref, None if room.left is None else room.left if known is None else known)
                room.take(places * len(data) if known is None else 0)
                return data

        read = await asyncio.gather(*(fetch(ref, places[name]) for name, ref in objects.items()))
        data = dict(zip(objects, read, strict=True))
        return {location: data[_object(ref)] for location, ref in references}


def folder(key: ThreadKey) -> str:
    """Return the folder of a thread's objects, under the store's URL."""
    if key.tenant is None:
        return key.thread_id
    return f"{key.thread_id}@{hashlib.sha256(key.tenant.encode('utf-8', 'backslashreplace')).hexdigest()}"


def _references(turns: Sequence[Any]) -> dict[int, list[tuple[Place, Ref]]]:
    """Return the references in these turns by the turn's index; turns without any are left out."""
    by_turn = ((number, references(turn)) for number, turn in enumerate(turns) if isinstance(turn, dict))
    return {number: places for number, places in by_turn if places}


def digests_in(turn: Fields) -> set[str]:
    """Return the SHA-256 of all our objects that a turn refers to, whether we or its agent put the reference there."""
    return {ours[1] for _, ref in references(turn) if (ours := _ours(str(ref.get("uri")))) is not None}


def _ours(uri: str) -> tuple[str, str] | None:
    """Return folder and SHA-256 of an object of ours, wherever the store was at that time; None for any other URI."""
    try:
        match = OWN_REFERENCE.search(normpath(unquote(urlsplit(uri).path)))
    except ValueError:  # not a URI
        return None
    return (match[1], match[2].lower()) if match is not None else None


def _object(ref: Ref) -> tuple[str, str]:
    return str(ref.get("uri")), str(ref.get("hash"))
