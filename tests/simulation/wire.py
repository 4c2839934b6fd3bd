"""The wire that simulated agents speak: the toy, and events for what only some wires can do to a store."""

import re
from dataclasses import replace
from typing import Any, Final

from pipeline.assembly.builder import Builder
from pipeline.turns.lineage import History
from tests.support.toy import OTHER, TOY, Event

# What an event says: whose it is. Every text of a schedule carries one, so that a stored turn tells what it holds.
MARK: Final = re.compile(r"<([^|<>]*)\|([^|<>]*)\|(\d+)>")


def mark(tenant: str | None, run: str, seq: int) -> str:
    """The mark of an event."""
    return f"<{tenant or ''}|{run}|{seq}>"


def marks(text: str) -> frozenset[tuple[str, str, int]]:
    """All marks in a text."""
    return frozenset((tenant, run, int(seq)) for tenant, run, seq in MARK.findall(text))


def _tool(builder: Builder, event: Event) -> None:
    """A call and its result, of any size."""
    builder.tool_call(event["id"], "t", {"q": event["mark"]})
    builder.tool_return(event["id"], content=event["result"], status="success")


def _agent(builder: Builder, event: Event) -> None:
    """An agent's configuration, as the stream has it."""
    builder.agents.append({"agent_id": event["id"], "agent_name": event["id"], "instructions": event["mark"]})


def _facts(builder: Builder, event: Event) -> None:
    """The same from a run that takes no turn."""
    builder.facts_only = True
    _agent(builder, event)


def _title(builder: Builder, event: Event) -> None:
    """What the run says of its thread."""
    builder.thread["title"] = event["title"]


def _native(builder: Builder, event: Event) -> None:
    """A turn that came as ThreadProtocol: it is over with its event."""
    builder.facts_only = True
    builder.native.append({"turn_type": "user", "submitted_at": "2026-01-20T10:00:00.000Z", "parts": event["parts"]})


MORE: Final = {"tool": _tool, "agent": _agent, "facts": _facts, "title": _title, "native": _native}


def _begin(builder: Builder) -> None:
    """A request is a prompt, or a conversation: then it brings the user's newest words, unless it asks again."""
    request = builder.context.request
    if not isinstance(request, dict):
        TOY.begin(builder)
    elif not request["again"]:
        content = "".join(request["messages"][-1]["content"])
        builder.user_turn([{"part_kind": "user-prompt", "content": content}])


def _repeated(request: Any) -> History:
    return History(request["messages"], again=request["again"]) if isinstance(request, dict) else History()


SIM: Final = replace(TOY, name="sim", handlers={**TOY.handlers, **MORE}, begin=_begin, history=_repeated)
WIRES: Final[dict[str, Any]] = {"sim": SIM, "other": OTHER}
