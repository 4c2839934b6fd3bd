"""The plugin for Google's ADK: what its callbacks are called with is published, and what fails in it stays in it."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from turnmill import RunIdentity
from turnmill.errors import CallerError
from turnmill.identity import thread_uuid

BASE = "google.adk.plugins.base_plugin"
MODULE = "turnmill.integrations.google_adk"
UUID = "0198f3a2-5f0e-7c3a-9d51-2f6b8a1c4e77"


class BasePlugin:
    """As ADK has it; 1.x has no callback for errors of runs."""

    def __init__(self, name: str) -> None:
        self.name = name


class BasePlugin2(BasePlugin):
    async def on_run_error_callback(self, *, invocation_context: Any, error: Exception) -> None:
        """Do nothing."""


@dataclass
class Content:
    text: str

    def model_dump(self, **how: Any) -> dict[str, Any]:
        assert how["by_alias"]
        return {"role": "user", "parts": [{"text": self.text}]}


@dataclass
class Event:
    """As ADK's, which are pydantic models."""

    author: str
    text: str = ""
    partial: bool | None = None
    final: bool = True
    invocation_id: str = "i"
    content: Content | None = None

    def is_final_response(self) -> bool:
        return self.final

    def model_dump(self, **how: Any) -> dict[str, Any]:
        said = {"role": "model", "parts": [{"text": self.text}]}
        event = {"id": f"e-{self.text}", "author": self.author, "invocationId": self.invocation_id, "content": said}
        return event if self.partial is None else {**event, "partial": self.partial}


@dataclass
class Session:
    id: str = "s"
    app_name: str = "app"
    user_id: str = "u"
    events: list[Event] = field(default_factory=list)


@dataclass
class Agent:
    name: str
    parent: Agent | None = None

    @property
    def root_agent(self) -> Agent:
        return self if self.parent is None else self.parent.root_agent


@dataclass(eq=False)
class Context:
    session: Session
    agent: Agent = field(default_factory=lambda: Agent("weather"))
    invocation_id: str = "i"
    is_aborted: bool = False


def asked(text: str | None = "Weather?", **session: Any) -> Context:
    """A session whose newest event is what the user has said."""
    events = [Event("user", content=None if text is None else Content(text))]
    return Context(Session(events=events, **session))


@pytest.fixture
def adk(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The class of the plugin, beside an ADK with this base class; None: without ADK."""

    def load(base: type | None = BasePlugin2) -> Any:
        stand_in: Any = ModuleType(BASE)
        stand_in.BasePlugin = base
        monkeypatch.setitem(sys.modules, BASE, stand_in if base is not None else None)
        monkeypatch.delitem(sys.modules, MODULE, raising=False)
        return import_module(MODULE).AdkPlugin

    return load


async def spoken(plugin: Any, context: Context, *events: Event) -> None:
    await plugin.before_run_callback(invocation_context=context)
    for event in events:
        assert await plugin.on_event_callback(invocation_context=context, event=event) is None


ANSWER = Event("weather", "It rains.")
WHOLE = [[("user-prompt", "Weather?")], [("text", "It rains.")]]


async def test_an_invocation_is_a_run(adk: Any, heard: Any) -> None:
    plugin, context = adk()(), asked()
    await spoken(plugin, context, Event("weather", "It ", partial=True, final=False), ANSWER)
    await plugin.after_run_callback(invocation_context=context)
    (run,) = heard()
    assert (run.thread, run.first["agent_id"], run.first["dialect"]) == ("app:u:s", "weather", "google-adk")
    assert (run.end, run.said()) == ("complete", WHOLE)
    assert plugin.name == "turnmill"


async def test_a_session_that_adk_named_is_the_thread(adk: Any, heard: Any) -> None:
    plugin, context = adk()(name="mine"), asked(id=UUID)
    context.agent = Agent("forecast", parent=Agent("weather"))
    await spoken(plugin, context, ANSWER)
    await plugin.after_run_callback(invocation_context=context)
    (run,) = heard()
    assert (run.first["thread_id"], run.first["agent_id"], plugin.name) == (UUID, "weather", "mine")


async def test_the_program_may_say_which_run_it_is(adk: Any, heard: Any) -> None:
    def identify(context: Any) -> RunIdentity | None:
        user = context.session.user_id
        return None if user == "nobody" else RunIdentity(f"{user}-chat", agent_id="a", tenant="acme")

    plugin = adk()(identify=identify)
    for context in (asked(user_id="nobody"), asked(user_id="u")):
        await spoken(plugin, context, ANSWER)
        await plugin.after_run_callback(invocation_context=context)
    (run,) = heard()
    assert (run.thread, run.first["agent_id"], run.first["tenant"]) == ("u-chat", "a", "acme")
    assert run.first["thread_id"] == thread_uuid("u-chat", "acme")[0]


@pytest.mark.parametrize("end", ["complete", "aborted"])
async def test_who_stops_reading_behind_an_answer_has_all_of_it(adk: Any, heard: Any, end: str) -> None:
    plugin, context = adk()(), asked()

    async def runner() -> Any:
        await plugin.before_run_callback(invocation_context=context)
        try:
            event = Event("weather", "It rains.", final=end == "complete")
            await plugin.on_event_callback(invocation_context=context, event=event)
            yield event
            yield None
        finally:
            await plugin.after_run_callback(invocation_context=context)

    events = runner()
    await anext(events)
    await events.aclose()
    (run,) = heard()
    assert run.end == end


async def test_an_invocation_that_is_told_to_stop(adk: Any, heard: Any) -> None:
    plugin, context = adk()(), asked()
    await spoken(plugin, context, Event("weather", "It ", partial=True))
    context.is_aborted = True
    await plugin.after_run_callback(invocation_context=context)
    (run,) = heard()
    assert run.end == "aborted"


async def test_a_failure_is_in_the_thread(adk: Any, heard: Any) -> None:
    plugin, context = adk()(), asked()
    await spoken(plugin, context, ANSWER)
    await plugin.on_run_error_callback(invocation_context=context, error=ValueError("the model refuses"))
    await plugin.after_run_callback(invocation_context=context)
    (run,) = heard()
    assert (run.end, run.events[-1]) == ("error", {"error": "the model refuses"})
    assert run.turns()[-1]["completion_status"] == "interrupted"


@pytest.mark.parametrize(
    ("base", "failed", "end"),
    [(BasePlugin, "refused", "error"), (BasePlugin, None, "aborted"), (BasePlugin2, "refused", "aborted")],
)
async def test_an_invocation_that_goes_away_without_a_word(
    adk: Any, heard: Any, base: type, failed: str | None, end: str
) -> None:
    plugin, context = adk(base)(), asked()
    await spoken(plugin, context, ANSWER)
    if failed is not None:
        await plugin.on_model_error_callback(callback_context=context, llm_request=None, error=ValueError(failed))
    del context
    gc.collect()
    (run,) = heard()
    assert run.end == end
    assert ({"error": "refused"} in run.events) == (end == "error")


async def test_another_plugin_may_help_a_model_that_fails(adk: Any, heard: Any) -> None:
    plugin, context = adk(BasePlugin)(), asked()
    await spoken(plugin, context)
    await plugin.on_model_error_callback(callback_context=context, llm_request=None, error=ValueError("refused"))
    await plugin.on_event_callback(invocation_context=context, event=ANSWER)
    await plugin.after_run_callback(invocation_context=context)
    (run,) = heard()
    assert (run.end, run.said()) == ("complete", WHOLE)


async def test_an_agent_that_runs_as_a_tool_names_its_caller(adk: Any, heard: Any) -> None:
    plugin, context = adk()(), asked(id=UUID)
    await plugin.before_run_callback(invocation_context=context)

    async def tool(number: int) -> None:
        told = {"tool": None, "tool_args": {}, "tool_context": context}
        await plugin.before_tool_callback(**told)
        inner = asked(id=f"inner-{number}")
        inner.invocation_id = inner.session.events[0].invocation_id = f"i-{number}"
        await spoken(plugin, inner, ANSWER)
        await plugin.after_run_callback(invocation_context=inner)
        await plugin.after_tool_callback(**told, result={})

    await asyncio.gather(tool(1), tool(2))
    await plugin.after_run_callback(invocation_context=context)
    later = asked()
    await spoken(plugin, later, ANSWER)
    await plugin.after_run_callback(invocation_context=later)
    runs = {run.thread or UUID: run for run in heard()}
    outer, other, inner = runs.pop(UUID), runs.pop("app:u:s"), list(runs.values())
    for run in inner:
        assert run.first["run"]["parent_thread_id"] == UUID
        assert run.first["run"]["parent_run_id"] == outer.first["run_id"]
    assert "parent_run_id" not in other.first["run"]
    assert len(inner) == 2


@pytest.mark.parametrize("text", [None, "of another invocation", "of an agent"])
async def test_an_invocation_that_goes_on_has_no_new_word_of_the_user(adk: Any, heard: Any, text: str | None) -> None:
    plugin, context = adk()(), asked(text)
    newest = context.session.events[0]
    if text == "of another invocation":
        newest.invocation_id = "j"
    if text == "of an agent":
        newest.author = "weather"
    await spoken(plugin, context, ANSWER)
    await plugin.after_run_callback(invocation_context=context)
    (run,) = heard()
    assert "request" not in run.first["run"]
    assert [turn["turn_type"] for turn in run.turns()] == ["agent"]


async def test_no_failure_of_ours_reaches_the_runner(adk: Any, heard: Any, caplog: pytest.LogCaptureFixture) -> None:
    def identify(_: Any) -> None:
        raise KeyError("no such user")

    plugin, context = adk()(identify=identify), asked()
    for _ in range(2):
        await spoken(plugin, context, ANSWER)
        await plugin.after_run_callback(invocation_context=context)
    assert heard() == []
    said = [record for record in caplog.records if "invocation" in record.message]
    assert len(said) == 1
    assert said[0].exc_info is not None


def test_without_adk_there_is_no_plugin(adk: Any) -> None:
    with pytest.raises(CallerError, match="google-adk"):
        adk(None)()
