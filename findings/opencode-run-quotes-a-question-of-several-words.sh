#!/bin/sh
# opencode-ai 1.18.33: `opencode run` puts quotation marks around each argument that has a space, sends the question to
# the model with them, and stores it with them. It sends a question of a single word, and one whose words are separate
# arguments, as they were typed. Programs that pass a whole question as a single argument meet this.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund opencode-ai@1.18.33
cat >provider.py <<'PROGRAM'
import json
import os
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

asked = []


class Provider(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked.append(body)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for delta, reason in (({"role": "assistant", "content": "Yes."}, None), ({}, "stop")):
            choice = {"index": 0, "delta": delta, "finish_reason": reason}
            chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
Thread(target=server.serve_forever, daemon=True).start()
options = {"baseURL": f"http://127.0.0.1:{server.server_port}/v1", "apiKey": "none"}
provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {"m": {"name": "M"}}}
config = {"model": "x/m", "small_model": "x/m", "provider": {"x": provider}, "autoupdate": False}
environment = {
    **os.environ, "HOME": os.getcwd(), "OPENCODE_CONFIG_CONTENT": json.dumps(config),
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1",
}


def questions(*words):
    asked.clear()
    command = ["node_modules/.bin/opencode", "run", *words]
    subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=True)
    said = [message["content"] for body in asked for message in body["messages"] if message["role"] == "user"]
    texts = [part["text"] for one in said for part in (one if isinstance(one, list) else [{"text": one}])]
    return [text for text in texts if "weather" in text]


for words in (["weather?"], ["the weather?"], ["the", "weather?"]):
    print(words, "->", sorted(set(questions(*words))))
assert set(questions("weather?")) == {"weather?"}
assert '"the weather?"' in questions("the weather?")
assert "the weather?" in questions("the", "weather?")
PROGRAM
python3 provider.py
