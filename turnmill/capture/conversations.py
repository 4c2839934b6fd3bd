"""The conversation that a model call belongs to, and the call that it follows or replaces. Pure: no I/O, no clock.

The first of these rules that applies counts:

1. A request that failed, and is sent again by the same client, is the same run: with the same body; with the whole
   history where the server had lost the conversation that it keeps; or for the rest of an answer that broke off.
2. The thread that the request names (`turnmill.capture.reading`); within it, 3 and 4 say which call it follows.
3. The response that the request continues: it follows the call that returned that response.
4. Its history. A request that begins with the messages of a known call and its answer follows that call; the longest
   such beginning counts. If several calls have it, the first counts that no other call has followed yet.
5. Any other request begins a conversation, whose thread has the id of its first run.

What a program asks beside the conversation, with its whole history, follows a call in this way, and no call follows it.
If other calls already follow the same call, the new call replaces the newest of them: it is another version, a branch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from turnmill.capture.attempts import Attempts
from turnmill.capture.normal import ASSISTANT, NormalMessage, chain, joined, since_compaction, stripped
from turnmill.capture.reading import RequestNames
from turnmill.errors import InvalidRecord
from turnmill.pools import ANSWERS, FOLLOWERS, LEFT_OUT, NAMED
from turnmill.remembered import Remembered
from turnmill.wire.envelope import encode, loads

MAX_ALIKE: Final = 8  # answers with the same history that are remembered
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
    client: str = ""


class Kept(NamedTuple):
    """What a server keeps of a conversation of which a request sends the newest messages alone.

    `said`: the hash of its messages; None if unknown. `answer`: a model's message behind them, which goes on.
    """

    said: bytes | None = None
    answer: NormalMessage | None = None

    def and_then(self, messages: Sequence[NormalMessage], *, goes_on: bool = False) -> Kept:
        """Return the conversation with these messages. `goes_on`: the last one may continue in a later answer."""
        if self.said is None:
            return Kept()
        said = joined([*(() if self.answer is None else [self.answer]), *messages])
        recent = since_compaction(said)
        before = self.said if recent is said else b""
        answer = recent.pop() if goes_on and recent and recent[-1].role == ASSISTANT else None
        *_, last = before, *chain(stripped(recent), before)
        return Kept(last, answer)


ALL_SENT: Final = Kept(b"")  # the request has the whole conversation


@dataclass(frozen=True, slots=True)
class CallPlace:
    """The position of a call: its thread, run, and predecessor.

    `again`: it is another attempt of a run that failed. `kept`: what comes before the messages of its request.
    """

    thread: str
    run: str
    continues: str | None = None
    replaces: str | None = None
    again: bool = False
    kept: Kept = field(default=ALL_SENT, compare=False)


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
    kept: Kept


@dataclass(slots=True, eq=False)
class Conversations:
    """The calls that a process remembers."""

    _known: Remembered[bytes | str, list[_Answered]] = field(default_factory=partial(Remembered, ANSWERS))
    _failed: Attempts[CallPlace] = field(default_factory=Attempts)
    _left_out: Remembered[str, Mapping[str, Any]] = field(default_factory=partial(Remembered, LEFT_OUT))
    _named: Remembered[tuple[str, str], int] = field(default_factory=partial(Remembered, NAMED))
    _followers: Remembered[tuple[str, str], str] = field(  # run -> its newest follower
        default_factory=partial(Remembered, FOLLOWERS)
    )

    def __len__(self) -> int:
        return len(self._known)

    def place(self, asked: Asked, run_id: str) -> CallPlace:
        """Return the position of a call; `run_id` is a new id, for a run that the request doesn't name."""
        named = None if asked.names.response is None else self._known_answer(asked, asked.names.response)
        unknown = Kept() if asked.names.response is not None and not asked.names.resumes else ALL_SENT
        kept = unknown if named is None else named.kept
        failed = self._failed.take(asked.scope, _attempts(asked, kept)) if len(self._failed) else None
        if failed is not None:
            return CallPlace(failed.thread, failed.run, failed.continues, failed.replaces, again=True, kept=kept)
        before = named or self._before(asked)
        thread = asked.names.thread or (before.thread if before else run_id)
        run, first = self._run(asked, thread, run_id)
        if before is None:
            return CallPlace(thread, run, continues=first, kept=kept)
        if asked.names.beside:
            return CallPlace(thread, run, before.run, kept=kept)
        replaces = self._follow(asked.scope, before.thread, before.run, run)
        return CallPlace(thread, run, before.run, replaces, kept=kept)

    def answered(
        self,
        position: CallPlace,
        asked: Asked,
        answer: NormalMessage | None,
        response_id: str | None = None,
        *,
        goes_on: bool = False,
        left_out: Mapping[str, Any] | None = None,
    ) -> Fact:
        """Remember the answer to a call. Return it as a fact for other processes.

        `goes_on`: the answer to a later request continues this one. `left_out`: what that request need not repeat.
        """
        said = [*_new(asked, position.kept), *(() if answer is None else [answer])]
        last = position.kept.and_then(said).said
        ids: list[bytes | str | None] = [None if answer is None else last, response_id]
        keys = () if asked.names.beside else tuple(key for key in ids if key is not None)
        after = None if asked.names.beside else position.continues
        fact = Fact(asked.scope, position.thread, position.run, keys, after)
        self.learn(fact, position.kept.and_then(said, goes_on=goes_on))
        if response_id is not None and left_out:
            self._left_out.pop(asked.scope, response_id)
            self._left_out.put(asked.scope, response_id, left_out)
        return fact

    def left_out(self, asked: Asked) -> Mapping[str, Any] | None:
        """Return what a request need not repeat of those before it; None if nothing is known."""
        response = asked.names.response
        return None if response is None else self._left_out.get(asked.scope, response)

    def learn(self, fact: Fact, kept: Kept | None = None) -> None:
        """Remember a fact of any process; a repeated fact changes nothing. `kept`: what the server keeps then."""
        if kept is None:
            kept = Kept(next((key for key in fact.keys if isinstance(key, bytes)), None))
        for key in fact.keys:
            alike = self._known.pop(fact.scope, key) or []
            if not any(answered.run == fact.run and answered.thread == fact.thread for answered in alike):
                alike.append(_Answered(fact.thread, fact.run, kept))
                del alike[:-MAX_ALIKE]
            self._known.put(fact.scope, key, alike)
        if fact.after is not None and self._followers.get(fact.scope, (fact.thread, fact.after)) is None:
            self._follow(fact.scope, fact.thread, fact.after, fact.run)

    def failed(self, position: CallPlace, asked: Asked, response_id: str | None = None) -> None:
        """Note a call that failed and may be retried: the next attempt belongs to its run.

        `response_id`: that of the part of its answer that came.
        """
        in_part = asked.names.in_thread or asked.names.response is not None
        keys = _attempts(asked, position.kept if in_part else Kept())
        rest = [] if response_id is None else [("the rest of", response_id)]
        self._failed.add(asked.scope, position, [*keys, *rest])

    def given_up(self, scope: str, position: CallPlace, attempt: object) -> None:
        """Forget a failed call that was not retried."""
        self._failed.drop(scope, position, attempt)

    def _before(self, asked: Asked) -> _Answered | None:
        """Return the call whose messages and answer the request begins with."""
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
        self._followers.put(scope, (thread, before), run)
        return newest

    def _run(self, asked: Asked, thread: str, run_id: str) -> tuple[str, str | None]:
        """Return the run's id, and the run that it follows if the request reuses a run's name: then it is NAME.2."""
        named = asked.names.run
        if named is None:
            return run_id, None
        number = (self._named.pop(asked.scope, (thread, named)) or 0) + 1
        self._named.put(asked.scope, (thread, named), number)
        return (
            (named, None) if number == 1 else (f"{named}.{number}", named if number == 2 else f"{named}.{number - 1}")
        )


def _new(asked: Asked, kept: Kept) -> Sequence[NormalMessage]:
    """Return the messages of a request that the server does not keep."""
    return () if asked.names.resumes and kept is not ALL_SENT else asked.messages


def _attempts(asked: Asked, kept: Kept) -> list[object]:
    """Return what a request has in common with the call of which it may be another attempt.

    The whole conversation counts if either request left its beginning to the server.
    """
    rest = [("the rest of", asked.names.response)] if asked.names.resumes else []
    said = kept.and_then(_new(asked, kept)).said
    return [asked.attempt, *rest, *([] if said is None else [(asked.client, said)])]


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
