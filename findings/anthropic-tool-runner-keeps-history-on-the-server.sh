#!/bin/sh
# anthropic 2.14: `tool_runner()` creates a thread at the provider by default. The next request names the message that
# it continues, and leaves out the history, the tools and the system prompt: whoever reads requests sees a piece.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check anthropic==2.14.0
"$folder/env/bin/python" - <<'PROGRAM'
import json

import anthropic
import httpx2

asked = []


def message(name, content, stop):
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = {"id": name, "type": "message", "role": "assistant", "model": "m", "stop_sequence": None, "usage": usage}
    return httpx2.Response(200, json={**head, "content": content, "stop_reason": stop})


def provider(request):
    asked.append(json.loads(request.content))
    if len(asked) == 1:
        call = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Bern"}}
        return message("msg_1", [call], "tool_use")
    return message("msg_2", [{"type": "text", "text": "Sunny."}], "end_turn")


@anthropic.beta_tool
def weather(city: str) -> str:
    """The weather of a city."""
    return "sunny"


client = anthropic.Anthropic(api_key="k", http_client=httpx2.Client(transport=httpx2.MockTransport(provider)))
said = [{"role": "user", "content": "Bern?"}]
for _ in client.beta.messages.tool_runner(model="m", max_tokens=9, system="Be brief.", tools=[weather], messages=said):
    pass
print("anthropic", anthropic.__version__)
for body in asked:
    print(sorted(body), body["thread"], len(body["messages"]), "message")
first, second = asked
assert first["thread"] == {"type": "create"}
assert second["thread"] == {"type": "continue", "previous_message_id": "msg_1"}
assert len(second["messages"]) == 1 and not second.keys() & {"tools", "system"}
PROGRAM
