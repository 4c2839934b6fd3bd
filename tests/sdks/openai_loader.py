"""Runs inside an environment with openai: its types check exported histories, and its client goes on with them.

python openai_loader.py FILE openai-responses|openai-chat: {name: [item or message]} -> prints {name: null | what went
wrong}
"""

import json
import sys
import typing
from pathlib import Path

# Types of requests say Iterable, which pydantic checks item by item as somebody reads: that nobody would do here.
typing.Iterable = list

from openai import OpenAI  # noqa: E402
from openai.types.chat import ChatCompletionMessageParam  # noqa: E402
from openai.types.responses import ResponseInputItemParam  # noqa: E402
from provider import goes_on, provider  # noqa: E402
from pydantic import TypeAdapter  # noqa: E402

ITEMS = TypeAdapter(list[ResponseInputItemParam])
MESSAGES = TypeAdapter(list[ChatCompletionMessageParam])
AND_NOW = {"role": "user", "content": "And now?"}


def responses(client: OpenAI, items: list[dict]) -> str:
    """-> what the model says to this history; open calls are answered first."""
    ITEMS.validate_python(items, strict=True)
    answered = [item["call_id"] for item in items if str(item.get("type")).endswith("_output")]
    open_calls = [item for item in items if item.get("call_id") and item["call_id"] not in answered]
    done = [{"type": f"{call['type']}_output", "call_id": call["call_id"], "output": "done"} for call in open_calls]
    return client.responses.create(model="m", input=[*items, *done, AND_NOW]).output_text


def chat(client: OpenAI, messages: list[dict]) -> str:
    """-> what the model says to this history; open calls are answered first."""
    MESSAGES.validate_python(messages, strict=True)
    last = max((n for n, message in enumerate(messages) if message["role"] == "assistant"), default=-1)
    answered = [message.get("tool_call_id") for message in messages[last:]]
    calls = messages[last].get("tool_calls", []) if last >= 0 else []
    open_calls = [call["id"] for call in calls if call["id"] not in answered]
    done = [{"role": "tool", "tool_call_id": call_id, "content": "done"} for call_id in open_calls]
    answer = client.chat.completions.create(model="m", messages=[*messages, *done, AND_NOW])
    return answer.choices[0].message.content


def problem(client: OpenAI, messages: list[dict]) -> str | None:
    try:
        said = SPEAKERS[sys.argv[2]](client, messages)
    except Exception as error:  # any refusal is the finding
        return f"{type(error).__name__}: {error}"
    return None if said == "Going on." else f"went on with {said!r}"


SPEAKERS = {"openai-responses": responses, "openai-chat": chat}
with provider(goes_on) as url, OpenAI(api_key="none", base_url=url, max_retries=0) as client:
    histories = json.loads(Path(sys.argv[1]).read_text())
    print(json.dumps({name: problem(client, messages) for name, messages in histories.items()}))  # noqa: T201
