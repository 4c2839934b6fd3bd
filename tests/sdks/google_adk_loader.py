"""Runs inside an environment with google-adk: loads exported sessions, and goes on with them.

python google_adk_loader.py FILE: {name: [event]} -> prints {name: null | what went wrong}
"""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

from google.adk.agents import LlmAgent
from google.adk.events import Event
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai.types import Content, Part

ASKED: list[LlmRequest] = []


class Scripted(BaseLlm):
    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT001, FBT002  # as BaseLlm has it
    ) -> AsyncGenerator[LlmResponse, None]:
        ASKED.append(llm_request)
        yield LlmResponse(content=Content(role="model", parts=[Part(text="Going on.")]))


async def problem(events: list[dict]) -> str | None:
    """What the SDK says against a session; one with open calls is loaded only."""
    ASKED.clear()
    sessions = InMemorySessionService()
    agent = LlmAgent(name="turnmill_check", model=Scripted(model="scripted"))
    runner = Runner(app_name="app", agent=agent, session_service=sessions)
    session = await sessions.create_session(app_name="app", user_id="u")
    try:
        for event in events:
            await sessions.append_event(session, Event.model_validate(event))
        if open_calls(events):
            return None
        message = Content(role="user", parts=[Part(text="And now?")])
        said = [e async for e in runner.run_async(user_id="u", session_id=session.id, new_message=message)]
    except Exception as error:  # any refusal is the finding
        return f"{type(error).__name__}: {error}"
    texts = [part.text for event in said if event.content for part in event.content.parts or ()]
    if texts != ["Going on."]:
        return f"went on with {texts!r}"
    return None if ASKED and ASKED[0].contents[-1].parts[0].text == "And now?" else "the model was asked something else"


def open_calls(events: list[dict]) -> set[str]:
    parts = [part for event in events for part in (event.get("content") or {}).get("parts", [])]
    called = {part["functionCall"]["id"] for part in parts if "functionCall" in part}
    return called - {part["functionResponse"]["id"] for part in parts if "functionResponse" in part}


histories = json.loads(Path(sys.argv[1]).read_text())
print(json.dumps({name: asyncio.run(problem(events)) for name, events in histories.items()}))  # noqa: T201  # its result
