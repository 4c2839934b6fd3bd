"""What others ask of the lines of data sets."""

from typing import Any


def check_openai(line: dict[str, Any]) -> None:
    """OpenAI's documented rules for a line of a file for supervised fine-tuning of chat models."""
    messages = line["messages"]
    assert messages
    assert messages[-1]["role"] == "assistant"
    names = {tool["function"]["name"] for tool in line["tools"]}
    waiting: list[str] = []
    for message in messages:
        assert message["role"] in ("system", "user", "assistant", "tool")
        assert message.keys() <= {"role", "content", "name", "tool_calls", "tool_call_id", "refusal"}
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
            continue
        assert not waiting, "each call has its result before anything else is said"
        if message["role"] == "assistant":
            assert message.get("content") or message.get("tool_calls")
            for call in message.get("tool_calls", ()):
                assert isinstance(call["function"]["arguments"], str)
                assert not names or call["function"]["name"] in names
                waiting.append(call["id"])
        else:
            assert message["content"]
