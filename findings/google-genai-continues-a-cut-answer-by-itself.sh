#!/bin/sh
# google-genai 3.6: a stream that ends with a `continuationToken` and no finish reason is continued by a second request
# of the SDK. The program sees one stream; the second answer alone holds the end of the text, and its own tokens.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check google-genai==3.6.1
"$folder/env/bin/python" - <<'PROGRAM'
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from google import genai
from google.genai import types

asked = []


def answer(number):
    text, more = ("One, ", {"continuationToken": "dG9r"}) if number == 1 else ("two.", {"finishReason": "STOP"})
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}, **more}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5 * number}
    return [json.dumps({"candidates": [candidate], "usageMetadata": usage})]


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
client = genai.Client(
    api_key="k", http_options=types.HttpOptions(base_url=f"http://127.0.0.1:{server.server_port}")
)
text = "".join(piece.text or "" for piece in client.models.generate_content_stream(model="m", contents="Count."))
print("google-genai", genai.__version__)
print(repr(text), "of", len(asked), "requests; the second:", {**asked[1], "contents": "the same"})
assert (text, len(asked)) == ("One, two.", 2)
assert asked[1]["contents"] == asked[0]["contents"] and asked[1]["continuationToken"] == "dG9r"
PROGRAM
