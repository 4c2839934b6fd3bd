"""Threads -> AG-UI messages, and histories of such messages -> threads."""

from typing import Any

from pipeline.dialects import FORMATS
from pipeline.dialects.history import Origin, thread
from tests.support.assembled import assembled

ORIGIN = Origin("0b0c4a3e-6a53-4a9e-9d0f-0d8f4c9d1a11", "agent-1", 1_768_903_200_000)
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}}
PICTURE = {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}}
LINK = {
    "type": "document",
    "source": {"type": "url", "value": "https://example.com/a.pdf", "mimeType": "application/pdf"},
}
HISTORY: list[dict[str, Any]] = [
    {"id": "u1", "role": "user", "content": [{"type": "text", "text": "Here?"}, PICTURE, LINK]},
    {"id": "t1", "role": "reasoning", "content": "Hm.", "encryptedValue": "c2ln"},
    {"id": "a1", "role": "assistant", "content": "Let me look.", "toolCalls": [CALL]},
    {"id": "r1", "role": "tool", "toolCallId": "c1", "content": "", "error": "no radar"},
    {"id": "a2", "role": "assistant", "content": "I can't tell."},
    {"id": "u2", "role": "user", "content": "Try again."},
]


def there_and_back(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    form = FORMATS["ag-ui"]
    assert form.reader is not None
    return form.write(thread(form.reader, messages, ORIGIN))


def test_a_history_comes_back_as_it_was() -> None:
    assert there_and_back([{"id": "s", "role": "system", "content": "Be kind."}, *HISTORY]) == HISTORY


def test_a_thread_of_another_wire_goes_on_over_ag_ui() -> None:
    events = [
        {"type": "start"},
        {"type": "start-step"},
        {"type": "text-start", "id": "t"},
        {"type": "text-delta", "id": "t", "delta": "Let me look."},
        {"type": "text-end", "id": "t"},
        {"type": "tool-input-available", "toolCallId": "c1", "toolName": "weather", "input": {"city": "Paris"}},
        {"type": "tool-output-available", "toolCallId": "c1", "output": {"sky": "clear"}},
        {"type": "finish-step"},
        {"type": "finish"},
    ]
    call, answer = assembled("vercel-ai", events).export("ag-ui")
    assert (call["content"], call["toolCalls"]) == ("Let me look.", [CALL])
    assert (answer["toolCallId"], answer["content"]) == ("c1", '{"sky":"clear"}')
    assert len({call["id"], answer["id"]}) == 2
