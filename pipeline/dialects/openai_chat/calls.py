"""The calls of tools in an answer, from their fragments, with what gateways write beside them.

Which fragments of calls belong together differs from server to server. Fragments of a call have its `index`. Without
one, a new id begins a new call. Id and name come once, or are repeated in each fragment; arguments are appended.

Unknown fields of a call are kept under META, as the server gets them back. A thought's signature, without which Gemini
refuses the call later, is `meta:thought_signature`, too, as on all wires: it is in `extra_content.google` (Google), in
`provider_specific_fields` or behind the id (LiteLLM), or in `function` (Portkey).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pipeline.assembly.parts import Message, Part
from pipeline.dialects.openai_chat.keys import META, note
from pipeline.dialects.signatures import SIGNATURE
from pipeline.turns.arguments import arguments
from pipeline.turns.text import join
from topics import json_text
from topics.json_text import Fields, list_of, object_of, objects

FUNCTION_CALL: Final = "function_call"  # the single call of the API before a message had several
ID: Final = "tool_call_id"
CUSTOM: Final = "meta:custom"  # of a call whose tool takes a text
OF_CALL: Final = frozenset({"id", "index", "type", "function", "custom"})
OF_FUNCTION: Final = frozenset({"name", "arguments", "input"})
IN_ID: Final = "__thought__"  # what LiteLLM puts between an id and a signature
SERVERS: Final = "srvtoolu_"  # begins the ids of calls that Anthropic ran
RESULTS: Final = ("web_search_results", "tool_results")  # LiteLLM's lists of their results


@dataclass(slots=True, eq=False)
class ToolCalls:
    """The calls of a response, in the order in which they began."""

    response: Message
    made: list[Part] = field(default_factory=list)
    by_index: dict[int, Part] = field(default_factory=dict)
    old: Part | None = None

    def add(self, delta: Fields, *, whole: bool) -> None:
        """Add a delta's fragments of calls; in a `whole` message each entry is a call."""
        for fragment in list_of(delta.get("tool_calls")):
            if isinstance(fragment, dict):
                self._add_fragment(fragment, whole=whole)
        function = delta.get(FUNCTION_CALL)
        if isinstance(function, dict):
            self.old = self.old or self._open()
            _extend(self.old, None, function)

    def calls(self, beside: Fields | None) -> list[Part]:
        """Return the calls of the application's tools. `beside`: LiteLLM's `provider_specific_fields`."""
        if not self.made:
            return self.made
        ran = _results(beside)
        return [call for call in self._named() if not _is_servers(call.fields[ID], ran)]

    def settle(self, beside: Fields | None, *, whole: bool) -> list[Part]:
        """Return the calls, those of the server's tools with their results; if whole, with arguments as data.

        Fragments that never get a name or an id are no call, and are kept under META.
        """
        if not self.made and beside is None:
            return self.made
        named, ran = self._named() if whole else list(self.made), _results(beside)
        if len(named) < len(self.made):
            nameless = [{"arguments": join(call.chunks)} for call in self.made if call not in named]
            note(self.response.fields, {"tool_calls": nameless})
        for fragment in objects(beside.get("server_tool_calls")) if beside is not None else ():
            if all(call.fields[ID] != fragment.get("id") for call in named):
                self._add_fragment(fragment, whole=True)
                named.append(self.made[-1])
        parts: list[Part] = []
        for call in named:
            if whole:
                text = join(call.chunks)
                call.fields["args"] = {"input": text} if call.fields.get(CUSTOM) else arguments(text)
                call.chunks.clear()
                call.done = True
            parts.append(call)
            call_id = call.fields[ID]
            if _is_servers(call_id, ran):
                call.fields["part_kind"] = "builtin-tool-call"
            if call_id in ran:
                answer = {"tool_name": call.fields["tool_name"], ID: call_id, "content": ran[call_id]}
                parts.append(Part({"part_kind": "builtin-tool-return", **answer}, done=whole))
        return parts

    def _named(self) -> list[Part]:
        return [call for call in self.made if call.fields[ID] or call.fields["tool_name"]]

    def _add_fragment(self, fragment: Fields, *, whole: bool) -> None:
        function = object_of(fragment.get("function") or fragment.get("custom"))
        call_id = fragment.get("id")
        call_id = call_id if isinstance(call_id, str) and call_id else None
        index = fragment.get("index")
        call: Part | None
        if whole:
            call = self._open()
        elif isinstance(index, int):
            call = self.by_index.get(index)
            if call is None or (call_id and call.fields[ID] not in ("", call_id)):
                call = self.by_index[index] = self._open()
        else:
            call = self._by_id(call_id, function.get("name")) or self._open()
        if "custom" in fragment:
            call.fields[CUSTOM] = True
        if _has_more(fragment, OF_CALL) or _has_more(function, OF_FUNCTION):
            _keep(call, fragment, function)
        _extend(call, call_id, function)

    def _by_id(self, call_id: str | None, name: Any) -> Part | None:
        """Return the call that a fragment without index belongs to; None: a new call."""
        if call_id is not None:
            return next((call for call in self.made if call.fields[ID] == call_id), None)
        last = self.made[-1] if self.made else None
        return None if last is not None and name and last.chunks else last

    def _open(self) -> Part:
        call = Part({"part_kind": "tool-call", "tool_name": "", ID: "", "args": None})
        self.made.append(call)
        self.response.parts.append(call)
        return call


def _has_more(value: Fields, than: frozenset[str]) -> bool:
    """Return True if an object has other keys; looked at for each fragment."""
    for key in value:  # noqa: SIM110  # a generator takes longer
        if key not in than:
            return True
    return False


def written(part: Fields) -> tuple[Fields, Fields]:
    """Return what a call and its `function` had beside what Chat Completions knows, as its server gets it back."""
    meta = part.get(META, {})
    return meta.get("call", {}), meta.get("function", {})


def signature_in(held: Any) -> str | None:
    """Return the signature of a thought in `extra_content`; None for any other value."""
    match held:
        case {"google": {"thought_signature": str(signature)}} if signature:
            return signature
    return None


def _keep(call: Part, fragment: Fields, function: Fields) -> None:
    """Keep fields of a call that the protocol does not know, and its thought's signature."""
    rest = {key: value for key, value in fragment.items() if key not in OF_CALL and value is not None}
    inner = {key: value for key, value in function.items() if key not in OF_FUNCTION and value is not None}
    before, within = written(call.fields)
    note(call.fields, {"call": {**before, **rest} or None, "function": {**within, **inner} or None})
    for signature in _signatures(rest, inner):
        if isinstance(signature, str) and signature:
            call.fields[SIGNATURE] = signature
            return


def _signatures(rest: Fields, inner: Fields) -> Iterator[Any]:
    beside = rest.get("provider_specific_fields")
    yield signature_in(rest.get("extra_content"))
    yield object_of(beside).get("thought_signature")
    yield inner.get("thought_signature")
    yield rest.get("thought_signature")


def _results(beside: Fields | None) -> dict[str, Any]:
    """Return the contents of the results of the server's tools, by the ids of their calls."""
    if beside is None:
        return {}
    found = [result for key in RESULTS for result in objects(beside.get(key))]
    return {
        result["tool_use_id"]: result.get("content") for result in found if isinstance(result.get("tool_use_id"), str)
    }


def _is_servers(call_id: str, ran: dict[str, Any]) -> bool:
    return call_id.startswith(SERVERS) or call_id in ran


def _extend(call: Part, call_id: str | None, function: Fields) -> None:
    name, text = function.get("name"), function.get("arguments", function.get("input"))
    if call_id and not call.fields[ID]:
        call.fields[ID] = call_id
        if IN_ID in call_id:
            call.fields.setdefault(SIGNATURE, call_id.partition(IN_ID)[2])
    if isinstance(name, str) and not call.fields["tool_name"]:
        call.fields["tool_name"] = name
    if isinstance(text, str) and text:
        call.chunks.append(text)
    elif text is not None and not isinstance(text, str):  # some servers write them as data
        call.chunks.append(json_text.dumps(text))
