"""Runs inside an environment with google-adk and this package: its runner over Gemini's API, recorded."""

from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.models import Gemini
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import Client
from google.genai.types import Content, HttpOptions, HttpRetryOptions, Part
from recorder import QUESTION, Speaker, Task, main
from scripted import weather


def asks(city: str, days: int) -> dict[str, Any]:
    """Tell the weather."""
    try:
        return {"result": weather(city, days)}
    except ValueError as error:
        return {"error": str(error)}


asks.__name__ = "weather"


async def streamed(task: Task) -> None:
    await speak(task, StreamingMode.SSE)


async def whole(task: Task) -> None:
    await speak(task, StreamingMode.NONE)


async def speak(task: Task, mode: StreamingMode, *plugins: BasePlugin) -> None:
    http = HttpOptions(base_url=task.url, retry_options=HttpRetryOptions(attempts=1))
    model = Gemini(model="gemini-2.5-flash", client=Client(api_key="none", http_options=http))
    sessions = InMemorySessionService()
    agent = LlmAgent(name="weather", model=model, tools=[asks])
    app = App(name="app", root_agent=agent, plugins=list(plugins))
    runner = Runner(app=app, session_service=sessions)
    session = await sessions.create_session(app_name="app", user_id="u", session_id=task.name)
    asked = Content(role="user", parts=[Part(text=QUESTION)])
    events = runner.run_async(
        user_id="u", session_id=session.id, new_message=asked, run_config=RunConfig(streaming_mode=mode)
    )
    try:
        async for event in events if task.run is None else task.run.tee(events):
            if event.partial:
                pieces = [part.text for part in event.content.parts if part.text and not part.thought]
                task.made.piece("".join(pieces))
            else:
                task.made.unfinished = []
    finally:
        session = await sessions.get_session(app_name="app", user_id="u", session_id=task.name)
        for event in session.events[1:]:
            note(task, event)


def note(task: Task, event: Any) -> None:
    """An event of the session behind the user's."""
    found = list(event.content.parts if event.content else ())
    results = [part.function_response for part in found if part.function_response]
    if results:
        told = [("error" if "error" in result.response else "success", result) for result in results]
        task.made.results([["tool-return", result.id, result.response, how] for how, result in told])
    elif found:
        used = event.usage_metadata
        said_tokens = (used.candidates_token_count or 0) + (used.thoughts_token_count or 0)
        read_tokens = (used.prompt_token_count or 0) + (used.tool_use_prompt_token_count or 0)
        task.made.response([said(part) for part in found if said(part)], read_tokens, said_tokens)


def said(part: Part) -> list[Any] | None:
    if part.function_call:
        return ["tool-call", part.function_call.name, part.function_call.id, part.function_call.args]
    return ["thinking" if part.thought else "text", part.text] if part.text else None


BODY = {"newMessage": {"role": "user", "parts": [{"text": QUESTION}]}}
if __name__ == "__main__":
    main(Speaker("streamed", "google-adk", streamed, BODY), Speaker("whole", "google-adk", whole, BODY))
