"""A wire whose events are another wire's by other names: each is translated, and its kin's handlers do the rest. Pure.

    bedrock → anthropic, ollama → openai-chat, …

So a wire of this kind is a table of its events, and all that its kin can (histories, retries, ends, usage) it can, too.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from types import MappingProxyType
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Dialect, Handler, Shown, StreamEnd, Violation
from pipeline.dialects.model_calls import ERROR, REQUEST, calls_of
from pipeline.turns.lineage import History
from topics.json_text import Fields, object_of
from turnmill.wire.registry import WIRES

# (a copy of the run's state, event) -> its kin's events. May raise as a handler; for a single event the state is empty.
Translate = Callable[[Fields, Fields], Iterable[Fields]]
STATE: Final = "kin"  # in the builder's scratch
CANCELLED: Final = "kin.cancelled"  # an event of every kin: the client has broken off the call
VALUES: Final = {  # kinds of Anthropic's deltas: the keys of their values
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
    "citations_delta": "citation",
}
ASKED: Final = "asked"  # in the state: the newest request, as its kin's; {} if it is no object


def _cancelled(builder: Builder, event: Fields) -> None:
    calls = calls_of(builder)
    calls.settle(builder)
    calls.whole, calls.shut, builder.ended = False, True, "aborted"


@dataclass(slots=True, eq=False)
class Blocks:
    """The content blocks of an answer whose wire numbers them otherwise. `index`: of the newest that was named."""

    known: dict[Any, int] = field(default_factory=dict)
    index: int = -1

    def start(self, key: Any, block: Fields, *more: Any) -> Iterator[Fields]:
        """Yield Anthropic's start of the block with this key, if it is new, and a delta of it: its kind and value."""
        new = key not in self.known
        self.index = self.known.setdefault(key, len(self.known))
        if new:
            yield {"type": "content_block_start", "index": self.index, "content_block": block}
        if more:
            yield delta(self.index, *more)


def model_asked(state: Fields) -> Fields:
    """Return the start of an answer whose stream doesn't name the model: it is that of the request."""
    return {"model": state.get(ASKED, {}).get("model")}


def delta(index: int, kind: str, value: Any) -> Fields:
    """Return Anthropic's delta of a block."""
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, VALUES[kind]: value}}


def kin(
    name: str,
    of: Dialect,
    translate: Translate,
    body: Callable[[Any], Any],
    recognises: Callable[[Any], bool],
    *,
    provider: str | None = "",
    more: Mapping[str, Handler] = MappingProxyType({}),
    **differs: Any,
) -> Dialect:
    """Return the dialect of a wire that `translate` makes events of another wire.

    `body`: returns the body of a request, which may be any JSON, as its kin's. `provider`: of the models, unless the
    publisher names it; empty: the wire's name; None: not known. `more`: handlers beside its kin's. `differs`: fields of
    the dialect that are not its kin's. It can't carry what its kin can't.
    """
    kind = WIRES[name].kind
    handlers = {**of.handlers, CANCELLED: _cancelled, **more}

    def asked(request: Any) -> Any:
        try:
            return body(request)
        except (KeyError, TypeError, ValueError, AttributeError):  # any JSON may be here
            return request

    def begun(state: Fields, request: Any) -> Any:
        """Return the body of a call that begins: nothing of the call before it is left in the state."""
        made = asked(request)
        state.clear()
        state[ASKED] = object_of(made)
        return made

    def translated(state: Fields, event: Fields) -> Iterable[Fields]:
        if event.get(kind) == REQUEST:
            return [{**event, of.wire.kind: REQUEST, "request": begun(state, event["request"])}]
        return [{**event, of.wire.kind: ERROR}] if event.get(kind) == ERROR else translate(state, event)

    def alone(event: Any) -> list[Fields]:
        try:
            return list(translated({}, event))
        except Exception:  # any JSON may be here
            return []

    def begin(builder: Builder) -> None:
        builder.scratch[STATE] = {}
        builder.context.request = begun(builder.scratch[STATE], builder.context.request)
        builder.context.provider_name = builder.context.provider_name or (name if provider == "" else provider)
        of.begin(builder)

    def handle(builder: Builder, event: Fields) -> None:
        state = dict(builder.scratch[STATE])  # an event that can't be translated leaves nothing behind
        try:
            events = list(translated(state, event))
        except (AttributeError, ValueError) as error:  # a field has another type than the wire gives it
            raise Violation(f"no event of {name}: {error!s:.80}") from error
        for each in events:
            handlers.get(each.get(of.wire.kind, ""), of.unknown)(builder, each)
        builder.scratch[STATE] = state

    def shows(event: Any) -> Sequence[Shown]:
        return [piece for each in alone(event) for piece in of.shows(each)]

    def ended(event: Any, before: StreamEnd | None) -> StreamEnd | None:
        return reduce(lambda known, each: of.ended(each, known), alone(event), before)

    def history(request: Any) -> History:
        return of.history(asked(request))

    facts = {"begin": begin, "history": history, "recognises": recognises, "shows": shows, "ended": ended, **differs}
    same = replace(of, name=name, wire=WIRES[name], handlers={}, unknown=handle, stretches={}, deltas={})
    carriers = tuple(replace(carrier, name=name) for carrier in of.carriers if carrier.name == of.name)
    return replace(same, carriers=carriers, formats=(), **facts)
