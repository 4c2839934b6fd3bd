"""The content store: large values of turns as objects, in a bucket or a folder, named by the SHA-256 of what they hold.

An object is THREAD_ID/SHA256 under the store's URL. Within a thread the same content is the same object, and writing
it again changes nothing. Threads share none: so a thread's objects go with the thread, without a count of references,
and nobody can find out what another tenant has.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter
from typing import Any, Final, Self

from pipeline.errors import StoreError
from pipeline.settings import Settings
from pipeline.stores.objects import Objects
from pipeline.turns.content import references, resolved
from topics.json_text import Fields

OURS: Final = re.compile(r"/([0-9A-Fa-f-]{36})/([0-9a-f]{64})$")
HASH: Final = re.compile(r"(?:sha-?256:)?([0-9a-f]{64})", re.IGNORECASE)
AT_ONCE: Final = 8  # objects that are read at the same time

Ref = dict[str, Any]  # ThreadProtocol ContentRef: {"uri", "size_bytes", "hash": "sha256:…", "media_type"}


class Room:
    """How many bytes a document may still get; `most` None bounds nothing."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self.left = most

    def take(self, size: int) -> None:
        """Raises StoreError where so much is not left."""
        if self.left is None:
            return
        self.left -= size
        if self.left < 0:
            raise StoreError(f"with its large values the thread has more than {self._most:,} bytes in one answer")


class ContentStore:
    """`root`: file:///folder, s3://bucket/prefix, gs://… or azure://container/…; None has no objects of its own.

    Objects elsewhere are read, too (a producer's own `content_ref`: https, s3, gs, azure, file), unless `elsewhere` is
    False. They need a hash: nobody can make us read a file, or an inner service, whose content they don't know.
    """

    def __init__(self, root: str | None, *, elsewhere: bool = True) -> None:
        """Raises CallerError where the cloud's variables say too little."""
        self.root = root.rstrip("/") if root is not None else None
        self.elsewhere = elsewhere
        self.objects = Objects()
        if self.root is not None:
            self.objects.open(self.root)

    @classmethod
    def of(cls, settings: Settings, *, elsewhere: bool = True) -> Self:
        """The store of THREADMILL_CONTENT."""
        return cls(settings.content_url, elsewhere=elsewhere)

    async def put(self, thread_id: str, data: bytes, media_type: str) -> Ref:
        """Write an object -> its ContentRef; it is safe when this returns. Raises StoreError."""
        ref = self.ref(thread_id, data, media_type)
        await self.objects.write(str(ref["uri"]), data, media_type)
        return ref

    def ref(self, thread_id: str, data: bytes, media_type: str) -> Ref:
        """The ContentRef that `put` gives, without writing. Raises StoreError where there is no content store."""
        if self.root is None:
            raise StoreError("there is no content store to write to: set THREADMILL_CONTENT")
        digest = hashlib.sha256(data).hexdigest()
        uri = f"{self.root}/{thread_id}/{digest}"
        return {"uri": uri, "size_bytes": len(data), "hash": f"sha256:{digest}", "media_type": media_type}

    async def get(self, thread_id: str, ref: Ref, most: int | None = None) -> bytes:
        """What a ContentRef in this thread refers to, its hash verified. Raises StoreError, also for more than `most`
        bytes.
        """
        uri, said = ref.get("uri"), ref.get("hash")
        if not isinstance(uri, str):
            raise StoreError(f"a content reference needs a URI, got {ref!r:.200}")
        match = HASH.fullmatch(said) if isinstance(said, str) else None
        ours = OURS.search(uri)
        if self.root is not None and ours is not None and ours[1] == thread_id:
            expected = match[1].lower() if match is not None else ours[2]
            data = await self.objects.read(f"{self.root}{ours[0]}", most)  # also where the store has moved since
        elif not self.elsewhere:
            raise StoreError(f"{uri} is not in the content store, and nothing else is read here")
        elif match is None:
            raise StoreError(f"{uri} is not in the content store, and without a SHA-256 in `hash` it is not read")
        else:
            expected = match[1].lower()
            data = await self.objects.read(uri, most)
        found = hashlib.sha256(data).hexdigest()
        if found != expected:
            raise StoreError(f"{uri} does not hold what it should: its SHA-256 is {found}, not {expected}")
        return data

    async def delete_thread(self, thread_id: str) -> int:
        """Delete all objects of a thread -> how many there were. Raises StoreError."""
        return 0 if self.root is None else await self.objects.delete_under(f"{self.root}/{thread_id}")

    async def inlined(self, document: Fields, most: int | None = None) -> Fields:
        """A thread document with every referenced value in it. Raises StoreError that names thread, turn and URI; also
        where the values have more than `most` bytes, each counted as often as it stands in the document.
        """
        turns = document.get("turns")
        if not isinstance(turns, list):
            return document
        thread_id = str(document.get("thread_id"))
        room = Room(most)
        return {
            **document,
            "turns": [await self._inlined_turn(thread_id, n, turn, room) for n, turn in enumerate(turns)],
        }

    async def _inlined_turn(self, thread_id: str, number: int, turn: Fields, room: Room) -> Fields:
        found = references(turn) if isinstance(turn, dict) else []
        if not found:
            return turn
        name = f"thread {thread_id}, turn {turn.get('meta:turn_id', number)}"
        slots = asyncio.Semaphore(AT_ONCE)

        places = Counter(_object(ref) for _, ref in found)
        objects = {key: (ref, places[key]) for key, ref in ((_object(ref), ref) for _, ref in found)}

        async def fetch(ref: Ref, places: int) -> bytes:
            said = ref.get("size_bytes")
            known = said if type(said) is int and said >= 0 else None
            async with slots:
                room.take(places * (known or 0))
                data = await self.get(
                    thread_id, ref, None if room.left is None else room.left if known is None else known
                )
                room.take(places * len(data) if known is None else 0)
                return data

        try:
            read = await asyncio.gather(*(fetch(*value) for value in objects.values()))
            data = dict(zip(objects, read, strict=True))
            return resolved(turn, {place: data[_object(ref)] for place, ref in found})
        except StoreError as error:
            raise StoreError(f"{name}: {error}", transient=error.transient) from None
        except ValueError as error:
            uris = ", ".join(str(ref.get("uri")) for _, ref in found)
            raise StoreError(f"{name}: {uris}: not what its media type says: {error}") from None


def _object(ref: Ref) -> tuple[str, str]:
    return str(ref.get("uri")), str(ref.get("hash"))
