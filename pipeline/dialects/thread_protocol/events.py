"""ThreadProtocol itself as a wire: each event is one object of the specification, whole.

| type | object | what it does |
|---|---|---|
| user-turn | `turn`: UserTurn | a turn of the thread |
| agent-turn | `turn`: AgentTurn of 0.0.4 or 0.0.3 | a turn of the thread, upgraded |
| agent-config | `agent`: AgentConfig | registers the agent |
| thread-metadata | `title`, `metadata` | facts of the thread; later ones win, key by key |
| thread-link | `link`: ThreadLink, `from`: the thread it starts from | a link, of this thread by default |
| any other | | refused |

The object's fields may also stand beside `type`. An event that violates the specification is refused, with its path.
No event here ends a run: the publisher does.
"""

from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.assembly.dialect import Handler, Violation
from pipeline.turns.times import iso
from topics.findings import joined
from topics.json_text import Fields, list_of, object_of
from topics.thread_rules import check
from topics.thread_versions import OLD, upgrade
from turnmill.identity import is_uuid

# Numbers of rules that need earlier turns, which an event does not contain: a return may answer one of their calls.
ACROSS_TURNS: Final = frozenset({2})
ANY_THREAD: Final = "00000000-0000-0000-0000-000000000000"
ANY_TIME: Final = "1970-01-01T00:00:00Z"


def begin(builder: Builder) -> None:
    """Build no turn of the run itself: its events contain the turns."""
    builder.facts_only = True


def turn(turn_type: str) -> Handler:
    """Return the handler of turns of this type."""

    def handle(builder: Builder, event: Fields) -> None:
        given = _object(event, "turn")
        if given.get("turn_type", turn_type) != turn_type:
            raise Violation(f"turn.turn_type: {given['turn_type']!r:.80} can't be in an event {event['type']!r}")
        before = [newest for newest in builder.native[-1:] if newest["turn_type"] == "user"]
        document = _document(turns=[*before, {"turn_type": turn_type, **given}])
        _refuse({**document, "turns": document["turns"][-1:]}, "turns[0]", "turn")
        builder.native.append(document["turns"][-1])

    return handle


def agent_config(builder: Builder, event: Fields) -> None:
    """Register an agent. Its name defaults to its id, `created_at` to the event's time."""
    given = _object(event, "agent")
    agent_id = given["agent_id"]
    config = {"agent_name": agent_id, "created_at": iso(builder.at), **given}
    _refuse(_document(agents={agent_id: config}), joined("agents", agent_id), "agent")
    builder.agents.append(config)


def thread_metadata(builder: Builder, event: Fields) -> None:
    """Set title and metadata of the thread; later ones win, key by key."""
    facts = {key: value for key, value in event.items() if key != "type" and value is not None}
    _refuse(_document(**{key: facts[key] for key in ("title", "metadata") if key in facts}), "", "")
    if "metadata" in facts:
        facts["metadata"] = {**builder.thread.get("metadata", {}), **facts["metadata"]}
    builder.thread.update(facts)


def thread_link(builder: Builder, event: Fields) -> None:
    """Add a link, from this thread unless `from` names another."""
    link = _object(event, "link")
    _refuse(_document(relationships={"links": [link]}), "relationships.links[0]", "link")
    if link.get("from") is not None and not is_uuid(link["from"]):
        raise Violation(f"link.from: {link['from']!r:.80} is no UUID: name the thread that the link starts from")
    builder.links.append(link)


def unknown(builder: Builder, event: Fields) -> None:
    """Refuse an event of an unknown type."""
    raise Violation(f"type {event['type']!r:.80} is none of {', '.join(HANDLERS)}")


def finish(builder: Builder, end: str) -> None:
    """Register the publisher's agent if it has turns here and no event registered it."""
    context = builder.context
    known = {agent["agent_id"] for agent in builder.agents}
    speaks = any(turn.get("agent_id") == context.agent_id for turn in builder.native)
    if context.agent_name is not None and speaks and context.agent_id not in known:
        about = {"agent_id": context.agent_id, "agent_name": context.agent_name, **context.model()}
        builder.agents.append({**about, "created_at": iso(builder.began_at)})


def _object(event: Fields, key: str) -> Fields:
    """Return the event's object: under its key, or its fields beside `type`."""
    given = event.get(key)
    if given is None:
        return {name: value for name, value in event.items() if name != "type"}
    if not isinstance(given, dict):
        raise Violation(f"{key}: an object is expected, not {given!r:.80}")
    return dict(given)


def _document(*, turns: list[Any] | None = None, agents: Fields | None = None, **facts: Any) -> Fields:
    """Return the smallest thread with these pieces, upgraded to the newest version."""
    known: Fields = agents or {}
    for item in turns or ():
        for speaker in (item, *list_of(item.get("messages"))):
            speaks = object_of(speaker).get("agent_id")
            if isinstance(speaks, str):
                known.setdefault(speaks, {"agent_id": speaks, "agent_name": speaks, "created_at": ANY_TIME})
    frame = {"version": OLD, "thread_id": ANY_THREAD, "created_at": ANY_TIME, "updated_at": ANY_TIME}
    return upgrade({**frame, **facts, "agents": known, "turns": turns or []})


def _refuse(document: Fields, replaced: str, name: str) -> None:
    """Raise Violation if the document breaks a rule, with the path in the event: `name` instead of `replaced`."""
    wrong = [finding for finding in check(document) if finding.severity == "error" and finding.rule not in ACROSS_TURNS]
    if wrong:
        path = wrong[0].path.replace(replaced, name, 1)
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise Violation(f"{path}: {wrong[0].message}{more}")


HANDLERS: Final[dict[str, Handler]] = {
    "user-turn": turn("user"),
    "agent-turn": turn("agent"),
    "agent-config": agent_config,
    "thread-metadata": thread_metadata,
    "thread-link": thread_link,
}
