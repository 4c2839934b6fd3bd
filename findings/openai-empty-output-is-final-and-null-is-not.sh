#!/bin/sh
# openai 3.57: of a stream whose items were all told, `response.completed` with `output: []` leaves an empty answer, with
# `output: null` the answer that was streamed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check openai==3.57.0 httpx==0.28.1
"$folder/env/bin/python" - <<'PROGRAM'
import json

import httpx
import openai

ITEM = {"id": "msg_1", "type": "message", "role": "assistant"}
TEXT = {"type": "output_text", "text": "Sunny.", "annotations": []}
HEAD = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "tools": [], "tool_choice": "auto"}
HEAD["parallel_tool_calls"] = True
PLACE = {"output_index": 0, "content_index": 0, "item_id": "msg_1"}


def answered(output):
    begun = {**ITEM, "status": "in_progress", "content": []}
    done = {**ITEM, "status": "completed", "content": [TEXT]}
    events = [
        {"type": "response.created", "response": {**HEAD, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": begun},
        {"type": "response.content_part.added", **PLACE, "part": {**TEXT, "text": ""}},
        {"type": "response.output_text.delta", **PLACE, "delta": "Sunny.", "logprobs": []},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": {**HEAD, "status": "completed", "output": output}},
    ]
    numbered = [{**event, "sequence_number": number} for number, event in enumerate(events)]
    body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in numbered)
    headers = {"content-type": "text/event-stream"}
    transport = httpx.MockTransport(lambda request: httpx.Response(200, text=body, headers=headers))
    client = openai.OpenAI(api_key="k", max_retries=0, http_client=httpx.Client(transport=transport))
    with client.responses.stream(model="m", input="Bern?") as stream:
        return stream.get_final_response().output_text


print("openai", openai.__version__)
texts = {json.dumps(output): answered(output) for output in ([], None)}
print(texts)
assert texts == {"[]": "", "null": "Sunny."}
PROGRAM
