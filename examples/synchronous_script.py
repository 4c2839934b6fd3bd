# /// script
# requires-python = ">=3.11"
# dependencies = ["turnmill"]
# ///
"""A program without an event loop passes a stream on, byte for byte: `python examples/synchronous_script.py`."""

import sys
from collections.abc import Iterator
from pathlib import Path

from turnmill import SyncPublisher

STREAM = Path(__file__).with_name("weather.sse")


def chunks() -> Iterator[bytes]:
    """Stands for the body of a response that a model's server sends."""
    with STREAM.open("rb") as file:
        while chunk := file.read(100):
            yield chunk


def main() -> None:
    """Copy the stream to standard output."""
    with SyncPublisher() as publisher:
        with publisher.run(thread_id="chat-43", agent_id="weather", dialect="vercel-ai") as run:
            for chunk in run.tee_bytes(chunks()):
                sys.stdout.buffer.write(chunk)
        publisher.flush()
        print(publisher.report(), file=sys.stderr)  # noqa: T201  # its purpose


if __name__ == "__main__":
    main()
