"""Assembles a run's whole stream without a broker: for `turnmill assemble`, and as the reference of tests.

The turns of a run that may go on are made of a copy of its state: `copy.deepcopy` can't copy compiled classes.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar, cast

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Dialect
from pipeline.assembly.finish import finish
from pipeline.assembly.records import Refused, StoredRecord
from pipeline.assembly.run import Run
from pipeline.turns.lineage import Redacted, lineage
from topics.turn_record import TurnRecord
from turnmill.wire.nesting import with_room

T = TypeVar("T")
Memo = dict[int, Any]

SAME: Final = frozenset({str, int, float, bool, bytes, type(None)})  # immutable


def assemble(
    dialect: Dialect, envelopes: Sequence[dict[str, Any]], *, keep_telemetry: bool = False, keep_requests: bool = False
) -> tuple[list[TurnRecord], list[Refused]]:
    """Return the turn records of a run's envelopes, given in any order, and what was refused.

    Without an `end` and a terminal event, the run counts as disconnected.
    """
    run: Run | None = None
    for offset, envelope in enumerate(envelopes):
        record = StoredRecord(b"", offset, envelope["ts"])
        run = run or Run(envelope, dialect, record)
        run.feed(envelope, record)
    if run is None:
        return [], []
    return close(run, run.verdict(), keep_telemetry=keep_telemetry, keep_requests=keep_requests)[0], run.refusals


def close(
    run: Run,
    end: str,
    *,
    keep_telemetry: bool = False,
    keep_requests: bool = False,
    last: bool = False,
    redacted: Redacted = str,
) -> tuple[list[TurnRecord], Builder]:
    """Return the turns of a run as it stands, and the builder that made them.

    The run can go on, unless it ended as complete, or `last` is set: a copy of a large run would fill the memory.
    `redacted`: a function from a text to its stored form.
    """
    if not (last or (end == "complete" and not run.early)):
        builder = with_room(partial(fork, run.builder))
    else:
        builder = run.builder
    if run.early:
        run.past_the_holes(builder)
        end = "events_lost"
    run.dialect.finish(builder, end)
    missing = run.missing()
    turns = finish(
        builder,
        end,
        events=run.count(missing),
        missing=missing,
        revision=run.revision,
        keep_telemetry=keep_telemetry,
        keep_requests=keep_requests,
    )
    first: dict[tuple[str, str], TurnRecord] = {}
    for turn in turns:
        first.setdefault((turn["thread_id"], turn["run_id"]), turn)
    for each in [builder, *builder.children]:
        context = each.context
        sources = (each.history, context.request, context.continues, context.replaces)
        record = first.get((context.thread_id, context.run_id))
        if record is not None and any(source is not None for source in sources):
            history = each.history or run.dialect.history(context.request)
            if linked := lineage(history, context.continues, context.replaces, redacted):
                record["lineage"] = linked
    return turns, builder


def fork(value: T) -> T:
    """Return a deep copy of nested lists, sets, dictionaries, tuples and dataclasses.

    An object that occurs twice is one object in the copy, too. Everything else (functions, members of an Enum,
    constants) is not copied, but shared. Raises RecursionError.
    """
    return cast("T", _forked(value, {}))


def _forked(value: Any, memo: Memo) -> Any:
    kind = type(value)
    if kind in SAME:
        return value
    known = memo.get(id(value))
    if known is not None:
        return known
    copy = COPIES.get(kind)
    if copy is not None:
        return copy(value, memo)
    if isinstance(value, tuple):
        return kind._make([_forked(item, memo) for item in value])  # a NamedTuple
    if kind not in SHAPES:
        SHAPES[kind] = _shape(kind)
    shape = SHAPES[kind]
    return value if shape is None else _dataclass(value, shape, memo)


def _list(value: list[Any], memo: Memo) -> list[Any]:
    made: list[Any] = []
    memo[id(value)] = made
    made.extend([item if type(item) is str else _forked(item, memo) for item in value])
    return made


def _filled(made: dict[Any, Any], value: dict[Any, Any], memo: Memo) -> dict[Any, Any]:
    memo[id(value)] = made
    for key, item in value.items():
        to = item if type(item) is str else _forked(item, memo)  # most are
        made[key if type(key) is str else _forked(key, memo)] = to
    return made


def _tuple(value: tuple[Any, ...], memo: Memo) -> tuple[Any, ...]:
    items = [_forked(item, memo) for item in value]
    same = all(mine is theirs for mine, theirs in zip(items, value, strict=True))  # if nothing changed, it is shared
    made = memo[id(value)] = value if same else tuple(items)
    return made


def _set(value: set[Any], memo: Memo) -> set[Any]:
    made = {_forked(item, memo) for item in value}
    memo[id(value)] = made
    return made


def _deque(value: deque[Any], memo: Memo) -> deque[Any]:
    made: deque[Any] = deque(maxlen=value.maxlen)
    memo[id(value)] = made
    made.extend([_forked(item, memo) for item in value])
    return made


COPIES: Final[dict[type, Callable[[Any, Memo], Any]]] = {
    list: _list,
    dict: lambda value, memo: _filled({}, value, memo),
    defaultdict: lambda value, memo: _filled(defaultdict(value.default_factory), value, memo),
    tuple: _tuple,
    set: _set,
    deque: _deque,
}


class _Shape(NamedTuple):
    """The fields of a dataclass: those that its constructor takes, in their order, and the rest."""

    taken: list[str]
    rest: list[str]
    frozen: bool


SHAPES: Final[dict[type, _Shape | None]] = {}  # by class; None: it is no dataclass


def _shape(kind: Any) -> _Shape | None:
    if not is_dataclass(kind):
        return None
    of, frozen = fields(kind), bool(kind.__dataclass_params__.frozen)  # type: ignore[union-attr]  # a class of ours
    return _Shape([field.name for field in of if field.init], [field.name for field in of if not field.init], frozen)


def _dataclass(value: Any, shape: _Shape, memo: Memo) -> Any:
    """Return a copy made by its constructor, since a compiled class can't be made without.

    A mutable one is added to the memo before its fields are copied, so that they may refer to it.
    """
    items = [getattr(value, name) for name in shape.taken]
    if shape.frozen:
        made = type(value)(*[_forked(item, memo) for item in items])
        memo[id(value)] = made
        return made
    made = type(value)(*items)
    memo[id(value)] = made
    for number, item in enumerate(items):
        if type(item) not in SAME:
            setattr(made, shape.taken[number], _forked(item, memo))
    for name in shape.rest:
        setattr(made, name, _forked(getattr(value, name), memo))
    return made
