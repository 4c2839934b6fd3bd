"""Runs inside an environment with SDKs of models' APIs: one asks, calls its tools, and sends what they gave.

    python wires_program.py SDK WAY ADDRESS

WAY is `stream` or `whole`. Prints what the SDK said, as the program reads it: texts and calls of both answers.
"""

import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

QUESTION = "What's the weather in Paris and Rome?"
MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}

Said = tuple[str, list[Any]]  # the text of an answer, and its calls: id or name, and arguments


def weather(city: str) -> str:
    return f"It rains in {city}."


def bedrock_client(address: str) -> Any:
    import boto3  # each SDK alone

    return boto3.client("bedrock-runtime", region_name="eu-central-1", endpoint_url=address)


def converse(address: str, *, stream: bool) -> list[Said]:
    client, messages, said = bedrock_client(address), [{"role": "user", "content": [{"text": QUESTION}]}], []
    tools = {"tools": [{"toolSpec": {"name": "weather", "inputSchema": {"json": SCHEMA}}}]}
    for _ in range(2):
        asked = {"modelId": MODEL, "messages": messages, "toolConfig": tools, "system": [{"text": "Be brief."}]}
        if stream:
            content = streamed_blocks(client.converse_stream(**asked)["stream"])
        else:
            content = client.converse(**asked)["output"]["message"]["content"]
        calls = [block["toolUse"] for block in content if "toolUse" in block]
        said.append(
            (
                "".join(block.get("text", "") for block in content),
                [[call["toolUseId"], call["input"]] for call in calls],
            )
        )
        results = [
            {"toolResult": {"toolUseId": call["toolUseId"], "content": [{"text": weather(call["input"]["city"])}]}}
            for call in calls
        ]
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
    return said


def streamed_blocks(events: Iterable[Any]) -> list[Any]:
    blocks: dict[int, Any] = {}
    for event in events:
        match event:
            case {"contentBlockStart": {"contentBlockIndex": index, "start": {"toolUse": call}}}:
                blocks[index] = {"toolUse": {**call, "input": ""}}
            case {"contentBlockDelta": {"contentBlockIndex": index, "delta": {"toolUse": {"input": text}}}}:
                blocks[index]["toolUse"]["input"] += text
            case {"contentBlockDelta": {"contentBlockIndex": index, "delta": {"text": text}}}:
                blocks.setdefault(index, {"text": ""})["text"] += text
    for block in blocks.values():
        if "toolUse" in block:
            block["toolUse"]["input"] = json.loads(block["toolUse"]["input"])
    return list(blocks.values())


def invoke(address: str, *, stream: bool) -> list[Said]:
    client, messages, said = bedrock_client(address), [{"role": "user", "content": QUESTION}], []
    tools = [{"name": "weather", "input_schema": SCHEMA}]
    for _ in range(2):
        body = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 99, "messages": messages, "tools": tools}
        if stream:
            answer = client.invoke_model_with_response_stream(modelId=MODEL, body=json.dumps(body))
            events = (json.loads(event["chunk"]["bytes"]) for event in answer["body"])
            content = anthropic_blocks(events)
        else:
            content = json.loads(client.invoke_model(modelId=MODEL, body=json.dumps(body))["body"].read())["content"]
        calls = [block for block in content if block["type"] == "tool_use"]
        said.append(
            ("".join(block.get("text", "") for block in content), [[call["id"], call["input"]] for call in calls])
        )
        results = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": weather(call["input"]["city"])}
            for call in calls
        ]
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
    return said


def anthropic_blocks(events: Iterable[Any]) -> list[Any]:
    blocks: list[Any] = []
    for event in events:
        match event:
            case {"type": "content_block_start", "content_block": block}:
                blocks.append({**block, **({"input": ""} if "input" in block else {})})
            case {"type": "content_block_delta", "delta": {"text": text}}:
                blocks[-1]["text"] += text
            case {"type": "content_block_delta", "delta": {"partial_json": text}}:
                blocks[-1]["input"] += text
    return [{**block, "input": json.loads(block["input"])} if "input" in block else block for block in blocks]


def ollama(address: str, *, stream: bool) -> list[Said]:
    from ollama import Client

    client, messages, said = Client(address), [{"role": "user", "content": QUESTION}], []
    tools = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
    for _ in range(2):
        if stream:
            parts = [part.message for part in client.chat("scripted-1", messages, tools=tools, stream=True)]
        else:
            parts = [client.chat("scripted-1", messages, tools=tools).message]
        text = "".join(part.content or "" for part in parts)
        calls = [call for part in parts for call in part.tool_calls or ()]
        said.append((text, [[call.function.name, dict(call.function.arguments)] for call in calls]))
        messages.append({"role": "assistant", "content": text, "tool_calls": calls})
        messages += [
            {"role": "tool", "tool_name": call.function.name, "content": weather(call.function.arguments["city"])}
            for call in calls
        ]
    return said


def cohere(address: str, *, stream: bool) -> list[Said]:
    from cohere import ClientV2

    client, messages, said = ClientV2("key", base_url=address), [{"role": "user", "content": QUESTION}], []
    tools = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
    for _ in range(2):
        asked = {"model": "command-a-03-2025", "messages": messages, "tools": tools}
        text, calls = "", []
        if stream:
            for event in client.chat_stream(**asked):
                if event.type == "content-delta":
                    text += event.delta.message.content.text or ""
                elif event.type == "tool-call-start":
                    calls.append([event.delta.message.tool_calls.id, ""])
                elif event.type == "tool-call-delta":
                    calls[-1][1] += event.delta.message.tool_calls.function.arguments
        else:
            message = client.chat(**asked).message
            text = "".join(block.text for block in message.content or () if block.type == "text")
            calls = [[call.id, call.function.arguments] for call in message.tool_calls or ()]
        said.append((text, [[call, json.loads(arguments)] for call, arguments in calls]))
        made = [
            {"id": call, "type": "function", "function": {"name": "weather", "arguments": arguments}}
            for call, arguments in calls
        ]
        messages.append({"role": "assistant", **({"content": text} if text else {}), "tool_calls": made})
        messages += [
            {"role": "tool", "tool_call_id": call, "content": weather(json.loads(arguments)["city"])}
            for call, arguments in calls
        ]
    return said


def mistral(address: str, *, stream: bool) -> list[Said]:
    from mistralai.client import Mistral

    sdk = Mistral("key", server_url=address)
    client = sdk.beta.conversations
    tools = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
    asked: dict[str, Any] = {"inputs": QUESTION, "model": "mistral-medium-2505", "tools": tools}
    said = []
    for number in range(2):
        text, calls = "", {}
        if stream:
            for event in (client.append_stream if number else client.start_stream)(**asked):
                match event.data.type:
                    case "conversation.response.started":
                        name = event.data.conversation_id
                    case "message.output.delta":
                        text += event.data.content
                    case "function.call.delta":
                        calls[event.data.tool_call_id] = calls.get(event.data.tool_call_id, "") + event.data.arguments
        else:
            answer = (client.append if number else client.start)(**asked)
            name = answer.conversation_id
            text = "".join(entry.content for entry in answer.outputs if entry.type == "message.output")
            calls = {entry.tool_call_id: entry.arguments for entry in answer.outputs if entry.type == "function.call"}
        said.append((text, [[call, json.loads(arguments)] for call, arguments in calls.items()]))
        results = [
            {"type": "function.result", "tool_call_id": call, "result": weather(json.loads(arguments)["city"])}
            for call, arguments in calls.items()
        ]
        asked = {"conversation_id": name, "inputs": results}
    return said


def interactions(address: str, *, stream: bool) -> list[Said]:
    from google import genai

    client = genai.Client(api_key="key", http_options={"base_url": address})
    tools = [{"type": "function", "name": "weather", "parameters": SCHEMA}]
    asked: dict[str, Any] = {"model": "gemini-2.5-flash", "input": QUESTION, "tools": tools}
    said = []
    for _ in range(2):
        text, calls = "", []
        if stream:
            for event in client.interactions.create(**asked, stream=True):
                match event.event_type:
                    case "interaction.created":
                        name = event.interaction.id
                    case "step.start" if event.step.type == "function_call":
                        calls.append([event.step.id, ""])
                    case "step.delta" if event.delta.type == "text":
                        text += event.delta.text
                    case "step.delta" if event.delta.type == "arguments_delta":
                        calls[-1][1] += event.delta.arguments
        else:
            answer = client.interactions.create(**asked)
            name = answer.id
            for step in answer.steps:
                if step.type == "function_call":
                    calls.append([step.id, json.dumps(step.arguments)])
                elif step.type == "model_output":
                    text += "".join(content.text for content in step.content)
        said.append((text, [[call, json.loads(arguments)] for call, arguments in calls]))
        results = [
            {
                "type": "function_result",
                "call_id": call,
                "name": "weather",
                "result": weather(json.loads(arguments)["city"]),
            }
            for call, arguments in calls
        ]
        asked = {**asked, "input": results, "previous_interaction_id": name}
    return said


SDKS: dict[str, Callable[..., list[Said]]] = {
    "converse": converse,
    "invoke": invoke,
    "ollama": ollama,
    "cohere": cohere,
    "mistral": mistral,
    "interactions": interactions,
}
sdk, way, address = sys.argv[1:]
print(json.dumps(SDKS[sdk](address, stream=way == "stream")))  # noqa: T201  # its result
