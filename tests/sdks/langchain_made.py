"""For programs that run inside an environment with LangChain: its messages, as what the SDK made of a run."""

from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from recorder import Task


def note(task: Task, message: BaseMessage) -> None:
    if isinstance(message, ToolMessage):
        task.made.results([["tool-return", message.tool_call_id, message.content, message.status]])
    else:
        assert isinstance(message, AIMessage)
        calls = [["tool-call", call["name"], call["id"], call["args"]] for call in message.tool_calls]
        used = message.usage_metadata
        task.made.response([*texts(message), *calls], used["input_tokens"], used["output_tokens"])


def texts(message: AIMessage) -> list[list[Any]]:
    found = []
    for block in message.content_blocks:
        if block["type"] == "reasoning" and block.get("reasoning"):
            found.append(["thinking", block["reasoning"]])
        elif block["type"] == "text" and block["text"]:
            found.append(["text", block["text"]])
    return found
