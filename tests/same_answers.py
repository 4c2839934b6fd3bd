"""The hash of what a gateway answers about the whole corpus: the same before and after a change of the store.

python -m tests.same_answers [--store postgresql://…] [--into answers.txt]

Each recorded stream is stored twice as a run of its own thread: broken off in the middle first, then whole; every other
one for a tenant. Lists, documents (each also in one of the formats), usage and searches are read over HTTP, without a
broker.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from hashlib import sha256
from itertools import cycle
from pathlib import Path
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

import click
import httpx
import orjson

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS, FORMATS
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.turns import write_turns
from pipeline.stores.usage.summing import sum_up
from tests.same_bytes import CORPUS, START, streams
from tests.support.gateways import client, running
from topics.turn_record import TurnRecord
from turnmill.wire.framing import decode

GROUPS: Final = ("model", "provider", "agent", "tenant", "thread", "finish_reason")
BUCKETS: Final = ("", "minute", "hour", "day", "month")
WORDS: Final = ("weather", "the", "paris", "hello", "error", '"in paris"', "wea*")


def runs() -> Iterator[tuple[str, str | None, Sequence[TurnRecord]]]:
    """Each stream -> its thread, its tenant, and its records: of the half first, then of all of it."""
    for number, (dialect, file) in enumerate(streams()):
        name = str(file.relative_to(CORPUS))
        thread_id, tenant = str(uuid5(NAMESPACE_URL, name)), "acme" if number % 2 else None
        events = [item.event for item in decode(file.read_bytes(), DIALECTS[dialect].wire) if item.event is not None]
        records: list[TurnRecord] = []
        for some in (events[: len(events) // 2], events):
            ts = START + 60_000 * number
            envelope: dict[str, Any] = {"v": 1, "thread_id": thread_id, "run_id": name, "agent_id": dialect}
            envelope |= {"seq": 0, "ts": ts, "dialect": dialect, "events": some}
            envelope |= {"run": {"external_id": f"corpus {name}"}} if number % 3 else {}
            envelope |= {} if tenant is None else {"tenant": tenant}
            records += assemble(DIALECTS[dialect], [envelope])[0]
        yield thread_id, tenant, records


async def answers(http: httpx.AsyncClient, threads: Sequence[tuple[str, str | None]]) -> AsyncIterator[tuple[str, Any]]:
    """Each request with its answer."""

    async def got(path: str) -> tuple[str, Any]:
        answer = await http.get(path)
        return path, orjson.loads(answer.content)

    cursor, listed = "", list[Any]()
    while cursor is not None:
        _, page = await got(f"/v1/threads?limit=100{cursor and '&cursor='}{cursor}")
        listed, cursor = listed + page["threads"], page.get("next", page.get("cursor"))
    yield "/v1/threads", sorted(listed, key=lambda one: (one["updated_at"], one["thread_id"]))
    for (thread_id, tenant), form in zip(threads, cycle(FORMATS)):
        own = f"tenant={tenant or ''}"
        yield await got(f"/v1/threads/{thread_id}?{own}&branch=all&partial=true")
        yield await got(f"/v1/threads/{thread_id}?{own}&format={form}")
    for group in GROUPS:
        for bucket in BUCKETS:
            for own in ("", "&tenant=acme", "&tenant="):
                yield await got(f"/v1/usage?group_by={group}&limit=10000{own}{bucket and '&bucket='}{bucket}")
    for word in WORDS:
        for own in ("", "&tenant=acme", "&role=user"):
            pages, after = list[Any](), ""
            while after is not None:
                _, page = await got(f"/v1/search?q={word}&limit=100{own}{after and '&cursor='}{after}")
                pages, after = pages + page["results"], page["next"]
            yield f"{word}{own}", sorted(pages, key=orjson.dumps)  # those of one time and score may come in any order
    for narrowed in ("search=corpus", "status=interrupted", "agent=anthropic", "tenant=acme"):
        _, page = await got(f"/v1/threads?limit=200&{narrowed}")
        yield narrowed, sorted(page.get("threads", [page]), key=orjson.dumps)


async def written(url: str, out: Path) -> str:
    """Fill a store, and write down each answer -> the hash of all."""
    found, threads = sha256(), list[tuple[str, str | None]]()
    async with await ThreadStore.open(url, migrate=True, search="all") as store:
        for thread_id, tenant, records in runs():
            threads.append((thread_id, tenant))
            half = len(records) // 2
            for some in (records[:half], records[half:], records):
                await write_turns(store, some)
        while await sum_up(store):
            pass
    settings = Settings(store=url, gateway_port=0, gateway_rate=0.0, brokers="127.0.0.1:1")
    with out.open("wb") as lines:
        async with running(settings) as gateway, client(gateway.url) as http:
            async for path, answer in answers(http, threads):
                line = orjson.dumps([path, answer], option=orjson.OPT_SORT_KEYS) + b"\n"
                found.update(line)
                lines.write(line)
    return found.hexdigest()


@click.command(help=__doc__)
@click.option("--store", default="", help="An empty database; by default an SQLite file that goes again.")
@click.option("--into", type=click.Path(path_type=Path), default=Path("/dev/null"), help="Where the answers go.")
def main(store: str, into: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        click.echo(asyncio.run(written(store or f"sqlite:///{folder}/threads.db", into)))


if __name__ == "__main__":
    main()
