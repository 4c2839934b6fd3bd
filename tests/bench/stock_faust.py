"""The same job in stock Faust, as its documentation teaches: an agent, `async for`, the state in a dictionary.

`python -m tests.bench.stock_faust BROKERS TOPIC OUTPUT FOLDER PARTITIONS EVENTS` ->
{"events": …, "seconds": …, "cpu": …}

It drops duplicates by `seq`, assembles the text, produces the finished turn. A crash loses its open turns: Faust
commits past turns in flight.
"""

import asyncio
import os
import sys
import time
from typing import Any

import faust
import orjson


def build(brokers: str, topic: str, output: str, folder: str, partitions: int, events: int) -> faust.App:
    """The application; it exits after `events` events and prints its figures."""
    app = faust.App(
        f"bench-faust-{os.getpid()}",
        broker=[f"kafka://{address}" for address in brokers.split(",")],
        store="memory://",
        datadir=folder,  # made even for a store in memory
        topic_partitions=partitions,
        topic_disable_leader=True,
        web_enabled=False,
        consumer_auto_offset_reset="earliest",
    )
    source = app.topic(topic, value_serializer="json", key_type=bytes, key_serializer="raw")
    finished = app.topic(output, value_serializer="json", key_type=bytes, key_serializer="raw")

    @app.agent(source)  # type: ignore[untyped-decorator]  # Faust has no types
    async def assemble(stream: Any) -> None:
        runs: dict[tuple[str, str], tuple[int, list[str]]] = {}
        count, began, cpu = 0, 0.0, 0.0
        async for envelope in stream:
            if not began:
                began, cpu = time.perf_counter(), time.process_time()
            key = envelope["thread_id"], envelope["run_id"]
            seen, chunks = runs.get(key, (0, []))
            if envelope["seq"] != seen:
                continue
            for event in envelope["events"]:
                if event["type"] == "text-delta":
                    chunks.append(event["delta"])
            seen += len(envelope["events"])
            count += len(envelope["events"])
            if "end" in envelope:
                runs.pop(key, None)
                turn = {"run_id": key[1], "status": envelope["end"], "text": "".join(chunks)}
                await finished.send(key=key[0].encode(), value=turn)
            else:
                runs[key] = seen, chunks
            if count >= events:
                done = {"events": count, "seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}
                os.write(1, orjson.dumps(done) + b"\n")
                os._exit(0)  # stopping takes Faust seconds, and nothing depends on it

    return app


async def run(app: faust.App) -> None:
    """Run the application until it exits by itself."""
    await app.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    brokers, topic, output, folder, partitions, events = sys.argv[1:]
    asyncio.run(run(build(brokers, topic, output, folder, int(partitions), int(events))))
