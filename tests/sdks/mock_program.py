"""Runs inside an environment with the SDKs of providers: python mock_program.py SDK. Addresses come from variables.

The model asks for the weather of one city after the other; prints what it says in the end, as JSON.
"""

import json
import os
import sys
from typing import Any

import anthropic
import openai
from google import genai
from google.genai import types

QUESTION = "What's the weather?"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def weather(city: str) -> str:
    return f"It is sunny in {city}."


def responses() -> str:
    client = openai.OpenAI(max_retries=0)
    tools: Any = [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}]
    said: list[Any] = [{"role": "user", "content": QUESTION}]
    while True:
        asked = {"model": "gpt-5", "instructions": "Be brief.", "input": said, "tools": tools}
        with client.responses.stream(**asked) as stream:
            answer = stream.get_final_response()
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return answer.output_text
        for call in calls:
            said.append({"type": "function_call", **call.model_dump(include={"call_id", "name", "arguments"})})
            output = weather(**json.loads(call.arguments))
            said.append({"type": "function_call_output", "call_id": call.call_id, "output": output})


def kept() -> str:
    """The server keeps the history."""
    client = openai.OpenAI(max_retries=0)
    tools: Any = [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}]
    new: list[Any] = [{"role": "user", "content": QUESTION}]
    before = None
    while True:
        asked = {"model": "gpt-5", "input": new, "tools": tools, "previous_response_id": before}
        with client.responses.stream(**asked) as stream:
            answer = stream.get_final_response()
        before, calls = answer.id, [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return answer.output_text
        outputs = [(call.call_id, weather(**json.loads(call.arguments))) for call in calls]
        new = [{"type": "function_call_output", "call_id": name, "output": output} for name, output in outputs]


def chat() -> str:
    client = openai.OpenAI(max_retries=0)
    tools: Any = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
    said: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}]
    while True:
        with client.chat.completions.stream(model="gpt-5", messages=said, tools=tools) as stream:
            answer = stream.get_final_completion().choices[0].message
        if not answer.tool_calls:
            return answer.content or ""
        said.append({"role": "assistant", **answer.model_dump(exclude_none=True, include={"content", "tool_calls"})})
        for call in answer.tool_calls:
            output = weather(**json.loads(call.function.arguments))
            said.append({"role": "tool", "tool_call_id": call.id, "content": output})


def chat_whole() -> str:
    said: Any = [{"role": "user", "content": QUESTION}]
    answer = openai.OpenAI(max_retries=0).chat.completions.create(model="gpt-5", messages=said)
    return answer.choices[0].message.content or ""


def messages() -> str:
    client = anthropic.Anthropic(max_retries=0)
    tools: Any = [{"name": "weather", "input_schema": SCHEMA}]
    said: list[Any] = [{"role": "user", "content": QUESTION}]
    while True:
        asked: Any = {"model": "claude-x", "max_tokens": 100, "system": "Be brief.", "messages": said, "tools": tools}
        with client.messages.stream(**asked) as stream:
            answer = stream.get_final_message()
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            return answer.content[0].text
        said.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in answer.content]})
        results = [(call.id, weather(**call.input)) for call in calls]
        blocks = [{"type": "tool_result", "tool_use_id": name, "content": output} for name, output in results]
        said.append({"role": "user", "content": blocks})


def gemini(*, whole: bool = False) -> str:
    client = genai.Client(api_key=os.environ["GEMINI_API_KEY"])
    function = types.FunctionDeclaration(name="weather", parameters_json_schema=SCHEMA)
    config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=[function])])
    said: list[Any] = [types.Content(role="user", parts=[types.Part(text=QUESTION)])]
    while True:
        asked: Any = {"model": "gemini-x", "contents": said, "config": config}
        answers = [client.models.generate_content(**asked)] if whole else client.models.generate_content_stream(**asked)
        parts = [part for answer in answers for part in answer.candidates[0].content.parts or ()]
        calls = [part.function_call for part in parts if part.function_call]
        if not calls:
            return "".join(part.text or "" for part in parts)
        said.append(types.Content(role="model", parts=[part for part in parts if part.function_call or part.text]))
        said.append(
            types.Content(
                role="user",
                parts=[
                    types.Part.from_function_response(name=call.name, response={"result": weather(**call.args)})
                    for call in calls
                ],
            )
        )


def gemini_whole() -> str:
    return gemini(whole=True)


SDKS = {one.__name__: one for one in (responses, kept, chat, chat_whole, messages, gemini, gemini_whole)}

try:
    print(json.dumps({"text": SDKS[sys.argv[1]]()}))  # noqa: T201  # its result
except Exception as error:
    status = getattr(error, "status_code", getattr(error, "code", None))
    print(json.dumps({"problem": str(error), "status": status}))  # noqa: T201  # its result
