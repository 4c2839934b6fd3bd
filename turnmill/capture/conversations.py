"""The conversation that a model call belongs to, and the call that it follows or replaces. Pure: no I/O, no clock.

The first of these rules that applies counts:

1. A request that failed, and is sent again with the same body by the same client, is the same run.
2. The thread that the request names (`turnmill.capture.reading`); within it, 3 and 4 say which call it follows.
3. `previous_response_id`: it follows the call that returned that response.
4. Its history. A request that begins with the messages of a known call and its answer follows that call; the longest
   such beginning counts. If several calls have it, the first counts that no other call has followed yet.
5. Any other request begins a conversation, whose thread has the id of its first run.

If other calls already follow the same call, the new call replaces the newest of them: it is another version, a branch.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

from turnmill.capture.normal import ASSISTANT, NormalMessage, chain, merged
from turnmill.capture.reading import RequestNames
from turnmill.errors import InvalidRecord
from turnmill.shares import Shares
from turnmill.wire.envelope import encode, loads

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

MAX_ANSWERS: Final = 20_000  # answers that are remembered: about 10 MB
MAX_ALIKE: Final = 8  # answers with the same history that are remembered
MAX_FAILED: Final = 1_000  # failed calls that may be retried
ANSWERED_HEADER: Final = "turnmill-answered"
MAX_HEADER_BYTES: Final = 4_000  # of the header
MAX_KEYS: Final = 4


@dataclass(frozen=True, slots=True)
class Asked:
    """The facts about a request that determine its position in a conversation.

    `scope`: the tenant, to whose conversations it must belong. `attempt`: equal for equal requests of the same client.
    """

    scope: str
    messages: Sequence[NormalMessage]
    names: RequestNames
    attempt: object


@dataclass(frozen=True, slots=True)
class CallPlace:
    """The position of a call: its thread, run, and predecessor. `again`: it is another attempt of a run that failed."""

    thread: str
    run: str
    continues: str | None = None
    replaces: str | None = None
    again: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """A call and its answer, as other processes receive it. `keys`: how requests find it. `after`: its predecessor."""

    scope: str
    thread: str
    run: str
    keys: tuple[bytes | str, ...]
    after: str | None = None


class _Answered(NamedTuple):
    thread: str
    run: str


class Remembered(Generic[Key, Value]):
    """A bounded memory by scope and key, in the order of last use. Each scope has its share. No value is None."""

    def __init__(self) -> None:
        self._of: dict[str, OrderedDict[Key, Value]] = {}
        self._shares = Shares()

    def __len__(self) -> int:
        return self._shares.total

    def get(self, scope: str, key: Key) -> Value | None:
        """Return a value; None if it is not known."""
        mine = self._of.get(scope)
        return None if mine is None else mine.get(key)

    def touch(self, scope: str, key: Key) -> None:
        """Mark a known value as last used."""
        self._of[scope].move_to_end(key)

    def pop(self, scope: str, key: Key) -> Value | None:
        """Forget a value and return it; None if it is not known."""
        mine = self._of.get(scope, OrderedDict())
        if key not in mine:
            return None
        value = mine.pop(key)
        self._dropped(scope)
        return value

    def put(self, scope: str, key: Key, value: Value, most: int) -> None:
        """Remember a new value. If there are more than `most`, forget the oldest of the scope that has most."""
        self._of.setdefault(scope, OrderedDict())[key] = value
        self._shares.add(scope, 1)
        while self._shares.total > most:
            fullest = self._shares.most() or ""
            self._of[fullest].popitem(last=False)
            self._dropped(fullest)

    def _dropped(self, scope: str) -> None:
        self._shares.add(scope, -1)
        if not self._of[scope]:
            del self._of[scope]


@dataclass(slots=True, eq=False)
class Conversations:
    """The calls that a process remembers, at most `most`: the oldest of the scope that has most is forgotten."""

    most: int = MAX_ANSWERS
    _known: Remembered[bytes | str, list[_Answered]] = field(default_factory=Remembered)
    _failed: Remembered[object, deque[CallPlace]] = field(default_factory=Remembered)
    _named: Remembered[tuple[str, str], int] = field(default_factory=Remembered)
    _followers: Remembered[tuple[str, str], str] = field(default_factory=Remembered)  # run -> its newest follower

    def __len__(self) -> int:
        return len(self._known)

    def place(self, asked: Asked, run_id: str) -> CallPlace:
        """Return the position of a call; `run_id` is a new id, for a run that the request doesn't name."""
        failed = self._failed.get(asked.scope, asked.attempt)
        if failed:
            call = failed.popleft()
            if not failed:
                self._failed.pop(asked.scope, asked.attempt)
            return CallPlace(call.thread, call.run, call.continues, call.replaces, again=True)
        before = self._before(asked)
        thread = asked.names.thread or (before.thread if before else run_id)
        run, first = self._run(asked, thread, run_id)
        if before is None:
            return CallPlace(thread, run, continues=first)
        replaces = self._follow(asked.scope, before.thread, before.run, run)
        return CallPlace(thread, run, before.run, replaces)

    def answered(
        self, position: CallPlace, asked: Asked, answer: NormalMessage | None, response_id: str | None = None
    ) -> Fact:
        """Remember the answer to a call. Return it as a fact for other processes."""
        keys: list[bytes | str] = []
        if answer is not None:
            *_, last = chain(merged([*asked.messages, answer]))
            keys.append(last)
        if response_id is not None:
            keys.append(response_id)
        fact = Fact(asked.scope, position.thread, position.run, tuple(keys), position.continues)
        self.learn(fact)
        return fact

    def learn(self, fact: Fact) -> None:
        """Remember a fact of any process; a repeated fact changes nothing."""
        for key in fact.keys:
            alike = self._known.pop(fact.scope, key) or []
            if not any(answered.run == fact.run and answered.thread == fact.thread for answered in alike):
                alike.append(_Answered(fact.thread, fact.run))
                del alike[:-MAX_ALIKE]
            self._known.put(fact.scope, key, alike, self.most)
        if fact.after is not None and self._followers.get(fact.scope, (fact.thread, fact.after)) is None:
            self._follow(fact.scope, fact.thread, fact.after, fact.run)

    def failed(self, position: CallPlace, asked: Asked) -> None:
        """Note a call that failed and may be retried: the next equal request belongs to its run."""
        failed = self._failed.pop(asked.scope, asked.attempt) or deque()
        failed.append(position)
        self._failed.put(asked.scope, asked.attempt, failed, MAX_FAILED)

    def given_up(self, position: CallPlace, asked: Asked) -> None:
        """Forget a failed call that was not retried."""
        failed = self._failed.pop(asked.scope, asked.attempt) or ()
        left = deque(call for call in failed if call.run != position.run or call.thread != position.thread)
        if left:
            self._failed.put(asked.scope, asked.attempt, left, MAX_FAILED)

    def _before(self, asked: Asked) -> _Answered | None:
        """Return the call that this call follows."""
        if asked.names.response is not None:
            return self._known_answer(asked, asked.names.response)
        hashes = list(zip(asked.messages, chain(asked.messages), strict=True))
        ends = (key for message, key in reversed(hashes) if message.role == ASSISTANT)
        return next((answered for key in ends if (answered := self._known_answer(asked, key)) is not None), None)

    def _known_answer(self, asked: Asked, key: bytes | str) -> _Answered | None:
        alike = self._known.get(asked.scope, key) or ()
        fit = [answered for answered in alike if asked.names.thread in (None, answered.thread)]
        if not fit:
            return None
        self._known.touch(asked.scope, key)
        free = (
            answered for answered in fit if self._followers.get(asked.scope, (answered.thread, answered.run)) is None
        )
        return next(free, fit[-1])

    def _follow(self, scope: str, thread: str, before: str, run: str) -> str | None:
        """Note that a run follows another; return the run that was the newest follower until now."""
        newest = self._followers.pop(scope, (thread, before))
        self._followers.put(scope, (thread, before), run, self.most)
        return newest

    def _run(self, asked: Asked, thread: str, run_id: str) -> tuple[str, str | None]:
        """Return the run's id, and the run that it follows if the request reuses a run's name: then it is NAME.2."""
        named = asked.names.run
        if named is None:
            return run_id, None
        number = (self._named.pop(asked.scope, (thread, named)) or 0) + 1
        self._named.put(asked.scope, (thread, named), number, self.most)
        return (
            (named, None) if number == 1 else (f"{named}.{number}", named if number == 2 else f"{named}.{number - 1}")
        )


def headers_of_fact(fact: Fact) -> list[tuple[str, bytes]]:
    """Return the headers that tell other processes of a call; none without keys by which to recognize a request.

        turnmill-answered    {"thread": …, "run": …, "keys": [hash or id of the response, …], "after": …}

    A hash is made of the conversation so far, and reveals nothing of it. Only the record itself determines the tenant.
    """
    keys = [{"hash": key.hex()} if isinstance(key, bytes) else {"response": key} for key in fact.keys]
    if not keys:
        return []
    value = encode({"thread": fact.thread, "run": fact.run, "keys": keys, "after": fact.after})
    return [(ANSWERED_HEADER, value)] if len(value) <= MAX_HEADER_BYTES else []


def fact_of(record_headers: Sequence[tuple[str, bytes | None]], scope: str) -> Fact | None:
    """Return the fact in a record's headers; None if there is none. `scope`: the tenant that the record names."""
    value = next((value for name, value in record_headers if name == ANSWERED_HEADER), None)
    if value is None or len(value) > MAX_HEADER_BYTES:
        return None
    try:
        fields = loads(value)
        keys = tuple(
            bytes.fromhex(key["hash"]) if "hash" in key else str(key["response"]) for key in fields["keys"][:MAX_KEYS]
        )
        thread, run, after = fields["thread"], fields["run"], fields.get("after")
    except (InvalidRecord, KeyError, TypeError, ValueError, AttributeError):
        return None
    if not isinstance(thread, str) or not isinstance(run, str) or not isinstance(after, str | None):
        return None
    return Fact(scope, thread, run, keys, after)
