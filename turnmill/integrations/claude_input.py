"""The stream of prompts that `claude_query` gives to the SDK; it also carries the interrupt of a stopped run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

from turnmill.control.stopping import RunStopped, Stopping


class ClaudeInput:
    """The prompts of a query, followed by an interrupt if a command stops the run before its answer is complete.

    The SDK offers no interrupt for a query, and ends its program only 5 s after the messages. But it passes on what a
    stream of prompts yields, so an interrupt can follow them, as long as the stream has not ended.
    """

    def __init__(self) -> None:
        self.stopping = Stopping()
        self.answered = asyncio.Event()  # no prompt waits for its answer
        self.is_open = True

    async def lines(self, prompts: AsyncIterable[Any]) -> AsyncIterator[Any]:
        """Yield the prompts, and end once they are answered."""
        try:
            async for line in self.stopping.each(aiter(prompts)):
                yield line
            await self.stopping.during(self.answered.wait)
        except RunStopped as stopped:
            request = {"subtype": "interrupt"}
            yield {"type": "control_request", "request_id": f"turnmill-{stopped.command_id}", "request": request}
        finally:
            self.is_open = False


async def alone(prompt: Any) -> AsyncIterator[Any]:
    """Yield a prompt in the form that the SDK gives a text."""
    message = {"role": "user", "content": prompt}
    yield {"type": "user", "session_id": "", "message": message, "parent_tool_use_id": None}
