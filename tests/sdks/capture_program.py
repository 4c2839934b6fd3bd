"""Runs inside an environment with the SDKs of providers and this package: each speaks to a scripted upstream.

    python capture_program.py ADDRESS [client]

Prints, for each SDK and case, what the program saw: the same, whoever listens. With `client`, the SDKs get our clients.
"""

# ruff: noqa: FBT001  # each SDK is asked in the same words

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anthropic
import openai
from google import genai
from google.genai import types
from mistralai.client import Mistral
from mistralai.client.utils import BackoffStrategy, RetryConfig

import turnmill

CASES = ("plain", "encoded", "retried", "down", "refused", "stalled", "reset", "cut")
KEY = "sk-very-secret-1234"
# Milliseconds: it gives up by the time that has passed, so that a slow first attempt must leave some for a second.
QUICK = RetryConfig("backoff", BackoffStrategy(500, 500, 1.0, 2_500), retry_connection_errors=False)
OURS = sys.argv[2:] == ["client"]

Ask = Callable[[str, str, bool], Iterator[str]]  # address, what the user says, streamed -> pieces of text


def patience(address: str) -> float:
    """Seconds: a short time where the server stalls, and nowhere else too short for a busy machine."""
    return 1.0 if "/stalled/" in address else 120.0


def own(**options: Any) -> dict[str, Any]:
    """What makes an SDK use our client."""
    return {"http_client": turnmill.client(**options)} if OURS else {}


def openai_client(address: str) -> openai.OpenAI:
    return openai.OpenAI(api_key=KEY, base_url=f"{address}/v1", timeout=patience(address), max_retries=2, **own())


def openai_responses(address: str, text: str, stream: bool) -> Iterator[str]:
    client = openai_client(address)
    if not stream:
        yield client.responses.create(model="m", input=text).output_text
        return
    for event in client.responses.create(model="m", input=text, stream=True):
        if event.type == "response.output_text.delta":
            yield event.delta


def openai_chat(address: str, text: str, stream: bool) -> Iterator[str]:
    client = openai_client(address)
    asked = [{"role": "user", "content": text}]
    if not stream:
        yield client.chat.completions.create(model="m", messages=asked).choices[0].message.content
        return
    for chunk in client.chat.completions.create(model="m", messages=asked, stream=True):
        yield chunk.choices[0].delta.content or ""


async def openai_async(address: str, text: str, stream: bool) -> AsyncIterator[str]:
    ours = {"http_client": turnmill.async_client()} if OURS else {}
    asked = [{"role": "user", "content": text}]
    async with openai.AsyncOpenAI(
        api_key=KEY, base_url=f"{address}/v1", timeout=patience(address), max_retries=2, **ours
    ) as client:
        if not stream:
            yield (await client.chat.completions.create(model="m", messages=asked)).choices[0].message.content
            return
        async for chunk in await client.chat.completions.create(model="m", messages=asked, stream=True):
            yield chunk.choices[0].delta.content or ""


def anthropic_messages(address: str, text: str, stream: bool) -> Iterator[str]:
    client = anthropic.Anthropic(api_key=KEY, base_url=address, timeout=patience(address), max_retries=2, **own())
    asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": text}]}
    if not stream:
        yield client.messages.create(**asked).content[0].text
        return
    with client.messages.stream(**asked) as answer:
        yield from answer.text_stream


def mistral_chat(address: str, text: str, stream: bool) -> Iterator[str]:
    ours = {"client": turnmill.client()} if OURS else {}
    client = Mistral(KEY, server_url=address, timeout_ms=int(patience(address) * 1_000), retry_config=QUICK, **ours)
    asked = {"model": "m", "messages": [{"role": "user", "content": text}]}
    if not stream:
        yield client.chat.complete(**asked).choices[0].message.content
        return
    for event in client.chat.stream(**asked):
        yield event.data.choices[0].delta.content or ""


def google_genai(address: str, text: str, stream: bool) -> Iterator[str]:
    retries = types.HttpRetryOptions(attempts=3, initial_delay=0.01, max_delay=0.02)
    ours = {"httpx_client": turnmill.client()} if OURS else {}
    options = types.HttpOptions(base_url=address, timeout=int(patience(address) * 1_000), retry_options=retries, **ours)
    client = genai.Client(api_key=KEY, http_options=options)
    if not stream:
        yield client.models.generate_content(model="m", contents=text).text
        return
    for chunk in client.models.generate_content_stream(model="m", contents=text):
        yield chunk.text or ""


def finished(ask: Callable[[str, str, bool], AsyncIterator[str]]) -> Ask:
    """An asynchronous one, as the others."""

    def asked(address: str, text: str, stream: bool) -> Iterator[str]:
        async def heard() -> None:
            try:
                async for piece in ask(address, text, stream):
                    pieces.append(piece)  # noqa: PERF401  # what came before an error counts
            except Exception as error:
                raised.append(error)

        pieces: list[str] = []
        raised: list[Exception] = []
        asyncio.run(heard())
        yield from pieces
        for error in raised:
            raise error

    return asked


SDKS: dict[str, Ask] = {
    "openai-responses": openai_responses,
    "openai-chat": openai_chat,
    "openai-async": finished(openai_async),
    "anthropic": anthropic_messages,
    "mistral": mistral_chat,
    "google-genai": google_genai,
}


def seen(ask: Ask, address: str, text: str, stream: bool) -> dict[str, Any]:
    pieces: list[str] = []
    try:
        pieces.extend(ask(address, text, stream))
    except Exception as error:
        return {"pieces": pieces, "error": type(error).__name__, "status": getattr(error, "status_code", None)}
    return {"pieces": pieces}


def main() -> dict[str, Any]:
    found = {}
    for sdk, ask in SDKS.items():
        for case in CASES:
            for stream in (True, False):
                name = f"{sdk} {case} {'stream' if stream else 'whole'}"
                address = f"{sys.argv[1]}/{case}/{name.replace(' ', '-')}-{os.getpid()}"
                found[name] = seen(ask, address, name, stream)
    large = seen(openai_chat, f"{sys.argv[1]}/large/x", "openai-chat large whole", False)
    found["openai-chat large whole"] = {
        "pieces": [len(piece) for piece in large["pieces"]],
        **({} if large["pieces"] else large),
    }
    return found


print(json.dumps(main()))  # noqa: T201  # its result
