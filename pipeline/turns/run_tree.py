"""The runs of a thread as a tree, built from the `lineage` of their records. Pure.

Whether a run is another version of an earlier one, or follows it, is determined by the first of these that tells:

1. its publisher: `replaces`, `continues`; or the mark of an imported turn
2. the response that its model's server continued from
3. the state of the conversation at which it began, if its server keeps states: if that is the last state of a run, it
   follows this run; if it is an earlier one, or another run began at it, it is another version of that run
4. the client's id of the user's message, if it was used before: it is another version of that run
5. the history that its request repeats: it follows the run with this history; of several, the one whose answer is in
   the history, else the newest. Of an agent's runs that follow the same one, a branch has one

If none does, it follows the newest run before it, and is no version of another run. So a first request of which only
the words are known is no version: two conversations may begin alike, and servers that keep the history themselves
send only the newest words. A run that another run of the thread started belongs to that one.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from pipeline.turns.branches import BRANCH, VERSION, Run, add_turn, run_name
from topics.json_text import Fields, object_of, present
from topics.turn_record import TurnRecord

UNPLACED: Final = frozenset({"words", "answer", "beside", "checkpoints"})  # they don't say what a run follows

Marks = Mapping[str, Fields]  # the position of each run, by its name; empty if the thread does not fork


def marked_turns(records: Iterable[TurnRecord]) -> list[Fields]:
    """Return the turns of a thread's records, which are in order; if the thread forks, each with `meta:branch`.

    See `pipeline.turns.branches`. Time and memory are linear in the turns.
    """
    turns = [(record, record["turn"]) for record in records if record["turn"] is not None]
    if not any(map(may_fork, (record for record, _ in turns))):
        return [turn for _, turn in turns]
    runs: dict[str, Run] = {}
    for record, turn in turns:
        add_turn(runs, record, turn)
    marks = marks_of(runs)
    return [marked(record, turn, marks) for record, turn in turns]


def may_fork(record: TurnRecord) -> bool:
    """Return True if a record says what its run follows: a thread without any such record does not fork."""
    facts = object_of(record.get("lineage"))
    return bool(facts.keys() - UNPLACED) or not facts.get("words", True) or BRANCH in (record["turn"] or ())


def marks_of(runs: Mapping[str, Run]) -> Marks:
    """Return the marks of a thread's runs, which are in the order of their first turns."""
    _Tree(runs).grow()
    versions = _versions(runs.values())
    return {run_id: _mark(run, versions.get(run_id)) for run_id, run in runs.items()} if versions else {}


def marked(record: TurnRecord, turn: Fields, marks: Marks) -> Fields:
    """Return a record's turn with the mark of its run; without any if `marks` has none."""
    mark = marks.get(run_name(record, turn)) if marks else None
    if mark is not None:
        return {**turn, BRANCH: mark}
    return {key: value for key, value in turn.items() if key != BRANCH} if BRANCH in turn else turn


class _Tree:
    """The runs placed so far, by the keys with which later runs may refer to them; the newest run for each key."""

    def __init__(self, runs: Mapping[str, Run]) -> None:
        self._runs = runs
        self._placed: dict[str, Run] = {}
        self._newest: Run | None = None
        self._known: dict[tuple[str, ...], Run] = {}

    def grow(self) -> None:
        """Place each run."""
        for run in self._runs.values():
            for waiting in reversed(self._waiting(run)):
                self._place(waiting)

    def _waiting(self, run: Run) -> list[Run]:
        """Return the run, followed by its ancestors that are not placed yet.

        They are placed first: a child may be dated before its parent, since clocks differ.
        """
        waiting: dict[str, Run] = {}
        at: Run | None = run
        while at is not None and at.run_id not in self._placed and at.run_id not in waiting:
            waiting[at.run_id] = at
            names = (at.parent_run, at.lineage.get("replaces"), at.lineage.get("continues"))
            at = next((self._runs[name] for name in names if isinstance(name, str) and name in self._runs), None)
        return list(waiting.values())

    def _place(self, run: Run) -> None:
        self._placed[run.run_id] = run
        lineage, parent = run.lineage, self._named(run, run.parent_run)
        if parent is not None:
            run.follows = parent
            return
        before = self._before(run)
        version = self._version_of(run, before)
        if version is not None:
            version.stated = True
            run.replaces, run.follows, run.group = version, version.follows, version.group
        else:
            run.follows = before or (None if lineage.get("first") else self._newest)
            run.group = (run.follows.run_id if run.follows else None, run.agent_id)
        run.stated = (version or before) is not None and not lineage.get("beside")
        self._remember(run)

    def _version_of(self, run: Run, before: Run | None) -> Run | None:
        lineage = run.lineage
        replaced = self._named(run, lineage.get("replaces"))
        if replaced is not None or "continues" in lineage:
            return replaced
        forked = self._forked(run)
        if forked is not None or lineage.get("goes_on"):
            return forked
        words, agent = str(lineage.get("words")), run.agent_id
        if lineage.get("again"):
            return self._known.get(("question", words))
        asked = self._known.get(("asked", agent, str(lineage["asked"]))) if "asked" in lineage else None
        if asked is not None or before is None:
            return asked
        same = self._known.get(("question", agent, words))
        return same if same is not None and same.follows is before else None

    def _forked(self, run: Run) -> Run | None:
        """Return the run that saved the state at which this one began, and went on; or that began there, too."""
        at = run.lineage.get("checkpoint")
        if at is None or ("end", at) in self._known:
            return None
        return self._known.get(("left", at)) or self._known.get(("began", run.agent_id, at))

    def _before(self, run: Run) -> Run | None:
        lineage = run.lineage
        history = str(lineage.get("words" if lineage.get("goes_on") else "earlier", ""))
        return (
            self._named(run, lineage.get("continues"))
            or self._known.get(("response", str(lineage.get("follows", ""))))
            or self._known.get(("end", str(lineage.get("checkpoint", ""))))
            or self._known.get(("history", history, str(lineage.get("answer", ""))))
            or self._known.get(("history", history))
        )

    def _named(self, run: Run, run_id: object) -> Run | None:
        named = self._placed.get(run_id) if isinstance(run_id, str) else None
        return None if named is run else named

    def _remember(self, run: Run) -> None:
        self._newest = run
        lineage, known = run.lineage, self._known
        known.update((("response", response), run) for response in run.responses)
        if "checkpoint" in lineage:
            known["began", run.agent_id, lineage["checkpoint"]] = run
        for checkpoint in lineage.get("checkpoints", ()):
            known["left", checkpoint] = run
        for checkpoint in lineage.get("checkpoints", ())[-1:]:
            known["end", checkpoint] = run
        if "asked" in lineage:
            known["asked", run.agent_id, str(lineage["asked"])] = run
        if "words" in lineage:
            words = str(lineage["words"])
            known["history", words] = run
            known["history", words, run.answer] = run
            if not lineage.get("goes_on"):
                known["question", words] = known["question", run.agent_id, words] = run


def _versions(runs: Iterable[Run]) -> dict[str, Fields]:
    """Return, by run, its number among alternative runs, of which a branch has one; only where there are several."""
    groups: dict[tuple[str | None, str], list[str]] = defaultdict(list)
    for run in runs:
        if run.stated:
            groups[run.group].append(run.run_id)
    return {
        run_id: _version(versions, at)
        for versions in groups.values()
        if len(versions) > 1
        for at, run_id in enumerate(versions)
    }


def _version(versions: list[str], at: int) -> Fields:
    """Return a run's position among versions, of constant size: a list of all in each would grow quadratically."""
    before = versions[at - 1] if at > 0 else None
    after = versions[at + 1] if at + 1 < len(versions) else None
    version = {"number": at + 1, "of": len(versions), "first": versions[0]}
    return version | present({"before": before, "next": after})


def _mark(run: Run, version: Fields | None) -> Fields:
    replaces = run.replaces.run_id if run.replaces else None
    follows = run.follows.run_id if run.follows else None
    return {"run": run.run_id, "follows": follows, **present({"replaces": replaces, VERSION: version})}
