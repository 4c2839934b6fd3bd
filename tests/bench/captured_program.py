"""The program whose model calls are captured, as a process of its own: an agent that speaks to a model over httpx.

`python -m tests.bench.captured_program URL plain|client STREAMS` reads STREAMS streams at once, at the upstream's
pace, and then one short stream after the other. It prints the CPU seconds of the first part, and of each short stream
the milliseconds from the request to the first byte of its answer. With 0 streams it makes one call and ends, as a
script does.
"""

import asyncio
import json
import sys
import time
from typing import Final

import httpx

SHORT: Final = 200  # streams, one after the other
WARM: Final = 20  # of those before
QUESTION: Final = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Tell me about Paris."}]}


async def read(client: httpx.AsyncClient, url: str) -> float:
    """Read one stream -> milliseconds to its first byte."""
    began, first = time.perf_counter(), 0.0
    async with client.stream("POST", url, json=QUESTION) as response:
        async for _ in response.aiter_raw():
            first = first or time.perf_counter() - began
    return first * 1_000


async def main(url: str, mode: str, streams: int) -> dict[str, object]:
    """-> what is printed."""
    make = httpx.AsyncClient
    if mode == "client":
        import turnmill  # what it takes is of this mode alone

        make = turnmill.async_client
    async with make(timeout=None, limits=httpx.Limits(max_connections=None)) as client:
        if not streams:
            return {"cpu": 0, "first": [await read(client, f"{url}/short/v1/chat/completions")]}
        for _ in range(WARM):
            await read(client, f"{url}/short/v1/chat/completions")
        await asyncio.sleep(1)
        before = time.process_time()
        await asyncio.gather(*(read(client, f"{url}/paced/v1/chat/completions") for _ in range(streams)))
        cpu = time.process_time() - before
        first = [await read(client, f"{url}/short/v1/chat/completions") for _ in range(SHORT)]
    return {"cpu": cpu, "first": first}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))))
