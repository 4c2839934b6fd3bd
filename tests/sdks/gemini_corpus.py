"""Writes tests/corpus/wires/gemini: streams of a scripted server, and what google-genai made of the same bytes.

It runs inside an environment with google-genai: `python tests/sdks/gemini_corpus.py FOLDER`. A file holds a run as it
is published: each call's body, as the SDK sent it, before the bytes that it was answered with.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

from google.genai import Client, errors
from google.genai.types import Content, FunctionCall, GenerateContentConfig, HttpOptions, HttpRetryOptions, Part

Fields = dict[str, Any]
PNG: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SIGNED: Final = "c2lnbmVkLWJ5LWdvb2dsZQ=="
QUESTION: Final = "What's the weather in Paris?"


@dataclass(frozen=True)
class Call:
    """What the server answers one call with. `cut`: the connection ends behind this many bytes."""

    said: list[Fields]
    status: int = 200
    cut: int | None = None


@dataclass(frozen=True)
class Case:
    """One run. `calls`: the last ones may be further messages of a chat. `args`: those that came in pieces."""

    calls: list[Call]
    streamed: bool = True
    prompts: list[Any] = field(default_factory=lambda: [QUESTION])
    complete: bool = True
    args: Fields | None = None
    as_array: bool = False
    ids: bool = True


def answer(*parts: Fields, finish: str | None = None, usage: Fields | None = None, **rest: Any) -> Fields:
    """One GenerateContentResponse."""
    candidate: Fields = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    candidate |= {key: rest.pop(key) for key in [*rest] if key in CANDIDATE}
    if finish is not None:
        candidate["finishReason"] = finish
    found: Fields = {"candidates": [candidate], **rest}
    if usage is not None:
        found["usageMetadata"] = usage
    return {**found, "modelVersion": "gemini-3-flash-preview", "responseId": "rQ1"}


CANDIDATE: Final = ("groundingMetadata", "citationMetadata", "safetyRatings", "finishMessage", "urlContextMetadata")


def text(said: str, **rest: Any) -> Fields:
    return {"text": said, **rest}


def thought(said: str, **rest: Any) -> Fields:
    return {"text": said, "thought": True, **rest}


def call(name: str, args: Fields, identity: str | None = None, **rest: Any) -> Fields:
    found: Fields = {"name": name, "args": args} | ({"id": identity} if identity else {})
    return {"functionCall": found, **rest}


def used(prompt: int, said: int, **more: int) -> Fields:
    return {
        "promptTokenCount": prompt,
        "candidatesTokenCount": said,
        **more,
        "totalTokenCount": prompt + said + more.get("thoughtsTokenCount", 0),
    }


SUNNY: Final = [answer(text("It is "), usage=used(9, 2)), answer(text("sunny."), finish="STOP", usage=used(9, 4))]
GROUNDED: Final = {
    "webSearchQueries": ["weather paris"],
    "groundingChunks": [{"web": {"uri": "https://weather.example/paris", "title": "Paris"}}],
}
UNSAFE: Final = [{"category": "HARM_CATEGORY_DANGEROUS_CONTENT", "probability": "HIGH", "blocked": True}]
BUSY: Final = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
QUOTA: Final = {"error": {"code": 429, "message": "Quota exceeded.", "status": "RESOURCE_EXHAUSTED", "details": []}}
CACHED: Final = {"cachedContentTokenCount": 60, "thoughtsTokenCount": 7, "toolUsePromptTokenCount": 11}
TWO: Final = {"index": 1, "content": {"parts": [{"text": "Rain."}], "role": "model"}, "finishReason": "STOP"}
CODE: Final = [
    answer({"executableCode": {"language": "PYTHON", "code": "print(6 * 7)"}}),
    answer({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42\n"}}),
    answer(text("It is 42."), finish="STOP", usage=used(12, 20)),
]
PIECES: Final[list[Fields]] = [
    {"name": "book", "id": "c9", "willContinue": True},
    {"partialArgs": [{"jsonPath": "$.city", "stringValue": "Pa", "willContinue": True}], "willContinue": True},
    {"partialArgs": [{"jsonPath": "$.city", "stringValue": "ris"}], "willContinue": True},
    {"partialArgs": [{"jsonPath": "$.stops[0].nights", "numberValue": 2}], "willContinue": True},
    {"partialArgs": [{"jsonPath": "$.stops[1].late", "boolValue": True}], "willContinue": True},
    {},
]
TOOL: Final = answer(call("weather", {"city": "Paris"}, "c1", thoughtSignature=SIGNED), finish="STOP", usage=used(9, 5))
PARALLEL: Final = [
    answer(thought("Both cities."), usage=used(9, 0, thoughtsTokenCount=3)),
    answer(call("weather", {"city": "Paris"}, "c1", thoughtSignature=SIGNED)),
    answer(call("weather", {"city": "Rome"}, "c2"), finish="STOP", usage=used(9, 8, thoughtsTokenCount=3)),
]
NAMELESS: Final = [
    answer(call("weather", {"city": "Paris"}), call("weather", {"city": "Rome"}), finish="STOP", usage=used(9, 8))
]

CASES: Final[dict[str, Case]] = {
    "text": Case([Call(SUNNY)]),
    "text_array": Case([Call(SUNNY)], as_array=True),
    "text_whole": Case([Call([answer(text("It is sunny."), finish="STOP", usage=used(9, 4))])], streamed=False),
    "finish_in_every_piece": Case(
        [Call([answer(text("It is "), finish="STOP"), answer(text("sunny."), finish="STOP")])]
    ),
    "thoughts_signed": Case(
        [
            Call(
                [
                    answer(thought("Hm, "), usage=used(9, 0, thoughtsTokenCount=2)),
                    answer(thought("Paris.")),
                    answer(text("Sunny")),
                    answer(text(" there.")),
                    answer(text("", thoughtSignature=SIGNED), finish="STOP", usage=used(9, 4, thoughtsTokenCount=5)),
                ]
            )
        ]
    ),
    "tool": Case([Call([TOOL]), Call(SUNNY)]),
    "tool_whole": Case(
        [Call([TOOL]), Call([answer(text("Sunny."), finish="STOP", usage=used(30, 2))])], streamed=False
    ),
    "tools_parallel": Case([Call(PARALLEL), Call(SUNNY)]),
    "tools_without_ids": Case([Call(NAMELESS), Call(NAMELESS), Call(SUNNY)], ids=False),
    "tool_unanswered": Case([Call([answer(text("Let me ask. ")), TOOL])]),
    "args_in_pieces": Case(
        [
            Call([*(answer({"functionCall": piece}) for piece in PIECES), answer(finish="STOP", usage=used(9, 9))]),
            Call(SUNNY),
        ],
        args={"city": "Paris", "stops": [{"nights": 2}, {"late": True}]},
    ),
    "code": Case([Call(CODE)]),
    "image": Case(
        [
            Call(
                [
                    answer(text("Here: ")),
                    answer({"inlineData": {"mimeType": "image/png", "data": PNG}}),
                    answer(text("A dot."), finish="STOP", usage=used(9, 1290)),
                ]
            )
        ]
    ),
    "image_asked": Case(
        [Call(SUNNY)], prompts=[[Part(text="What is this?"), Part.from_bytes(data=b"\x89PNG", mime_type="image/png")]]
    ),
    "grounded": Case(
        [Call([SUNNY[0], answer(text("sunny."), finish="STOP", groundingMetadata=GROUNDED, usage=used(9, 4))])]
    ),
    "safety": Case([Call([answer(text("First, ")), answer(finish="SAFETY", safetyRatings=UNSAFE, usage=used(9, 2))])]),
    "prompt_blocked": Case(
        [
            Call(
                [
                    {
                        "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
                        "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9},
                        "modelVersion": "gemini-3-flash-preview",
                    }
                ]
            )
        ]
    ),
    "max_tokens": Case([Call([answer(text("Once upon")), answer(text(" a"), finish="MAX_TOKENS", usage=used(9, 3))])]),
    "malformed_call": Case(
        [Call([answer(finish="MALFORMED_FUNCTION_CALL", finishMessage="Malformed: print(", usage=used(9, 0))])]
    ),
    "two_candidates": Case(
        [
            Call(
                [
                    {
                        **(whole := answer(text("Sun."), finish="STOP", usage=used(9, 4))),
                        "candidates": [*whole["candidates"], TWO],
                    }
                ]
            )
        ],
        streamed=False,
    ),
    "usage_of_all_kinds": Case([Call([answer(text("Hi."), finish="STOP", usage=used(100, 2, **CACHED))])]),
    "chat": Case(
        [Call(SUNNY), Call([answer(text("Rain."), finish="STOP", usage=used(20, 2))])], prompts=[QUESTION, "And Rome?"]
    ),
    "cut_in_text": Case([Call(SUNNY[:1])], complete=False),
    "cut_in_event": Case([Call(SUNNY, cut=280)], complete=False),
    "error_in_stream": Case([Call([SUNNY[0], BUSY])], complete=False),
    "refused": Case([Call([QUOTA], status=429)], complete=False),
    "refused_behind_a_tool": Case([Call([TOOL]), Call([QUOTA], status=429)], complete=False),
}


@dataclass
class Server:
    """Answers the calls of one case, and keeps what travelled."""

    case: Case
    travelled: list[tuple[Fields, int, bytes]] = field(default_factory=list)

    def take(self, body: Fields) -> tuple[int, str, bytes]:
        said = self.case.calls[len(self.travelled)]
        if said.status != 200 or not self.case.streamed:
            kind, sent = "application/json", json.dumps(said.said[0], indent=2).encode()
        else:
            kind, sent = "text/event-stream", b"".join(sse(event) for event in said.said)[: said.cut]
        self.travelled.append((body, said.status, sent))
        return said.status, kind, sent


def sse(event: Fields) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\r\n\r\n"


def serving(server: Server) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the class asks for this name
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, kind, sent = server.take(body)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *_: Any) -> None:
            """Be quiet."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=http.serve_forever, daemon=True).start()
    return http


class Reader:
    """What the SDK's own types hold, in the neutral form."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.content: list[list[Any]] = []
        self.tokens = {"input": 0, "output": 0}
        self.nameless = 0

    def ask(self, client: Client, contents: list[Content]) -> Content | None:
        """One call -> the Content that goes back; None where it failed."""
        told: list[Any] = []
        tools = [{"function_declarations": [{"name": name} for name in ("weather", "book")]}]
        config = GenerateContentConfig(tools=tools, automatic_function_calling={"disable": True})  # type: ignore[arg-type]  # pydantic takes them
        request: Fields = {"model": "gemini-3-flash-preview", "contents": contents, "config": config}
        found: list[Part] = []
        usage, whole = None, True
        try:
            answers = (
                client.models.generate_content_stream(**request)
                if self.case.streamed
                else [client.models.generate_content(**request)]
            )
            for said in answers:
                usage = said.usage_metadata or usage
                content = said.candidates[0].content if said.candidates else None
                found += content.parts if content and content.parts else ()
        except (errors.APIError, errors.UnknownApiResponseError):
            whole = False
        for one in found:
            for part in self.part(one):
                if told and part[0] == told[-1][0] == "thinking":
                    told[-1][1] += part[1]  # pieces of one thought
                else:
                    told.append(part)
        if self.case.args is not None and any(part[0] == "tool-call" for part in told):
            told = [["tool-call", "book", "c9", self.case.args]]
            found = [Part(function_call=FunctionCall(id="c9", name="book", args=self.case.args))]
        if told:
            self.content.append(["response", told])
        if usage is not None and whole:
            self.tokens["input"] += (usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0)
            self.tokens["output"] += (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
        return Content(role="model", parts=found) if whole and found else None

    def part(self, part: Part) -> list[list[Any]]:
        if part.function_call:
            called = part.function_call
            if not called.name:
                return []
            return [["tool-call", called.name, called.id or self.number(), called.args or {}]]
        if part.executable_code:
            code = part.executable_code.model_dump(mode="json", exclude_none=True, by_alias=True)
            return [["builtin-tool-call", "code_execution", self.number(), code]]
        if part.code_execution_result:
            return [["builtin-tool-return", f"call:{self.nameless - 1}"]]
        if part.inline_data:
            return [["file", part.inline_data.mime_type]]
        return [["thinking" if part.thought else "text", part.text]] if part.text else []

    def number(self) -> str:
        """The id that a call without one gets: its number in the conversation."""
        self.nameless += 1
        return f"call:{self.nameless - 1}"

    def results(self, said: Content) -> Content | None:
        """What the functions return, also in the neutral form."""
        calls = [part.function_call for part in said.parts or () if part.function_call and part.function_call.name]
        if not calls:
            return None
        made = [part for part in self.content[-1][1] if part[0] == "tool-call"]
        failed = {"Rome": {"error": "no station"}}
        values = [failed.get(str((called.args or {}).get("city")), {"result": "72F"}) for called in calls]
        self.content.append(
            [
                "request",
                [
                    ["tool-return", made_call[2], value, "error" if "error" in value else "success"]
                    for made_call, value in zip(made, values, strict=True)
                ],
            ]
        )
        parts = []
        for called, value in zip(calls, values, strict=True):
            part = Part.from_function_response(name=str(called.name), response=value)
            if part.function_response is not None and self.case.ids:
                part.function_response.id = called.id
            parts.append(part)
        return Content(role="user", parts=parts)


def play(case: Case) -> tuple[Server, Reader]:
    """Run the SDK through one case."""
    server, reader = Server(case), Reader(case)
    http = serving(server)
    options = HttpOptions(base_url=f"http://127.0.0.1:{http.server_port}", retry_options=HttpRetryOptions(attempts=1))
    client = Client(api_key="none", http_options=options)
    prompts = [prompt if isinstance(prompt, list) else [Part(text=prompt)] for prompt in case.prompts]
    contents = [Content(role="user", parts=prompts.pop(0))]
    while len(server.travelled) < len(case.calls):
        said = reader.ask(client, contents)
        if said is None or len(server.travelled) == len(case.calls):
            break
        following = reader.results(said)
        if following is None:
            words = prompts.pop(0)
            reader.content.append(["request", [["user-prompt", words[0].text]]])
            following = Content(role="user", parts=words)
        contents = [*contents, said, following]
    http.shutdown()
    return server, reader


def written(server: Server) -> bytes:
    """The run as it is published."""
    found = b""
    for body, status, sent in server.travelled:
        found += sse({"type": "turnmill.request", "request": body})
        if status != 200:
            found += sse({"type": "turnmill.error", "status": status, "body": json.loads(sent)})
        else:
            found += sent if server.case.streamed else sse(json.loads(sent))
    return found


def write(folder: Path) -> None:
    """Write all recordings."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, case in CASES.items():
        server, reader = play(case)
        run: Fields = {
            "agent_name": "weather",
            "provider_name": "google",
            "end": "complete" if case.complete else "disconnected",
        }
        if case.as_array:
            run["request"] = server.travelled[0][0]
            stream, suffix = json.dumps(case.calls[0].said, indent=2).encode(), "jsonl"
        else:
            stream, suffix = written(server), "sse"
        kept = (
            {"content": reader.content, "at_most": None}
            if case.complete
            else {"content": None, "at_most": reader.content}
        )
        truth = {"complete": case.complete, **kept, "tokens": reader.tokens if case.complete else None}
        (folder / f"{name}.{suffix}").write_bytes(stream)
        (folder / f"{name}.run.json").write_text(dumps(run))
        (folder / f"{name}.expected.json").write_text(dumps(truth))


dumps: Callable[[Any], str] = lambda value: json.dumps(value, ensure_ascii=False, indent=1) + "\n"  # noqa: E731

if __name__ == "__main__":
    write(Path(sys.argv[1]))
    print(json.dumps({"written": len(CASES)}))  # noqa: T201  # its result
