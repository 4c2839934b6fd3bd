"""Publishes what a program prints as a run, if it is the stream of a wire; all of it is passed on as it comes."""

import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from uuid import uuid4

from pipeline.assembly.dialect import Dialect
from pipeline.dialects.recognition import Recognition
from turnmill.control.stopping import RunStopped
from turnmill.errors import TurnmillError
from turnmill.publish.publisher import Publisher
from turnmill.wire.framing import decode

CHUNK_BYTES = 65_536


async def tee(child: Process, publisher: Publisher, agent: str) -> None:
    """Read the program's output to its end. If it can't be published, say so on stderr, and let the program go on."""
    held: list[bytes] = []
    recognition, dialect = Recognition(), None
    output = _passed(child)
    try:
        async for chunk in output:
            held.append(chunk)
            if dialect := recognition.feed(chunk):
                break
        if (dialect := dialect or recognition.close()) is not None:
            await _publish(child, publisher, agent, dialect, b"".join(held), output)
    except RunStopped:
        child.terminate()
    except TurnmillError as error:
        sys.stderr.write(f"turnmill: the output is not published: {error}\n")
    async for _ in _passed(child):
        pass


async def _publish(
    child: Process, publisher: Publisher, agent: str, dialect: Dialect, begun: bytes, output: AsyncIterator[bytes]
) -> None:
    async def whole() -> AsyncIterator[bytes]:
        yield begun
        async for chunk in output:
            yield chunk

    known = (item.event for item in decode(begun, dialect.wire) if item.event is not None)
    thread = dialect.conversation_of(known) or str(uuid4())
    async with publisher, publisher.run(thread_id=thread, agent_id=agent, dialect=dialect.name) as run:
        async for _ in run.tee_bytes(whole()):
            pass
        await run.end("complete" if await child.wait() == 0 else "error")


async def _passed(child: Process) -> AsyncIterator[bytes]:
    assert child.stdout is not None  # it is a pipe
    while chunk := await child.stdout.read(CHUNK_BYTES):
        sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        yield chunk
