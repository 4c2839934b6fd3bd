"""Runs inside an environment with the SDKs of Anthropic and Google: each talks to a scripted server.

    python continuing_program.py ADDRESS

Prints the history that each SDK itself has in the end: {name of the case: its messages}.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import anthropic
from anthropic.lib.threads._thread_state import as_sent
from google import genai
from google.genai import types

ADDRESS = sys.argv[1]
KEY = "sk-very-secret-1234"
ASKED: dict[str, Any] = {"model": "claude-x", "max_tokens": 100, "system": "Be brief."}
SAID = ("forget this", "again", "refuse", "again", "fall back", "again", "pause", "again")


@anthropic.beta_tool
def weather(city: str) -> str:
    """Tell the weather.

    Args:
        city: Where.
    """
    return f"It is sunny in {city}."


def messages_of_anthropic() -> anthropic.resources.beta.messages.Messages:
    return anthropic.Anthropic(api_key=KEY, base_url=ADDRESS, max_retries=0).beta.messages


def tool_runner(*, stream: bool) -> Any:
    name = "streamed runner" if stream else "runner"
    asked = [{"role": "user", "content": f"{name}: weather?"}]
    runner = messages_of_anthropic().tool_runner(**ASKED, tools=[weather], messages=asked, stream=stream)
    runner.until_done()
    return as_sent(list(runner._thread.messages))


def thread(*, stream: bool) -> Any:
    talk = messages_of_anthropic().thread(**ASKED)
    for words in (f"{'streamed thread' if stream else 'thread'}: one", *SAID):
        message = {"role": "user", "content": words}
        if stream:
            with talk.stream(message) as answer:
                answer.until_done()
        else:
            reply = talk.send(message)
        while (answer.get_final_message() if stream else reply).stop_reason == "pause_turn":
            if stream:
                with talk.stream() as answer:
                    answer.until_done()
            else:
                reply = talk.send()
    return as_sent(list(talk.messages))


def chat(name: str, *, stream: bool) -> Any:
    options = types.HttpOptions(base_url=ADDRESS, retry_options=types.HttpRetryOptions(attempts=1))
    client = genai.Client(api_key=KEY, http_options=options)
    talk = client.chats.create(model="gemini-4")
    for words in (f"{name}: count", "count on", "thanks"):
        if stream:
            for _ in talk.send_message_stream(words):
                pass
        else:
            talk.send_message(words)
    return [
        {"role": content.role, "content": "".join(part.text or "" for part in content.parts)}
        for content in talk.get_history(curated=True)
    ]


CASES: dict[str, Callable[[], Any]] = {
    "runner": lambda: tool_runner(stream=False),
    "streamed runner": lambda: tool_runner(stream=True),
    "thread": lambda: thread(stream=False),
    "streamed thread": lambda: thread(stream=True),
    "chat": lambda: chat("chat", stream=False),
    "streamed chat": lambda: chat("streamed chat", stream=True),
    "broken chat": lambda: chat("broken chat", stream=True),
}
print(json.dumps({name: case() for name, case in CASES.items()}))  # noqa: T201  # its result
