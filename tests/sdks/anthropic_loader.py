"""Runs inside an environment with anthropic: its types check exported histories, and its client goes on with them.

python anthropic_loader.py FILE: {name: [message]} -> prints {name: null | what went wrong}
"""

import json
import sys
import typing
from pathlib import Path

# Types of requests say Iterable, which pydantic checks item by item as somebody reads: that nobody would do here.
typing.Iterable = list

from anthropic import Anthropic  # noqa: E402
from anthropic.types.beta import BetaMessageParam  # noqa: E402
from provider import goes_on, provider  # noqa: E402
from pydantic import TypeAdapter  # noqa: E402

MESSAGES = TypeAdapter(list[BetaMessageParam])


def problem(client: Anthropic, messages: list[dict]) -> str | None:
    try:
        MESSAGES.validate_python(messages)
        said = client.messages.create(model="m", max_tokens=9, messages=going_on(messages)).content[0].text
    except Exception as error:  # any refusal is the finding
        return f"{type(error).__name__}: {error}"
    return None if said == "Going on." else f"went on with {said!r}"


def going_on(messages: list[dict]) -> list[dict]:
    """With what the user says next, behind the results of open calls; and first, where a run has no request."""
    begun = messages if messages and messages[0]["role"] == "user" else [{"role": "user", "content": "Go."}, *messages]
    if begun[-1]["role"] == "user":
        return begun
    last = begun[-1]["content"]
    calls = [block["id"] for block in last if block["type"] == "tool_use"]
    done = [{"type": "tool_result", "tool_use_id": call_id, "content": "done"} for call_id in calls]
    return [*begun, {"role": "user", "content": [*done, {"type": "text", "text": "And now?"}]}]


with provider(goes_on) as url, Anthropic(api_key="none", base_url=url, max_retries=0) as client:
    histories = json.loads(Path(sys.argv[1]).read_text())
    print(json.dumps({name: problem(client, messages) for name, messages in histories.items()}))  # noqa: T201
