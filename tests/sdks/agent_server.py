"""Runs inside an environment with pydantic-ai: the FastAPI example on uvicorn, its ids and times the same each time.

python agent_server.py PORT FOLDER plain|published: after each run, FOLDER/<chat id>.json holds the SDK's own messages.
"""

import random
import sys
import uuid
from contextvars import ContextVar
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import uvicorn
from starlette.requests import Request

import turnmill.integrations.asgi  # before the change: its own ids stay as they are
import turnmill.publish.publisher  # noqa: F401

port, folder, mode = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
numbers: ContextVar[random.Random] = ContextVar("numbers")  # of one request
numbers.set(random.Random(0))
uuid.uuid4 = lambda: uuid.UUID(int=numbers.get().getrandbits(128), version=4)

from pydantic_ai import _utils as pydantic_ai_utils  # noqa: E402
from pydantic_ai.ui.vercel_ai import VercelAIAdapter  # noqa: E402

from examples import fastapi_agent  # noqa: E402


class Clock:
    """What the SDK takes for `datetime`."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return datetime.fromtimestamp(1_768_928_342, tz)


pydantic_ai_utils.datetime = Clock
dispatch = VercelAIAdapter.dispatch_request


async def and_keep(request: Request, *, agent: Any) -> Any:
    chat = (await request.json())["id"]
    numbers.set(random.Random(chat))

    def keep(result: Any) -> None:
        (folder / f"{chat}.json").write_bytes(result.all_messages_json())

    return await dispatch(request, agent=agent, on_complete=keep)


VercelAIAdapter.dispatch_request = and_keep
if mode == "plain":
    fastapi_agent.app.user_middleware.clear()
uvicorn.run(fastapi_agent.app, host="127.0.0.1", port=port, log_level="warning")
