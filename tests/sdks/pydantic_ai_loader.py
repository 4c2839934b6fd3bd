"""Runs inside an environment with one release of pydantic-ai: loads exported messages, and goes on with them.

python pydantic_ai_loader.py FILE: {name: [message]} -> prints {name: null | what went wrong}
"""

import asyncio
import json
import sys
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel


def problem(messages: list[dict]) -> str | None:
    """What the SDK says against a history; a history with open calls is loaded only."""
    try:
        loaded = ModelMessagesTypeAdapter.validate_json(json.dumps(messages))
        if ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(loaded)) != loaded:
            return "another history after a round trip"
        calls = {part["tool_call_id"] for m in messages for part in m["parts"] if part["part_kind"] == "tool-call"}
        answered = {part.get("tool_call_id") for m in messages for part in m["parts"] if m["kind"] == "request"}
        if not calls <= answered:
            return None
        answer = asyncio.run(agent.run("And now?", message_history=loaded)).output
    except Exception as error:  # any refusal is the finding
        return f"{type(error).__name__}: {error}"
    return None if answer == "Going on." else f"went on with {answer!r}"


agent = Agent(FunctionModel(lambda messages, info: ModelResponse(parts=[TextPart("Going on.")])))
histories = json.loads(Path(sys.argv[1]).read_text())
print(json.dumps({name: problem(messages) for name, messages in histories.items()}))  # noqa: T201  # its result
