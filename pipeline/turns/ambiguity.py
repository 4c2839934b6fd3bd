r"""A check for regular expressions that may take exponential time, since they can match some text in very many ways.

Python's `re` tries every way to read a text before it reports that there is no match. If a loop has two ways that read
the same text, each round doubles their number: `(a+)+`, `(a|a)*`, `(\w+\s?)*`. The pattern is converted to an automaton
whose states are its single characters (Glushkov's), and two readings are followed at once: an ambiguous loop is a cycle
in which they part and meet again (Weber and Seidl 1991, "exponential degree of ambiguity").
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]  # they have no public name
from typing import Any, Final

MAX_ROUNDS: Final = 8  # rounds; a repetition of at most this number does not count as a loop
SAMPLES: Final = "".join(map(chr, range(128))) + "\x85\xa0éßЖ中٣\u2028"
REPEATS: Final = (_constants.MAX_REPEAT, _constants.MIN_REPEAT)
COMMITTED: Final = (_constants.POSSESSIVE_REPEAT, _constants.ATOMIC_GROUP)  # they do not backtrack
LOOKS: Final = (_constants.ASSERT, _constants.ASSERT_NOT)

State = int


@dataclass(slots=True)
class PatternPiece:
    """A part of a pattern.

    `empty`: number of ways in which it matches the empty text; `first` and `last`: its states at both ends, each with
    its number of ways.
    """

    empty: int = 1
    first: Counter[State] = field(default_factory=Counter)
    last: Counter[State] = field(default_factory=Counter)
    loops: bool = False


def ambiguous(regex: str) -> bool:
    """Return True if a text can make the pattern try exponentially many ways.

    Raises re.error for an invalid pattern.
    """
    tree = _parser.parse(regex)
    automaton = _Automaton(SAMPLES + regex + regex.swapcase())
    automaton.piece(tree, tree.state.flags)
    return automaton.ambiguous()


class _Automaton:
    """States, each with the characters that it reads, and the number of ways from one to the next."""

    def __init__(self, samples: str) -> None:
        self._samples = sorted(set(samples))
        self._reads: list[frozenset[str]] = []
        self._ways: Counter[tuple[State, State]] = Counter()

    def piece(self, items: Iterable[tuple[Any, Any]], flags: int) -> PatternPiece:
        """Add a sequence of parts to the automaton, and return it."""
        whole = PatternPiece()
        for operation, value in items:
            part = self._part(operation, value, flags)
            self._connect(whole.last, part.first)
            first = whole.first + _times(part.first, whole.empty)
            last = part.last + _times(whole.last, part.empty)
            whole = PatternPiece(min(whole.empty * part.empty, 2), first, last, whole.loops or part.loops)
        return whole

    def _part(self, operation: Any, value: Any, flags: int) -> PatternPiece:
        if operation in REPEATS:
            least, most, body = value
            return self._repeated(least, most, body, flags)
        if operation in COMMITTED:
            least, body = (value[0], value[2]) if operation is _constants.POSSESSIVE_REPEAT else (1, value)
            inner = self.piece(body, flags)
            reads = frozenset[str]().union(*(self._reads[state] for state in inner.first))
            return self._state(reads, empty=int(inner.empty > 0 or least == 0))
        if operation is _constants.SUBPATTERN:
            _, added, removed, body = value
            return self.piece(body, (flags | added) & ~removed)
        if operation is _constants.BRANCH:
            return _either([self.piece(branch, flags) for branch in value[1]])
        if operation is _constants.GROUPREF_EXISTS:
            return _either([self.piece(branch or [], flags) for branch in value[1:]])
        if operation in LOOKS:
            self.piece(value[1], flags)
            return PatternPiece()
        if operation is _constants.AT:
            return PatternPiece()
        if operation is _constants.GROUPREF:
            return self._state(frozenset(self._samples), empty=1)
        return self._state(self._read_by(operation, value, flags), empty=0)

    def _repeated(self, least: int, most: Any, body: Any, flags: int) -> PatternPiece:
        inner = self.piece(body, flags)
        loops = most > MAX_ROUNDS or (most > 1 and inner.loops)
        if loops:
            self._connect(inner.last, inner.first)
        empty = min(inner.empty + (least == 0), 2)
        return PatternPiece(empty, inner.first, inner.last, inner.loops or loops)

    def _state(self, reads: frozenset[str], *, empty: int) -> PatternPiece:
        self._reads.append(reads)
        single = Counter({len(self._reads) - 1: 1})
        return PatternPiece(empty, single, single)

    def _read_by(self, operation: Any, value: Any, flags: int) -> frozenset[str]:
        state = _parser.State()
        state.str, state.flags = "", flags
        compiled: re.Pattern[str] = _compiler.compile(_parser.SubPattern(state, [(operation, value)]), flags)
        return frozenset(character for character in self._samples if compiled.fullmatch(character))

    def _connect(self, last: Counter[State], first: Counter[State]) -> None:
        for left, ways in last.items():
            for right, more in first.items():
                self._ways[left, right] += ways * more

    def ambiguous(self) -> bool:
        """Return True if two readings of one text part and meet again in a loop."""
        after: dict[State, set[State]] = defaultdict(set)
        for left, right in self._ways:
            after[left].add(right)
        if any(ways > 1 and left in _reached(right, after) for (left, right), ways in self._ways.items()):
            return True
        return any(self._parts(state, after) for state in list(after) if state in _reached(state, after, least=1))

    def _parts(self, state: State, after: Mapping[State, set[State]]) -> bool:
        pairs: dict[tuple[State, State], set[tuple[State, State]]] = {}
        back: dict[tuple[State, State], set[tuple[State, State]]] = defaultdict(set)
        todo = [(state, state)]
        while todo:
            pair = todo.pop()
            if pair in pairs:
                continue
            pairs[pair] = {
                (first, other)
                for first in after.get(pair[0], ())
                for other in after.get(pair[1], ())
                if self._reads[first] & self._reads[other]
            }
            for following in pairs[pair]:
                back[following].add(pair)
            todo += pairs[pair]
        return any(first != other for first, other in _reached((state, state), back))


def _either(pieces: list[PatternPiece]) -> PatternPiece:
    whole = PatternPiece(empty=0)
    for piece in pieces:
        loops = whole.loops or piece.loops
        whole = PatternPiece(
            min(whole.empty + piece.empty, 2), whole.first + piece.first, whole.last + piece.last, loops
        )
    return whole


def _times(states: Counter[State], ways: int) -> Counter[State]:
    return Counter({state: count * ways for state, count in states.items()} if ways else {})


def _reached(start: Any, edges: Mapping[Any, Iterable[Any]], *, least: int = 0) -> set[Any]:
    """Return the nodes that can be reached from `start`, in at least `least` steps (0 or 1)."""
    todo = list(edges.get(start, ())) if least else [start]
    reached: set[Any] = set()
    while todo:
        node = todo.pop()
        if node not in reached:
            reached.add(node)
            todo += edges.get(node, ())
    return reached
