#!/bin/sh
# langchain-openai 1.7.4: what a model says in `delta.refusal` of Chat Completions is in no chunk of a stream: the answer
# is empty, and ended well.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check langchain-openai==1.7.4 langchain-core==1.8.3
"$folder/env/bin/python" - <<'PROGRAM'
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version

from langchain_openai import ChatOpenAI

asked = []


def chunk(delta, reason=None):
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return json.dumps(
        {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    )


def answer(number):
    return [chunk({"role": "assistant", "refusal": "I can't "}), chunk({"refusal": "help."}), chunk({}, "stop"), "[DONE]"]


class Provider(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_POST(self):
        asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for data in answer(len(asked)):
            self.wfile.write(f"data: {data}\r\n\r\n".encode())


server = HTTPServer(("127.0.0.1", 0), Provider)
threading.Thread(target=server.serve_forever, daemon=True).start()
model = ChatOpenAI(model="m", api_key="k", base_url=f"http://127.0.0.1:{server.server_port}/v1")
got = None
for piece in model.stream("Hi"):
    got = piece if got is None else got + piece
print("langchain-openai", version("langchain-openai"))
print(repr(got.content), got.additional_kwargs, got.response_metadata.get("finish_reason"))
assert (got.content, got.additional_kwargs) == ("", {})
assert got.response_metadata["finish_reason"] == "stop"
PROGRAM
