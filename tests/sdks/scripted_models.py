"""A server that answers as a model's provider by a script, for programs that run agents: Responses, Chat, Gemini.

An answer is a list of steps: ("think", text), ("say", texts), ("call", name, arguments), ("status", code),
("finish", word), "cut" (the connection breaks), "hang" (it stays silent until the program has gone).
"""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, Final

Fields = dict[str, Any]
Step = Any
INPUT, CACHED, OUTPUT, THOUGHT = 100, 64, 20, 5  # the tokens of each answer
# In requests beside the answers:
TITLES: Final = ("title generator", "Generate a title", "concise, sentence-case title")


class Server(ThreadingHTTPServer):
    """Answers each request with the next answer; `hung` is set when one hangs."""

    def __init__(self, answers: list[list[Step]]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.daemon_threads = True
        self.answers, self.bodies, self.hung = answers, list[Fields](), Event()
        Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}"

    def next_answer(self, body: Fields) -> list[Step]:
        if any(title in json.dumps(body) for title in TITLES) and not body.get("tools"):
            return [("say", ["Tides"])]
        self.bodies.append(body)
        return self.answers[min(len(self.bodies), len(self.answers)) - 1]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self._whole(200, {"object": "list", "data": [], "models": []})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if "countTokens" in self.path:
            self._whole(200, {"totalTokens": INPUT})
            return
        steps = self.server.next_answer(body)
        refused = next((step[1] for step in steps if step[0] == "status"), None)
        if refused is not None:
            self._whole(refused, {"error": {"code": refused, "message": "own refusal", "status": "UNAVAILABLE"}})
            return
        form = _responses if "/responses" in self.path else _gemini if ":" in self.path else _chat
        if ":generateContent" in self.path:
            self._whole(200, list(_gemini(steps, 1))[-1])
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in form(steps, len(self.server.bodies)):
            if event == "cut":
                self.wfile.flush()
                self.connection.shutdown(2)
                self.close_connection = True
                return
            if event == "hang":
                self.wfile.flush()
                self.server.hung.set()
                self.connection.settimeout(120)
                self.rfile.read(1)
                return
            kind = f"event: {event['type']}\n" if "type" in event else ""
            data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
            piece = f"{kind}data: {data}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def _whole(self, status: int, body: Fields) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _responses(steps: list[Step], number: int) -> Iterator[Any]:
    response = {"id": f"resp_{number}", "object": "response", "status": "in_progress", "output": [], "model": "own"}
    yield {"type": "response.created", "response": response}
    items = list[Fields]()
    for index, step in enumerate(steps):
        match step:
            case ("think", text):
                item: Fields = {"type": "reasoning", "id": f"rs_{number}_{index}", "encrypted_content": None}
                yield {"type": "response.output_item.added", "output_index": index, "item": {**item, "summary": []}}
                yield {
                    "type": "response.reasoning_summary_part.added",
                    "item_id": item["id"],
                    "output_index": index,
                    "summary_index": 0,
                    "part": {"type": "summary_text", "text": ""},
                }
                yield {
                    "type": "response.reasoning_summary_text.delta",
                    "item_id": item["id"],
                    "output_index": index,
                    "summary_index": 0,
                    "delta": text,
                }
                item |= {"summary": [{"type": "summary_text", "text": text}]}
            case ("say", texts):
                item = {"type": "message", "id": f"msg_{number}_{index}", "role": "assistant", "status": "in_progress"}
                yield {"type": "response.output_item.added", "output_index": index, "item": {**item, "content": []}}
                for text in texts:
                    yield {
                        "type": "response.output_text.delta",
                        "item_id": item["id"],
                        "output_index": index,
                        "content_index": 0,
                        "delta": text,
                    }
                if index + 1 < len(steps) and steps[index + 1] in ("cut", "hang"):
                    continue
                content = [{"type": "output_text", "text": "".join(texts), "annotations": []}]
                item |= {"status": "completed", "content": content}
            case ("call", name, arguments):
                item = {"type": "function_call", "id": f"fc_{number}_{index}", "call_id": f"call_{number}_{index}"}
                item |= {"name": name, "arguments": json.dumps(arguments), "status": "completed"}
            case ("custom", name, text):
                item = {"type": "custom_tool_call", "id": f"ct_{number}_{index}", "call_id": f"call_{number}_{index}"}
                item |= {"name": name, "input": text, "status": "completed"}
            case ("finish", _):
                continue
            case _:
                yield step
                return
        items.append(item)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    usage = {"input_tokens": INPUT, "output_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT}
    usage |= {"input_tokens_details": {"cached_tokens": CACHED}, "output_tokens_details": {"reasoning_tokens": THOUGHT}}
    reason = next((step[1] for step in steps if step[0] == "finish"), None)
    if reason is not None:
        response |= {"status": "incomplete", "incomplete_details": {"reason": reason}, "usage": usage}
        yield {"type": "response.incomplete", "response": response}
    else:
        yield {"type": "response.completed", "response": {**response, "status": "completed", "usage": usage}}


def _chat(steps: list[Step], number: int) -> Iterator[Any]:
    head = {"id": f"chat_{number}", "object": "chat.completion.chunk", "created": 1_793_836_800, "model": "own"}

    def chunk(delta: Fields, finish: str | None = None) -> Fields:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    called = 0
    for step in steps:
        match step:
            case ("think", text):
                yield chunk({"reasoning_content": text})
            case ("say", texts):
                yield from (chunk({"content": text}) for text in texts)
            case ("call", name, arguments):
                told = {"name": name, "arguments": json.dumps(arguments)}
                call = {"index": called, "id": f"call_{number}_{called}", "type": "function", "function": told}
                yield chunk({"tool_calls": [call]})
                called += 1
            case ("finish", _):
                continue
            case _:
                yield step
                return
    reason = next((step[1] for step in steps if step[0] == "finish"), "tool_calls" if called else "stop")
    yield chunk({}, reason)
    usage = {"prompt_tokens": INPUT, "completion_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT}
    usage |= {"prompt_tokens_details": {"cached_tokens": CACHED}}
    usage |= {"completion_tokens_details": {"reasoning_tokens": THOUGHT}}
    yield {**head, "choices": [], "usage": usage}
    yield "[DONE]"


def _gemini(steps: list[Step], number: int) -> Iterator[Any]:
    def chunk(parts: list[Fields], **rest: Any) -> Fields:
        candidate = {"content": {"role": "model", "parts": parts}, "index": 0, **rest}
        return {"candidates": [candidate], "modelVersion": "own", "responseId": f"r{number}"}

    for step in steps:
        match step:
            case ("think", text):
                yield chunk([{"text": text, "thought": True}])
            case ("say", texts):
                yield from (chunk([{"text": text}]) for text in texts)
            case ("call", name, arguments):
                yield chunk([{"functionCall": {"name": name, "args": arguments}}])
            case ("finish", _):
                continue
            case _:
                yield step
                return
    reason = next((step[1] for step in steps if step[0] == "finish"), "STOP")
    usage = {"promptTokenCount": INPUT, "candidatesTokenCount": OUTPUT - THOUGHT, "thoughtsTokenCount": THOUGHT}
    usage |= {"cachedContentTokenCount": CACHED, "totalTokenCount": INPUT + OUTPUT}
    yield {**chunk([{"text": ""}], finishReason=reason), "usageMetadata": usage}
