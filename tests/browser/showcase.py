"""A conversation that holds all that a thread can: thinking, tools, retries, files, sources, and sub-agents."""

import base64
import re
import struct
import time
import zlib
from typing import Any

from pipeline.cli.files.recordings import Recording, Stream

Event = dict[str, Any]

THREAD = "incident-2041"
ANSWER = """The checkout errors come from **deploy 8841**, which lowered the pool of the orders database from 40 to 4.

1. Requests wait for a connection, and give up after 5 s.
2. Each retry of the browser asks again, so the queue never empties.

Put it back, and release in the evening:

```yaml
orders-api:
  database:
    pool_size: 40   # was 4 since deploy 8841
    acquire_timeout: 5s
```

I would also let `retry_after` grow with each attempt."""
LOGS = {
    "matched": 1834,
    "sample": ["TimeoutError: no connection within 5 s (pool 4/4 in use)", "503 POST /checkout 5003 ms"],
    "services": {"orders-api": 1798, "checkout": 36},
}


def runs() -> list[Recording]:
    """The conversation and its sub-agents, as if it had been a quarter of an hour ago; and two that wait for a yes."""
    then = int(time.time() * 1000) - 900_000
    return [
        _run(THREAD, "lead", "Incident lead", "claude-sonnet-4-5", "anthropic", _lead(), then - 60_000,
             prompt="Checkout fails for one customer in five since noon. Why, and what do we do?"),
        _run(THREAD, "timeline", "Timeline writer", "gpt-5-mini", "openai", _says(
            "12:02 deploy 8841. 12:04 first timeout. 12:11 alert. 12:14 this conversation.", 62, 40),
            then - 48_000, parent_run_id="incident-2041-lead"),
        _run("incident-2041-logs", "logs", "Log reader", "gpt-5", "openai", _says(
            "All timeouts are on `orders-api`, since 12:04.", 520, 96), then - 55_000,
            prompt="Find what the failing requests have in common.",
            parent_thread_id=THREAD, parent_run_id="incident-2041-lead"),
        _run("incident-2041-diff", "reviewer", "Code reviewer", "claude-opus-4-1", "anthropic", _says(
            "`pool_size` went from 40 to 4 in a clean-up of the defaults.", 310, 58), then - 52_000,
            prompt="What changed in deploy 8841?", parent_thread_id=THREAD, parent_run_id="incident-2041-lead"),
        _run("incident-2041-blame", "librarian", "Librarian", "mistral-large-latest", "mistral", _says(
            "The default is as old as the service; the load test uses 4.", 90, 31), then - 51_000,
            prompt="Who needs a pool of 4?", parent_thread_id="incident-2041-diff",
            parent_run_id="incident-2041-diff-reviewer"),
        _run("order-5120", "refunds", "Refund desk", "gpt-5-mini", "openai",
             _asks("refund", {"order": 5120, "eur": 89.9}), then - 40_000,
             prompt="The lamp came broken. I want my money back."),
        _run("release-14", "release", "Release manager", "claude-sonnet-4-5", "anthropic",
             _asks("deploy", {"service": "orders-api", "version": "8842"}), then - 30_000, prompt="Ship 8842."),
    ]  # fmt: skip


def _asks(name: str, given: Any) -> list[Event]:
    """A call that waits for an approval."""
    call = {"type": "tool-input-available", "toolCallId": f"{name}-1", "toolName": name, "input": given}
    asked = {"type": "tool-approval-request", "toolCallId": f"{name}-1", "approvalId": "a1"}
    end = [_usage(410, 36), {"type": "finish-step"}, {"type": "finish"}]
    return [{"type": "start"}, {"type": "start-step"}, call, asked, *end]


def _run(
    thread: str, agent: str, name: str, model: str, provider: str, events: list[Event], started: int, **more: str
) -> Stream:
    prompt = more.pop("prompt", None)
    info: dict[str, Any] = {"agent_name": name, "model_name": model, "provider_name": provider, **more}
    if prompt is not None:
        info["request"] = {"messages": [{"role": "user", "parts": [{"type": "text", "text": prompt}]}]}
    return Stream(
        "showcase", "vercel-ai", thread, f"{thread}-{agent}", agent, tuple(events), info, started, "complete", "acme"
    )


def _words(kind: str, identity: str, said: str) -> list[Event]:
    deltas = [{"type": f"{kind}-delta", "id": identity, "delta": word} for word in re.findall(r"\s*\S+\s*?", said)]
    return [{"type": f"{kind}-start", "id": identity}, *deltas, {"type": f"{kind}-end", "id": identity}]


def _tool(identity: str, name: str, given: Any, **result: Any) -> list[Event]:
    call = {"type": "tool-input-available", "toolCallId": identity, "toolName": name, "input": given}
    kind = "tool-output-error" if "errorText" in result else "tool-output-available"
    return [
        {"type": "tool-input-start", "toolCallId": identity, "toolName": name},
        call,
        {"type": kind, "toolCallId": identity, **result},
    ]


def _usage(given: int, made: int) -> Event:
    tokens = {"input_tokens": given, "output_tokens": made, "total_tokens": given + made}
    return {"type": "data-sys-usage", "data": tokens}


def _says(said: str, given: int, made: int) -> list[Event]:
    step = [{"type": "start"}, {"type": "start-step"}, *_words("text", "t", said), _usage(given, made)]
    return [*step, {"type": "finish-step"}, {"type": "finish"}]


def _lead() -> list[Event]:
    thought = (
        "One in five fits one bad instance of five, or a pool that is too small. Logs first, then what was deployed."
    )
    return [
        {"type": "start"},
        {"type": "start-step"},
        *_words("reasoning", "r1", thought),
        *_tool("call_7f01", "search_logs", {"query": "status:5xx path:/checkout", "since": "12:00"}, output=LOGS),
        *_tool("call_7f02", "read_deploy", {"id": 8814}, errorText="No deploy has the number 8814: did you mean 8841?"),
        _usage(840, 212),
        {"type": "finish-step"},
        {"type": "start-step"},
        *_tool("call_7f03", "read_deploy", {"id": 8841}, output={"changed": ["orders-api/values.yaml"], "by": "ops"}),
        *_tool("call_7f04", "plot", {"metric": "pool_in_use", "service": "orders-api"}, output="pool.png"),
        {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64," + _picture()},
        {
            "type": "source-url",
            "sourceId": "s1",
            "url": "https://runbooks.example.com/orders",
            "title": "Orders runbook",
        },
        _usage(990, 154),
        {"type": "finish-step"},
        {"type": "start-step"},
        *_words("text", "t1", ANSWER),
        {"type": "data-app-ticket", "id": "k", "data": {"key": "OPS-2041", "state": "mitigating"}},
        _usage(1030, 240),
        {"type": "finish-step"},
        {"type": "finish"},
    ]


def _picture(width: int = 360, height: int = 120) -> str:
    """-> a PNG in base64: a pool that fills at a deploy."""
    rows = bytearray()
    for y in range(height):
        rows.append(0)
        for x in range(width):
            level = 18 + x % 7 if x < 150 else min(96, 20 + (x - 150) * 2)
            on = height - y <= level and x % 9 < 7
            rows += (bytes((68, 88, 214)) if x < 150 else bytes((179, 38, 30))) if on else bytes((244, 244, 246))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(bytes(rows), 9)), (b"IEND", b""))
    data = b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks
    )
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + data).decode()
