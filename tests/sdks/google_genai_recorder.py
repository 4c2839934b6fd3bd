"""Runs inside an environment with google-genai and this package: an agent's loop over Gemini's API, recorded."""

from typing import Any

from google.genai import Client, errors
from google.genai.types import Content, GenerateContentConfig, HttpOptions, HttpRetryOptions, Part
from recorder import QUESTION, Speaker, Task, main
from scripted import weather

Fields = dict[str, Any]
PROPERTIES = {"city": {"type": "STRING"}, "days": {"type": "INTEGER"}}
FUNCTION = {"name": "weather", "parameters": {"type": "OBJECT", "properties": PROPERTIES}}


async def streamed(task: Task) -> None:
    """The responses of `generate_content_stream`, as the SDK hands them out."""
    options = HttpOptions(base_url=task.url, retry_options=HttpRetryOptions(attempts=1))
    client = Client(api_key="none", http_options=options)
    config = GenerateContentConfig.model_validate(
        {"tools": [{"function_declarations": [FUNCTION]}], "automatic_function_calling": {"disable": True}}
    )
    contents = [Content(role="user", parts=[Part(text=QUESTION)])]
    while True:
        told = [content.model_dump(mode="json", by_alias=True, exclude_none=True) for content in contents]
        await task.run.send({"type": "turnmill.request", "request": {"contents": told}})
        found: list[Part] = []
        used: Any = None
        try:
            stream = await client.aio.models.generate_content_stream(model="m", contents=contents, config=config)
            async for said in task.run.tee(stream):
                used = said.usage_metadata or used
                for part in said.candidates[0].content.parts or ():
                    found.append(part)
                    if part.text and not part.thought:
                        task.made.piece(part.text)
        except errors.APIError as error:
            await task.run.send({"type": "turnmill.error", "status": error.code, "body": error.details})
            raise
        task.made.unfinished = []
        said_tokens = (used.candidates_token_count or 0) + (used.thoughts_token_count or 0)
        read_tokens = (used.prompt_token_count or 0) + (used.tool_use_prompt_token_count or 0)
        task.made.response(joined(found), read_tokens, said_tokens)
        calls = [part.function_call for part in found if part.function_call]
        if not calls:
            return
        results = [(call, result(call.args or {})) for call in calls]
        task.made.results(
            [["tool-return", call.id, value, "error" if "error" in value else "success"] for call, value in results]
        )
        answers = []
        for call, value in results:
            answer = Part.from_function_response(name=str(call.name), response=value)
            answer.function_response.id = call.id  # type: ignore[union-attr]  # it was just made of one
            answers.append(answer)
        contents = [*contents, Content(role="model", parts=found), Content(role="user", parts=answers)]


def result(arguments: Fields) -> Fields:
    try:
        return {"result": weather(**arguments)}
    except ValueError as error:
        return {"error": str(error)}


def joined(parts: list[Part]) -> list[list[Any]]:
    """In the neutral form; pieces of one text are one."""
    found: list[list[Any]] = []
    for part in parts:
        if part.function_call:
            found.append(["tool-call", part.function_call.name, part.function_call.id, part.function_call.args])
        elif part.text:
            kind = "thinking" if part.thought else "text"
            if found and found[-1][0] == kind:
                found[-1][1] += part.text
            else:
                found.append([kind, part.text])
    return found


main(Speaker("streamed", "gemini", streamed))
