"""A model's answer so far: its normal form, and whether it is over. Pure."""

from base64 import b64decode
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from turnmill.capture.normal import (
    ASSISTANT,
    NormalMessage,
    assistant_blocks,
    merged,
    messages,
    model_parts,
    objects,
    ollama_message,
    response_item,
    token_id,
)
from turnmill.errors import InvalidRecord
from turnmill.wire.envelope import loads

Fields = dict[str, Any]
CONTINUES: Final = "CONTINUATION"  # why the answer of a call of Google's API ends, of which more will follow
UNFINISHED: Final = (None, "in_progress", "queued")  # statuses of an interaction
FAILED: Final = ("failed", "cancelled", "budget_exceeded", "ERROR", "TIMEOUT")  # of it, and Cohere's reasons
MAX_CHARACTERS: Final = 4_194_304  # most characters of an answer that are kept


@dataclass(slots=True, eq=False)
class Answer:
    """One answer. `over`: the model has ended it, whatever happens to the connection. `failed`: it ended with an error.

    `response_id`: the server's id, to which a following request may refer. `goes_on`: it continues in the answer to a
    following request. `names`: tools by the ids of calls.
    """

    dialect: str
    over: bool = False
    failed: bool = False
    response_id: str | None = None
    goes_on: bool = False
    names: dict[str, str] = field(default_factory=dict)
    _texts: list[str] = field(default_factory=list)
    _calls: dict[object, str] = field(default_factory=dict)
    _size: int = 0

    def take(self, event: Any) -> None:
        """Add an event of the stream, or the whole answer; events may be any JSON object."""
        TAKE[self.dialect](self, event)

    @property
    def message(self) -> NormalMessage | None:
        """The answer in normal form; None if it is empty."""
        messages = merged([self.spoken])
        return messages[0] if messages else None

    @property
    def spoken(self) -> NormalMessage:
        """The answer with white space around its text, which counts if the answer goes on."""
        return NormalMessage(ASSISTANT, "".join(self._texts), tuple(self._calls.values()))

    def _text(self, text: Any) -> None:
        if isinstance(text, str) and self._size < MAX_CHARACTERS:
            self._texts.append(text)
            self._size += len(text)

    def _name(self, call: Fields, key: str) -> None:
        call_id, name = call.get(key), call.get("name")
        if isinstance(call_id, str) and isinstance(name, str):
            self.names[call_id] = name

    def _call(self, position: object, call_id: Any) -> None:
        if isinstance(call_id, str) and call_id:
            self._calls[position] = call_id

    def _all(self, message: NormalMessage) -> None:
        """Replace the content so far by the whole answer."""
        self._texts, self._size = [], 0
        self._calls.clear()
        self._add(message)

    def _add(self, message: NormalMessage) -> None:
        self._text(message.text)
        for call in message.calls:
            self._call(len(self._calls), call)

    def _end(self, *, failed: bool = False) -> None:
        self.over, self.failed = True, self.failed or failed

    def _chat(self, event: Fields) -> None:
        if event.get("error"):
            self._end(failed=True)
        if event.get("event") is None and event.get("data") == "[DONE]":
            self._end()
        for choice in objects(event.get("choices")):
            if choice.get("index") not in (0, None):
                continue
            message = choice.get("delta") or choice.get("message")
            if isinstance(message, dict):
                self._chat_message(message)
            if choice.get("finish_reason"):
                self._end()

    def _chat_message(self, message: Fields) -> None:
        content, calls = message.get("content"), message.get("tool_calls")
        for piece in objects(content):  # Mistral sends a list of pieces
            if piece.get("type") != "thinking":
                self._text(piece.get("text"))
        self._text(content)
        for number, call in enumerate(calls if isinstance(calls, list) else ()):
            if isinstance(call, dict):
                self._call(call.get("index", number), call.get("id"))

    def _responses(self, event: Fields) -> None:
        kind = event.get("type")
        if kind == "response.output_text.delta":
            self._text(event.get("delta"))
        elif kind == "response.output_item.done" and isinstance(event.get("item"), dict):
            self._name(event["item"], "call_id")
            for message in response_item(event["item"]):
                self._add(message._replace(text=""))  # its text came in deltas
        elif kind == "error" or (kind is None and event.get("error")):
            self._end(failed=True)
        response = event if event.get("object") == "response" else event.get("response")
        if not isinstance(response, dict):
            return
        if isinstance(response.get("id"), str):
            self.response_id = response["id"]
        status = response.get("status")
        if status not in ("completed", "incomplete", "failed", "cancelled"):
            return
        for item in objects(response.get("output")):
            self._name(item, "call_id")
        spoken = (message for item in objects(response.get("output")) for message in response_item(item))
        if answers := [message for message in merged(spoken) if message.role == ASSISTANT]:
            self._all(answers[-1])
        self._end(failed=status == "failed")

    def _anthropic(self, event: Fields) -> None:
        kind = event.get("type")
        if kind == "message":
            self._message(event)
            self._all(assistant_blocks(event.get("content")))
            self._end()
        elif kind == "message_start" and isinstance(event.get("message"), dict):
            self._message(event["message"])
        elif kind == "message_delta" and isinstance(event.get("delta"), dict):
            self.goes_on = event["delta"].get("stop_reason") == "pause_turn"
        elif kind == "message_stop":
            self._end()
        elif kind == "error":
            self._end(failed=True)
        elif kind == "content_block_start" and isinstance(event.get("content_block"), dict):
            self._name(event["content_block"], "id")
            self._add(assistant_blocks([event["content_block"]]))
        elif kind == "content_block_delta" and isinstance(event.get("delta"), dict):
            self._text(event["delta"].get("text"))
            if event["delta"].get("type") == "compaction_delta":
                self._add(assistant_blocks([{**event["delta"], "type": "compaction"}]))

    def _message(self, message: Fields) -> None:
        self.response_id = message["id"] if isinstance(message.get("id"), str) else None
        self.goes_on = message.get("stop_reason") == "pause_turn"
        for block in objects(message.get("content")):
            self._name(block, "id")

    def _gemini(self, event: Fields) -> None:
        if isinstance(event.get("response"), dict):  # Code Assist wraps the response
            event = event["response"]
        feedback = event.get("promptFeedback")
        if isinstance(feedback, dict) and feedback.get("blockReason"):
            self._end()
        if event.get("error"):
            self._end(failed=True)
        candidates = event.get("candidates")
        for candidate in candidates[:1] if isinstance(candidates, list) else ():
            if not isinstance(candidate, dict):
                continue
            content = candidate.get("content")
            if isinstance(content, dict):
                self._add(model_parts(content.get("parts")))
            token, reason = token_id(candidate.get("continuationToken")), candidate.get("finishReason")
            if token is not None or reason not in (None, CONTINUES):  # the newest, until the answer has ended
                self.response_id, self.goes_on = token, token is not None
            if reason and reason != CONTINUES:
                self._end()

    def _bedrock(self, event: Fields) -> None:
        match event:
            case {"chunk": {"bytes": str(data)}}:
                with suppress(ValueError, InvalidRecord):
                    self._anthropic(loads(b64decode(data)))
            case {"type": "message"}:
                self._anthropic(event)
            case {"output": {"message": {"content": content}}}:
                self._all(assistant_blocks(content))
                self._end()
            case {"contentBlockStart": {"start": {"toolUse": {"toolUseId": call}}}}:
                self._call(len(self._calls), call)
            case {"contentBlockDelta": {"delta": {"text": text}}}:
                self._text(text)
            case {"messageStop": _}:
                self._end()
            case _ if any(kind.endswith(("Exception", "error")) for kind in event):
                self._end(failed=True)

    def _cohere(self, event: Fields) -> None:
        match event:
            case {"message": {"role": _} as message, "finish_reason": reason}:
                self._chat_message(message)
                self._end(failed=reason in FAILED)
            case {"delta": {"finish_reason": reason}}:
                self._end(failed=reason in FAILED)
            case {"delta": {"message": {"content": {"text": text}}}}:
                self._text(text)
            case {"delta": {"message": {"tool_calls": {"id": call}}}}:
                self._call(len(self._calls), call)

    def _ollama(self, event: Fields) -> None:
        self._text(event.get("response"))
        if isinstance(message := event.get("message"), dict):
            self._add(ollama_message(message))
        if event.get("done") or event.get("error"):
            self._end(failed=bool(event.get("error")))

    def _entries(self, event: Fields) -> None:
        kind, whole = event.get("type") or event.get("event_type"), event.get("interaction")
        whole = whole if isinstance(whole, dict) else event
        match whole:
            case {"conversation_id": str(name)} | {"id": str(name), "status": _}:
                self.response_id = name
        match event:
            case {"type": "function.call.delta", "tool_call_id": call}:
                self._name(event, "tool_call_id")
                self._call(call, call)  # its arguments come in several
            case {"step": {"type": "function_call", "id": call} as step}:
                self._name(step, "id")
                self._call(len(self._calls), call)
            case {"type": "message.output.delta", "content": {"text": text} | text} | {"delta": {"text": text}}:
                self._text(text)
        steps = whole.get("outputs", whole.get("steps"))
        for step in objects(steps):
            self._name(step, "tool_call_id" if "tool_call_id" in step else "id")
        for message in messages(self.dialect, {"input": steps}):
            if message.role == ASSISTANT:
                self._all(message)
        status = whole.get("status")
        failed = status in FAILED or kind in ("error", "conversation.response.error")
        if failed or status not in UNFINISHED or kind == "conversation.response.done" or "outputs" in whole:
            self._end(failed=failed)


TAKE: Final = {
    "anthropic": Answer._anthropic,  # noqa: SLF001  # the table of this class
    "bedrock": Answer._bedrock,  # noqa: SLF001  # as above
    "cohere": Answer._cohere,  # noqa: SLF001  # as above
    "gemini": Answer._gemini,  # noqa: SLF001  # as above
    "gemini-interactions": Answer._entries,  # noqa: SLF001  # as above
    "mistral": Answer._entries,  # noqa: SLF001  # as above
    "ollama": Answer._ollama,  # noqa: SLF001  # as above
    "openai-chat": Answer._chat,  # noqa: SLF001  # as above
    "openai-responses": Answer._responses,  # noqa: SLF001  # as above
}
