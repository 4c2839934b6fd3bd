"""The same job in Quix Streams, as its documentation teaches: a stateful function over a StreamingDataFrame.

`python -m tests.bench.quix_state BROKERS TOPIC OUTPUT FOLDER EVENTS` -> {"events": …, "seconds": …, "cpu": …}

It drops duplicates by `seq`, assembles the text, produces the finished turn. Open turns are in its state store
(RocksDB, with a changelog topic), so they survive a crash; at-least-once, as by default.
"""

import os
import sys
import time
from typing import Any

import orjson
from quixstreams import Application, State


def build(brokers: str, topic: str, output: str, folder: str, events: int) -> Application:
    """The application; it exits after `events` events and prints its figures."""
    app = Application(
        brokers,
        consumer_group=f"bench-quix-{os.getpid()}",
        auto_offset_reset="earliest",
        state_dir=f"{folder}-{os.getpid()}",
        loglevel="ERROR",
    )
    source = app.topic(topic, value_deserializer="json", key_deserializer="str")
    finished = app.topic(output, value_serializer="json", key_serializer="str")
    count, began, cpu = 0, 0.0, 0.0

    def assemble(envelope: dict[str, Any], state: State) -> dict[str, Any] | None:
        nonlocal count, began, cpu
        if not began:
            began, cpu = time.perf_counter(), time.process_time()
        seen, text = state.get(envelope["run_id"], default=[0, ""])
        turn = None
        if envelope["seq"] == seen:
            for event in envelope["events"]:
                if event["type"] == "text-delta":
                    text += event["delta"]
            seen += len(envelope["events"])
            if "end" in envelope:
                turn = {"run_id": envelope["run_id"], "status": envelope["end"], "text": text}
                state.delete(envelope["run_id"])
            else:
                state.set(envelope["run_id"], [seen, text])
        count += len(envelope["events"])
        if count >= events:
            done = {"events": count, "seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}
            os.write(1, orjson.dumps(done) + b"\n")
            os._exit(0)  # nothing depends on how it stops
        return turn

    turns = app.dataframe(source).apply(assemble, stateful=True)
    turns.filter(lambda turn: turn is not None).to_topic(finished)
    return app


if __name__ == "__main__":
    brokers, topic, output, folder, events = sys.argv[1:]
    build(brokers, topic, output, folder, int(events)).run()
