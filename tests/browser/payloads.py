"""Threads and records that try to run as a program wherever they are shown, in every field of every kind of part."""

import base64
from typing import Any, Final

from pipeline.cli.files.recordings import Recording, Stream

Fields = dict[str, Any]

MARK: Final = "attempt-"  # by which a text of these is found on the page
PAYLOADS: Final = (
    "<script>globalThis.attacked = 1</script>",
    "<img src=x onerror='globalThis.attacked = 2'>",
    "<svg><script>globalThis.attacked = 3</script></svg>",
    "\"'></pre></code><iframe srcdoc='<script>parent.attacked = 4</script>'></iframe>",
    "[click](javascript:globalThis.attacked=5) ![x](https://other.example/x.png)",
    "```\n</pre><img src=https://other.example/y.png onload=alert(6)>\n```",
    "{{constructor.constructor('globalThis.attacked = 7')()}} ${globalThis.attacked = 8}",
    "<a href='javascript:globalThis.attacked=9' autofocus onfocus='globalThis.attacked = 10'>x</a>",
    "<base href=https://other.example/><link rel=stylesheet href=https://other.example/z.css>",
    "<style>@import 'https://other.example/w.css'; body { display: none }</style>",
)
ADDRESSES: Final = (
    "javascript:globalThis.attacked=11",
    " javascript:globalThis.attacked=12",
    "JAVASCRIPT:globalThis.attacked=13",
    "data:text/html,<script>globalThis.attacked=14</script>",
    "vbscript:attack",
    "https://other.example/picture.png",
    "//other.example/picture.png",
)
PAGE: Final = base64.b64encode(b"<script>globalThis.attacked = 15; top.attacked = 15</script>").decode()
DRAWING: Final = base64.b64encode(
    b"<svg xmlns='http://www.w3.org/2000/svg' onload='globalThis.attacked = 16'><script>attacked = 17</script></svg>"
).decode()
NAME: Final = f"{MARK}name {PAYLOADS[1]}"
TENANT: Final = f"{MARK}tenant {PAYLOADS[1]}"
THREAD: Final = f"{MARK}thread {PAYLOADS[0]}"
TIME: Final = "2026-01-20T09:00:00Z"


def text(where: str) -> str:
    """All payloads at once, under a mark that tells the field."""
    return f"{MARK}{where} " + "\n\n".join(PAYLOADS)


def _content() -> list[Any]:
    urls = [
        {"kind": kind, "url": url, "identifier": text("identifier"), "media_type": text("media")}
        for url in ADDRESSES
        for kind in ("image-url", "audio-url", "video-url", "document-url")
    ]
    binary = [
        {"kind": "binary", "data": data, "media_type": kind, "identifier": text("identifier")}
        for data, kind in ((PAGE, "text/html"), (DRAWING, "image/svg+xml"), (PAGE, "image/png"), (PAGE, text("media")))
    ]
    return [text("prompt"), *urls, *binary, {"kind": text("kind"), "value": text("value")}]


def _reference() -> Fields:
    return {"uri": ADDRESSES[0], "size_bytes": 7, "hash": text("hash"), "media_type": text("reference media")}


def _parts() -> list[Fields]:
    """Of a response; every kind that there is, and one that there is not."""
    files = [{"data": PAGE, "media_type": "text/html", "identifier": text("file")}]
    files += [{"data": DRAWING, "media_type": "image/svg+xml"}, {"data": "no base64 <b>", "media_type": "image/png"}]
    files += [{"url": url, "content_type": text("file type")} for url in ADDRESSES]
    return [
        {"part_kind": "text", "content": text("text"), "id": text("text id")},
        {"part_kind": "thinking", "content": text("thinking"), "signature": text("signature"), "thinking_id": NAME},
        *({"part_kind": "file", "content": file, "id": text("file id")} for file in files),
        {"part_kind": "file", "content_ref": _reference()},
        {"part_kind": f"{MARK}kind {PAYLOADS[1]}", "content": text("unknown kind")},
        {"part_kind": "builtin-tool-call", "tool_name": NAME, "tool_call_id": text("b"), "args": text("builtin")},
        *({"part_kind": "tool-call", "tool_name": NAME, "tool_call_id": f"{NAME} {n}",
           "args": {text("key"): [text("argument")]}} for n in range(4)),
    ]  # fmt: skip


def _answers() -> list[Fields]:
    answer: Fields = {"part_kind": "tool-return", "tool_name": NAME, "status": "error", "metadata": text("metadata")}
    return [
        {**answer, "tool_call_id": f"{NAME} 0", "content": {text("key"): text("result")}},
        {**answer, "tool_call_id": f"{NAME} 1", "status": "validation_error", "content": text("result")},
        {**answer, "tool_call_id": f"{NAME} 2", "content_ref": _reference()},
        {"part_kind": "retry-prompt", "tool_name": NAME, "tool_call_id": f"{NAME} 3", "content": text("retry")},
        {"part_kind": "retry-prompt", "content": [{"type": text("retry type"), "msg": text("retry message")}]},
    ]


def _systems() -> list[Fields]:
    common = {"message_type": "system", "timestamp": TIME, "source_agent": NAME, "target_agents": [NAME]}
    events: list[tuple[str, Any]] = [
        (f"{MARK}event {PAYLOADS[1]}", text("data")),
        ("error", {"message": text("error")}),
    ]
    events += [("source.url", {"url": url, "title": text("source")}) for url in ADDRESSES]
    events += [("source.document", {"title": text("document"), "media_type": text("document media")})]
    events += [("data-app-x", {text("key"): text("app data")}), ("step", text("step"))]
    return [{**common, "event_type": kind, "event_data": data} for kind, data in events]


def native() -> Stream:
    """A thread of ThreadProtocol's own objects."""
    about = {"agent_id": NAME, "model_name": NAME, "provider_name": NAME, "timestamp": TIME}
    messages = [
        *_systems(),
        {"message_type": "response", **about, "parts": _parts(), "finish_reason": "tool_call"},
        {"message_type": "request", **about, "parts": _answers()},
        {"message_type": "response", **about, "parts": [{"part_kind": "text", "content": text("last words")}]},
    ]
    interruption = {"reason": f"{MARK}reason {PAYLOADS[1]}", "interrupted_at": TIME, "message": text("interruption")}
    turn = {"turn_type": "agent", "agent_id": NAME, "started_at": TIME, "messages": messages}
    events: list[Fields] = [
        {"type": "agent-config", "agent": {"agent_id": NAME, "agent_name": NAME, "model_name": NAME}},
        {"type": "thread-metadata", "title": text("title"), "metadata": {"app:x": text("thread metadata")}},
        {"type": "user-turn", "turn": {"turn_type": "user", "submitted_at": TIME,
                                       "parts": [{"part_kind": "user-prompt", "content": _content()}]}},
        {"type": "agent-turn", "turn": {**turn, "completion_status": "complete", "completed_at": TIME}},
        {"type": "agent-turn", "turn": {**turn, "completion_status": "interrupted", "interruption": interruption}},
        {"type": "thread-link", "link": {"thread_id": "00000000-0000-4000-8000-000000000001",
                                         "relation": f"{MARK}relation {PAYLOADS[1]}"}},
    ]  # fmt: skip
    return Stream("payloads", "thread-protocol", THREAD, f"{MARK}native", NAME, tuple(events), {"agent_name": NAME},
                  end="complete", tenant=TENANT)  # fmt: skip


def streamed(name: str = "first") -> Stream:
    """A run of the AI SDK whose names, ids and events are payloads."""
    usage = {
        "type": "data-sys-usage",
        "data": {"input_tokens": 70_000, "output_tokens": 30_000, "total_tokens": 100_000},
    }
    events: list[Fields] = [
        {"type": "start"},
        {"type": "start-step"},
        {"type": "reasoning-start", "id": "r"},
        {"type": "reasoning-delta", "id": "r", "delta": text("reasoning")},
        {"type": "reasoning-end", "id": "r"},
        {"type": "text-start", "id": "t"},
        {"type": "text-delta", "id": "t", "delta": text("streamed")},
        {"type": "text-end", "id": "t"},
        {"type": "tool-input-available", "toolCallId": NAME, "toolName": NAME, "input": {"query": text("input")}},
        {"type": "tool-output-error", "toolCallId": NAME, "errorText": text("tool error")},
        {"type": "source-url", "sourceId": NAME, "url": ADDRESSES[0], "title": text("source title")},
        {"type": "file", "mediaType": "text/html", "url": f"data:text/html;base64,{PAGE}"},
        {"type": "data-app-panel", "data": text("panel")},
        {"type": f"data-app-{PAYLOADS[1]}", "data": {"html": text("html")}},
        {"type": "error", "errorText": text("stream error")},
        usage,
        {"type": "finish-step"},
        {"type": "finish"},
    ]
    request = {"messages": [{"role": "user", "parts": [{"type": "text", "text": text("request")}]}]}
    names = {"agent_name": NAME, "model_name": NAME, "provider_name": NAME, "parent_run_id": NAME}
    run_id = f"{MARK}streamed {name} {PAYLOADS[1]}"
    return Stream(
        "payloads", "vercel-ai", f"{THREAD} streamed", run_id, NAME, tuple(events), {**names, "request": request},
        end="complete", tenant=TENANT
    )  # fmt: skip


def refused() -> Stream:
    """Events that become dead letters, whose details and bytes are payloads."""
    events = (
        {"type": f"{MARK}no such type {PAYLOADS[1]}"},
        {"type": "agent-turn", "turn": {"turn_type": text("turn")}},
    )
    return Stream(
        "payloads", "thread-protocol", f"{THREAD} refused", f"{MARK}refused", NAME, events, {}, end="complete"
    )


def all_of_them() -> list[Recording]:
    """What is published before anybody looks."""
    return [native(), streamed(), refused()]
