"""Writes tests/corpus/model_runs: streams of a scripted server, and what SDKs made of them.

It runs inside an environment with cohere 7.3.1, google-genai 3.6.1, mistralai 3.7.0 and ollama 0.6.3:
`python tests/sdks/model_corpus.py FOLDER`. A file holds a run as it is published: each call's body, as the SDK sent
it, before the bytes that it was answered with. Beside it is what the SDK made of them, call by call.
"""

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import cohere
import ollama
from google import genai
from google.genai.types import HttpOptions, HttpRetryOptions
from mistralai.client import Mistral

Fields = dict[str, Any]
KINDS: Final = {"gemini-interactions": "event_type"}  # the key of an event type, where it is another one
QUESTION: Final = "When is high tide?"
PORTS: Final = ("Brest", "Calais")
CUT: Final = object()  # in a script: the connection breaks here


@dataclass
class Said:
    """What an SDK has made of one call."""

    text: str = ""
    thinking: str = ""
    calls: list[Fields] = field(default_factory=list)
    finish: str | None = None
    tokens: list[int | None] = field(default_factory=lambda: [None, None])
    error: str | None = None


class Server(ThreadingHTTPServer):
    """Answers each call with the next script: events, as the wire frames them. Keeps the bodies."""

    def __init__(self, scripts: list[list[Any]], frame: Callable[[Fields], bytes], kind: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.scripts, self.frame, self.kind, self.bodies, self.sent = scripts, frame, kind, [], []
        Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        script = self.server.scripts[len(self.server.bodies)]
        self.server.bodies.append(body)
        self.server.sent.append([event for event in script if event is not CUT])
        self.send_response(200)
        self.send_header("Content-Type", self.server.kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in script:
            if event is CUT:
                self.wfile.flush()
                self.connection.shutdown(2)
                self.close_connection = True
                return
            piece = self.server.frame(event)
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def sse(name: str | None) -> Callable[[Fields], bytes]:
    def frame(event: Fields) -> bytes:
        named = f"event: {event[name]}\n" if name else ""
        return f"{named}data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()

    return frame


def line(event: Fields) -> bytes:
    return json.dumps(event, ensure_ascii=False).encode() + b"\n"


# ---- Ollama


def of_ollama(
    *messages: Fields, done: str | None = "stop", tokens: tuple[int | None, int] = (21, 9), **rest: Any
) -> list[Any]:
    head = {"model": "own:1b", "created_at": "2026-11-01T00:00:00.000000001Z"}
    events: list[Any] = [
        {**head, "message": {"role": "assistant", "content": "", **m}, "done": False} for m in messages
    ]
    counts = {"eval_count": tokens[1], "eval_duration": 4}
    if tokens[0] is not None:
        counts["prompt_eval_count"] = tokens[0]
    end = {**head, "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": done, **counts, **rest}
    return [*events, end] if done else events


def asked_of_ollama(*ports: str) -> Fields:
    return {"tool_calls": [{"function": {"name": "tide", "arguments": {"port": port}}} for port in ports]}


def read_ollama(url: str, rounds: int) -> list[Said]:
    client, messages, found = ollama.Client(host=url), [{"role": "user", "content": QUESTION}], []
    for _ in range(rounds):
        said = Said()
        found.append(said)
        try:
            for chunk in client.chat(model="own:1b", messages=messages, stream=True, options={"seed": 1}):
                message = chunk.message
                said.text += message.content or ""
                said.thinking += message.thinking or ""
                said.calls += [
                    {"name": c.function.name, "args": dict(c.function.arguments)} for c in message.tool_calls or ()
                ]
                if chunk.done:
                    said.finish, said.tokens = chunk.done_reason, [chunk.prompt_eval_count, chunk.eval_count]
        except Exception as error:
            said.error = type(error).__name__
            continue
        made = {"role": "assistant", "content": said.text, "thinking": said.thinking or None}
        calls = [{"function": {"name": c["name"], "arguments": c["args"]}} for c in said.calls]
        messages.append({**made, **({"tool_calls": calls} if calls else {})})
        messages += [
            {"role": "tool", "tool_name": c["name"], "content": f"high at {c['args'].get('port')}"} for c in said.calls
        ]
        if not said.calls:
            messages.append({"role": "user", "content": "And then?"})
    return found


# ---- Cohere


def of_cohere(
    *pieces: Fields,
    finish: str | None = "COMPLETE",
    tokens: tuple[float, float] = (521, 11),
    cached: int = 0,
    **rest: Any,
) -> list[Any]:
    events: list[Any] = [
        {
            "id": "c-1",
            "type": "message-start",
            "delta": {
                "message": {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
            },
        }
    ]
    index = calls = 0
    for piece in pieces:
        if "plan" in piece:
            events += [{"type": "tool-plan-delta", "delta": {"message": {"tool_plan": text}}} for text in piece["plan"]]
        elif "call" in piece:
            function = {"name": "tide", "arguments": ""}
            events.append(
                {
                    "type": "tool-call-start",
                    "index": calls,
                    "delta": {
                        "message": {"tool_calls": {"id": piece["call"], "type": "function", "function": function}}
                    },
                }
            )
            events += [
                {
                    "type": "tool-call-delta",
                    "index": calls,
                    "delta": {"message": {"tool_calls": {"function": {"arguments": text}}}},
                }
                for text in piece["args"]
            ]
            events.append({"type": "tool-call-end", "index": calls})
            calls += 1
        else:
            ((kind, texts),) = piece.items()
            events.append(
                {"type": "content-start", "index": index, "delta": {"message": {"content": {"type": kind, kind: ""}}}}
            )
            events += [
                {"type": "content-delta", "index": index, "delta": {"message": {"content": {kind: text}}}}
                for text in texts
            ]
            events.append({"type": "content-end", "index": index})
            index += 1
    if finish is None:
        return events
    billed = {"input_tokens": 21.0, "output_tokens": float(tokens[1])}
    usage = {
        "billed_units": billed,
        "tokens": {"input_tokens": tokens[0], "output_tokens": tokens[1]},
        "cached_tokens": cached,
    }
    return [*events, {"type": "message-end", "delta": {"finish_reason": finish, "usage": usage, **rest}}]


def read_cohere(url: str, rounds: int) -> list[Said]:
    client = cohere.ClientV2(api_key="own", base_url=url)
    messages: list[Any] = [{"role": "system", "content": "Be short."}, {"role": "user", "content": QUESTION}]
    found = []
    for _ in range(rounds):
        said, plan, ids = Said(), "", []
        found.append(said)
        try:
            for event in (
                client.v2.chat_stream(model="command-own", messages=messages)
                if hasattr(client, "v2")
                else client.chat_stream(model="command-own", messages=messages)
            ):
                match event.type:
                    case "content-delta":
                        content = event.delta.message.content
                        said.text += getattr(content, "text", None) or ""
                        said.thinking += getattr(content, "thinking", None) or ""
                    case "tool-plan-delta":
                        plan += event.delta.message.tool_plan
                    case "tool-call-start":
                        call = event.delta.message.tool_calls
                        ids.append(call.id)
                        said.calls.append({"name": call.function.name, "args": call.function.arguments or ""})
                    case "tool-call-delta":
                        said.calls[event.index]["args"] += event.delta.message.tool_calls.function.arguments
                    case "message-end":
                        said.finish = event.delta.finish_reason
                        tokens = event.delta.usage.tokens
                        said.tokens = [int(tokens.input_tokens), int(tokens.output_tokens)]
                        said.error = getattr(event.delta, "error", None)
        except Exception as error:
            said.error = type(error).__name__
        if said.error:
            continue
        named = list(zip(ids, said.calls, strict=True))
        for call in said.calls:
            call["args"] = json.loads(call["args"] or "{}")
        if plan:
            said.thinking = plan + said.thinking
        calls = [
            {"id": id_, "type": "function", "function": {"name": c["name"], "arguments": json.dumps(c["args"])}}
            for id_, c in named
        ]
        if calls:
            messages.append({"role": "assistant", "tool_plan": plan, "tool_calls": calls})
            messages += [
                {
                    "role": "tool",
                    "tool_call_id": id_,
                    "content": [{"type": "document", "document": {"data": f"high at {c['args'].get('port')}"}}],
                }
                for id_, c in named
            ]
        else:
            messages += [{"role": "assistant", "content": said.text}, {"role": "user", "content": "And then?"}]
    return found


# ---- Mistral's conversations


def of_mistral(*pieces: Fields, tokens: tuple[int, int] | None = (21, 9), **rest: Any) -> list[Any]:
    at = {"created_at": "2026-11-01T00:00:00Z"}
    events: list[Any] = [{"type": "conversation.response.started", **at, "conversation_id": "conv_own1"}]
    for output, piece in enumerate(pieces):
        place = {**at, "output_index": output, "model": "own-medium", "agent_id": None}
        if "call" in piece:
            named = {"id": f"fc_{output}", "name": "tide", "tool_call_id": piece["call"]}
            events += [{"type": "function.call.delta", **place, **named, "arguments": text} for text in piece["args"]]
        elif "event" in piece:
            events.append({**piece["event"], **at})
        else:
            for index, content in enumerate(piece["say"]):
                number = 0 if isinstance(content, str) else index
                events.append(
                    {
                        "type": "message.output.delta",
                        **place,
                        "id": f"msg_{output}",
                        "content_index": number,
                        "role": "assistant",
                        "content": content,
                    }
                )
    if tokens is None:
        return events
    usage = {
        "prompt_tokens": tokens[0],
        "completion_tokens": tokens[1],
        "total_tokens": sum(tokens),
        "connector_tokens": None,
        "connectors": None,
    }
    return [*events, {"type": "conversation.response.done", **at, "usage": {**usage, **rest}}]


def read_mistral(url: str, rounds: int) -> list[Said]:
    client, inputs, found = Mistral(api_key="own", server_url=url), QUESTION, []
    conversation = None
    for _ in range(rounds):
        said, calls = Said(), {}
        found.append(said)
        try:
            if conversation is None:
                stream = client.beta.conversations.start_stream(
                    inputs=inputs, model="own-medium", instructions="Be short."
                )
            else:
                stream = client.beta.conversations.append_stream(conversation_id=conversation, inputs=inputs)
            with stream as events:
                for event in events:
                    data = event.data
                    match event.event:
                        case "conversation.response.started":
                            conversation = data.conversation_id
                        case "message.output.delta":
                            content = data.content
                            if isinstance(content, str):
                                said.text += content
                            elif getattr(content, "type", "") == "text":
                                said.text += content.text
                            elif getattr(content, "type", "") == "thinking":
                                said.thinking += "".join(
                                    each.text for each in content.thinking if getattr(each, "type", "") == "text"
                                )
                        case "function.call.delta":
                            calls.setdefault(data.tool_call_id, [data.name, ""])[1] += data.arguments
                        case "conversation.response.done":
                            said.finish = "tool" if calls else "done"
                            said.tokens = [data.usage.prompt_tokens, data.usage.completion_tokens]
                        case "conversation.response.error":
                            said.error = data.message
        except Exception as error:
            said.error = type(error).__name__
        said.calls = (
            [{"name": name, "args": json.loads(text)} for name, text in calls.values()] if not said.error else []
        )
        if calls and not said.error:
            inputs = [{"type": "function.result", "tool_call_id": id_, "result": "high"} for id_ in calls]
        else:
            inputs = "And then?"
    return found


# ---- Gemini Interactions


def of_gemini(
    *steps: Fields, status: str | None = "completed", usage: Fields | None = None, after: Iterable[Fields] = ()
) -> list[Any]:
    head = {
        "id": "int_own1",
        "object": "interaction",
        "model": "own-gem",
        "role": "model",
        "created": "2026-11-01T00:00:00Z",
        "updated": "2026-11-01T00:00:00Z",
    }
    events: list[Any] = [{"event_type": "interaction.created", "interaction": {**head, "status": "in_progress"}}]
    for index, step in enumerate(steps):
        place = {"index": index}
        kind = {key: value for key, value in step.items() if key != "deltas"}
        events.append({"event_type": "step.start", **place, "step": kind})
        events += [{"event_type": "step.delta", **place, "delta": each} for each in step["deltas"]]
        events.append({"event_type": "step.stop", **place})
    if status:
        counts = {
            "total_input_tokens": 21,
            "total_output_tokens": 9,
            "total_thought_tokens": 0,
            "total_cached_tokens": 0,
            "total_tool_use_tokens": 0,
            "total_tokens": 30,
        }
        events.append(
            {
                "event_type": "interaction.completed",
                "interaction": {**head, "status": status, "usage": {**counts, **(usage or {})}},
            }
        )
    return [{**event, "event_id": f"ev{number}"} for number, event in enumerate([*events, *after])]


def says(*texts: str) -> Fields:
    return {"type": "model_output", "deltas": [{"type": "text", "text": text} for text in texts]}


def thinks(*texts: str, signature: str | None = "c2ln") -> Fields:
    deltas: list[Fields] = [{"type": "thought_summary", "content": {"type": "text", "text": text}} for text in texts]
    return {
        "type": "thought",
        "deltas": [*deltas, *([{"type": "thought_signature", "signature": signature}] if signature else [])],
    }


def asks(id_: str, *pieces: str) -> Fields:
    return {
        "type": "function_call",
        "id": id_,
        "name": "tide",
        "arguments": {},
        "deltas": [{"type": "arguments_delta", "arguments": piece} for piece in pieces],
    }


def read_gemini(url: str, rounds: int) -> list[Said]:
    client = genai.Client(
        api_key="own", http_options=HttpOptions(base_url=url, retry_options=HttpRetryOptions(attempts=1))
    )
    asked, found, before = QUESTION, [], None
    for _ in range(rounds):
        said, calls = Said(), {}
        found.append(said)
        more = {"previous_interaction_id": before} if before else {"system_instruction": "Be short."}
        try:
            for event in client.interactions.create(model="own-gem", input=asked, stream=True, **more):
                match event.event_type:
                    case "interaction.created":
                        before = event.interaction.id
                    case "step.start" if event.step.type == "function_call":
                        calls[event.index] = [event.step.id, event.step.name, ""]
                    case "step.delta":
                        match event.delta.type:
                            case "text":
                                said.text += event.delta.text
                            case "thought_summary":
                                said.thinking += event.delta.content.text
                            case "arguments_delta":
                                calls[event.index][2] += event.delta.arguments
                    case "interaction.completed":
                        said.finish = event.interaction.status
                        usage = event.interaction.usage
                        said.tokens = [
                            usage.total_input_tokens,
                            usage.total_output_tokens + (usage.total_thought_tokens or 0),
                        ]
                    case "interaction.status_update":
                        said.finish = event.status
                    case "error":
                        said.error = event.error.message
        except Exception as error:
            said.error = type(error).__name__
        calls = {} if said.error else calls
        said.calls = [{"name": name, "args": json.loads(text or "{}")} for _, name, text in calls.values()]
        results = [
            {"type": "function_result", "call_id": id_, "name": name, "result": "high"}
            for id_, name, _ in calls.values()
        ]
        asked = results or "And then?"
    return found


def port(name: str, *at: int) -> list[str]:
    """Arguments in pieces."""
    text = json.dumps({"port": name})
    return [text[a:b] for a, b in zip((0, *at), (*at, len(text)), strict=True)]


TEXT: Final = ("Two ", "hares, ", "one é fox.")
WIRES: Final[dict[str, tuple[Any, ...]]] = {
    "ollama": (
        read_ollama,
        line,
        "application/x-ndjson",
        {
            "two-rounds": [
                of_ollama({"content": "Both. "}, asked_of_ollama(*PORTS)),
                of_ollama({"content": "High."}, tokens=(60, 3)),
            ],
            "three-rounds": [
                of_ollama(asked_of_ollama("Brest")),
                of_ollama(asked_of_ollama("Calais"), tokens=(40, 8)),
                of_ollama({"content": "High."}),
            ],
            "thoughts-and-call": [
                of_ollama({"thinking": "Which "}, {"thinking": "port?"}, asked_of_ollama("Brest")),
                of_ollama({"thinking": "So."}, {"content": "High."}),
            ],
            "conversation": [
                of_ollama(*({"content": text} for text in TEXT)),
                of_ollama({"content": "Low."}, tokens=(33, 2)),
            ],
            "length": [of_ollama({"content": "Two "}, done="length", tokens=(21, 2))],
            "error-then-again": [
                [*of_ollama({"content": "Two "}, done=None), {"error": "model runner has stopped"}],
                of_ollama({"content": "Two."}),
            ],
            "cut-then-again": [[*of_ollama({"content": "Two "}, done=None), CUT], of_ollama({"content": "Two."})],
            "cut-in-call": [[*of_ollama(asked_of_ollama("Brest"), done=None), CUT]],
            "no-end": [of_ollama({"content": "Two "}, done=None)],
            "empty": [of_ollama()],
            "cached": [of_ollama({"content": "Two."}, tokens=(None, 1))],
        },
    ),
    "cohere": (
        read_cohere,
        sse("type"),
        "text/event-stream",
        {
            "two-rounds": [
                of_cohere(
                    {"plan": ["I will ", "look."]},
                    {"call": "t1", "args": port("Brest", 4)},
                    {"call": "t2", "args": port("Calais")},
                    finish="TOOL_CALL",
                ),
                of_cohere({"text": ["High."]}, tokens=(600, 4), cached=400),
            ],
            "call-in-pieces": [
                of_cohere({"call": "t1", "args": port("Brest", 1, 2, 9)}, finish="TOOL_CALL"),
                of_cohere({"text": ["High."]}),
            ],
            "thoughts-and-call": [
                of_cohere({"thinking": ["Which ", "port?"]}, {"call": "t1", "args": port("Brest")}, finish="TOOL_CALL"),
                of_cohere({"thinking": ["So."]}, {"text": ["High."]}),
            ],
            "conversation": [of_cohere({"text": list(TEXT)}), of_cohere({"text": ["Low."]}, tokens=(530, 2))],
            "two-texts": [of_cohere({"text": ["One. "]}, {"text": ["Two."]})],
            "length": [of_cohere({"text": ["Two "]}, finish="MAX_TOKENS")],
            "stop-sequence": [of_cohere({"text": ["Two "]}, finish="STOP_SEQUENCE")],
            "error-then-again": [
                of_cohere({"text": ["Two "]}, finish="ERROR", error="overloaded"),
                of_cohere({"text": ["Two."]}),
            ],
            "cut-then-again": [[*of_cohere({"text": ["Two "]}, finish=None)[:-1], CUT], of_cohere({"text": ["Two."]})],
            "cut-in-call": [[*of_cohere({"call": "t1", "args": port("Brest")}, finish=None)[:-1], CUT]],
            "no-end": [of_cohere({"text": ["Two "]}, finish=None)],
            "no-arguments": [of_cohere({"call": "t1", "args": []}, finish="TOOL_CALL"), of_cohere({"text": ["High."]})],
        },
    ),
    "mistral": (
        read_mistral,
        sse("type"),
        "text/event-stream",
        {
            "two-rounds": [
                of_mistral(
                    {"say": ["Both. "]},
                    {"call": "tcA", "args": port("Brest", 4)},
                    {"call": "tcB", "args": port("Calais")},
                ),
                of_mistral({"say": ["High."]}, tokens=(60, 3)),
            ],
            "three-rounds": [
                of_mistral({"call": "tcA", "args": port("Brest")}),
                of_mistral({"call": "tcB", "args": port("Calais")}),
                of_mistral({"say": ["High."]}),
            ],
            "thoughts": [
                of_mistral(
                    {
                        "say": [
                            {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
                            {"type": "text", "text": "High."},
                        ]
                    }
                )
            ],
            "conversation": [of_mistral({"say": list(TEXT)}), of_mistral({"say": ["Low."]})],
            "two-messages": [of_mistral({"say": ["One. "]}, {"say": ["Two."]})],
            "error-then-again": [
                [
                    *of_mistral({"say": ["Two "]}, tokens=None),
                    {
                        "type": "conversation.response.error",
                        "created_at": "2026-11-01T00:00:00Z",
                        "message": "overloaded",
                        "code": 3505,
                    },
                ],
                of_mistral({"say": ["Two."]}),
            ],
            "cut-in-text": [[*of_mistral({"say": ["Two "]}, tokens=None), CUT]],
            "cut-in-call": [[*of_mistral({"call": "tcA", "args": port("Brest", 4)}, tokens=None)[:-1], CUT]],
            "no-end": [of_mistral({"say": ["Two "]}, tokens=None)],
        },
    ),
    "gemini-interactions": (
        read_gemini,
        sse("event_type"),
        "text/event-stream",
        {
            "two-rounds": [
                of_gemini(
                    says("Both."), asks("fa", *port("Brest", 4)), asks("fb", *port("Calais")), status="requires_action"
                ),
                of_gemini(says("High.")),
            ],
            "three-rounds": [
                of_gemini(asks("fa", *port("Brest")), status="requires_action"),
                of_gemini(asks("fb", *port("Calais")), status="requires_action"),
                of_gemini(says("High.")),
            ],
            "thoughts-and-call": [
                of_gemini(
                    thinks("Which ", "port?"),
                    asks("fa", *port("Brest")),
                    status="requires_action",
                    usage={"total_thought_tokens": 7},
                ),
                of_gemini(thinks("So."), says("High.")),
            ],
            "sealed-thought": [of_gemini(thinks(), says("High."))],
            "conversation": [of_gemini(says(*TEXT), usage={"total_cached_tokens": 16}), of_gemini(says("Low."))],
            "two-outputs": [of_gemini(says("One. "), says("Two."))],
            "incomplete": [of_gemini(says("Two "), status="incomplete")],
            "failed": [of_gemini(says("Two "), status="failed")],
            "error": [
                of_gemini(
                    says("Two "),
                    status=None,
                    after=[{"event_type": "error", "error": {"code": "503", "message": "overloaded"}}],
                )
            ],
            "cut-in-text": [[*of_gemini(says("Two "), status=None)[:-1], CUT]],
            "cut-in-call": [[*of_gemini(asks("fa", *port("Brest", 4)), status=None)[:-2], CUT]],
            "no-end": [of_gemini(says("Two "), status=None)],
        },
    ),
}


def main(folder: Path) -> None:
    for wire, (read, frame, kind, cases) in WIRES.items():
        (folder / wire).mkdir(parents=True, exist_ok=True)
        for name, scripts in cases.items():
            server = Server(scripts, frame, kind)
            said = read(server.url, len(scripts))
            server.shutdown()
            run: list[Fields] = []
            for body, events in zip(server.bodies, server.sent, strict=True):
                run += [{KINDS.get(wire, "type"): "turnmill.request", "request": body}, *events]
            path = folder / wire / f"{name}.jsonl"
            path.write_bytes(b"".join(map(line, run)))
            expected = {"calls": [vars(each) for each in said]}
            path.with_suffix(".expect.json").write_text(json.dumps(expected, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
