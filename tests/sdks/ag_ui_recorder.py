"""Runs inside an environment with pydantic-ai, its AG-UI adapter and this package: a server of AG-UI, recorded.

What the server says is published by `published_response`, as any streaming response is. Prints {run_id: {request,
stream, complete}}, for a client to read. The publisher's broker does not answer: what it publishes is in its spool.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from pydantic_ai import Agent, ModelRetry
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.ui.ag_ui import AGUIAdapter
from scripted import BAD_ENDS, CASES, QUESTION, Answer
from scripted import weather as tell
from scripted_wires import PIECES
from starlette.requests import Request

from turnmill import Publisher, published_response

Fields = dict[str, Any]


def agent(answers: Sequence[Answer]) -> Agent:
    script = iter(answers)

    async def model(_: list[ModelMessage], __: AgentInfo) -> AsyncIterator[Any]:
        answer = next(script)
        if answer.refused:
            raise ValueError("The scripted model refuses.")
        pieces: list[Any] = [{0: DeltaThinkingPart(content=piece)} for piece in PIECES.findall(answer.thought)]
        pieces += PIECES.findall(answer.text)
        for number, call in enumerate(answer.calls, 1):
            pieces.append({number: DeltaToolCall(name=call.name, json_args="", tool_call_id=call.id)})
            pieces += [{number: DeltaToolCall(json_args=piece)} for piece in PIECES.findall(call.text)]
        for piece in pieces[: -2 if answer.broken else None]:
            yield piece
        if answer.broken:
            raise ConnectionError("The scripted model is gone.")

    made = Agent(FunctionModel(stream_function=model, model_name="scripted-1"), name="weather")

    @made.tool_plain
    def weather(city: str, days: int) -> str:
        """Tell the weather."""
        try:
            return tell(city, days)
        except ValueError as error:
            raise ModelRetry(str(error)) from error

    return made


def request(body: Fields) -> Request:
    """What a client posts."""
    headers = [(b"content-type", b"application/json"), (b"accept", b"text/event-stream")]
    scope = {"type": "http", "method": "POST", "path": "/agent", "query_string": b"", "headers": headers}

    async def receive() -> Fields:
        return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

    return Request(scope, receive)


async def main() -> Fields:
    found = {}
    asked = [{"id": "question", "role": "user", "content": QUESTION}]
    async with Publisher() as publisher:
        for case, answers in CASES.items():
            if any(answer.short for answer in answers):
                continue  # this model can't say so
            given = {"threadId": case, "runId": case, "messages": asked}
            body = {**given, "state": {}, "tools": [], "context": [], "forwardedProps": {}}
            response = await AGUIAdapter.dispatch_request(request(body), agent=agent(answers))
            published = published_response(
                publisher,
                response,
                thread_id=case,
                run_id=case,
                agent_id="weather",
                dialect="ag-ui",
                info={"request": body},
            )
            chunks = [chunk async for chunk in published.body_iterator]
            stream = "".join(chunk if isinstance(chunk, str) else chunk.decode() for chunk in chunks)
            found[case] = {"request": body, "stream": stream, "complete": case not in BAD_ENDS}
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main())))  # noqa: T201  # its result
