"""Runs inside an environment with google-adk and this package: its runner over Gemini's API, heard by our plugin."""

from dataclasses import replace
from functools import partial
from typing import Any

from google.adk.agents.run_config import StreamingMode
from google_adk_recorder import speak
from recorder import Speaker, Task, main

from turnmill import AdkPlugin, RunIdentity
from turnmill.integrations.google_adk import from_session


def named(context: Any) -> RunIdentity:
    """The thread has the session's id, whoever the user is."""
    return replace(from_session(context), thread_id=context.session.id)


plugin = AdkPlugin(identify=named)


async def heard(task: Task, mode: StreamingMode) -> None:
    await speak(task, mode, plugin)


main(
    Speaker("streamed", "google-adk", partial(heard, mode=StreamingMode.SSE), helper=True),
    Speaker("whole", "google-adk", partial(heard, mode=StreamingMode.NONE), helper=True),
)
