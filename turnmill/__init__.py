"""Publish the events of an agent's runs, and consume the finished turns.

    from turnmill import Publisher

    async with Publisher() as publisher:
        async with publisher.run(thread_id="chat-17", agent_id="weather", dialect="vercel-ai") as run:
            async for chunk in run.tee(chunks):  # unchanged, and published on the way
                yield chunk

    async for turn in Turns(group="billing"):
        ...

See `docs/publishing.md` and `docs/consuming.md`. A public name is loaded when it is first used; the Kafka client and
pydantic are loaded when something is published or consumed. Nothing here imports `pipeline` or `topics`, since a
program may have modules of these names. Only the command (`turnmill.command_line`) does, if the server is installed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

_NAMES: Final = {  # module -> the public names that it defines
    "turnmill.capture.clients": ("async_client", "client", "transport"),
    "turnmill.capture.runtime": ("flush",),
    "turnmill.consume.notice": ("Notice",),
    "turnmill.consume.synchronous": ("SyncNotices", "SyncTurns"),
    "turnmill.consume.turns": ("Notices", "Turn", "Turns"),
    "turnmill.control.answer_forms": ("resumption",),
    "turnmill.control.answer_reader": ("answers",),
    "turnmill.control.claims": ("Answer", "answer_id"),
    "turnmill.control.steering": ("Steer",),
    "turnmill.control.stopping": ("RunStopped",),
    "turnmill.environment": ("load_settings",),
    "turnmill.errors": ("BrokerError", "CallerError", "InvalidRecord", "Reason", "TurnmillError"),
    "turnmill.integrations.ag_ui": ("ag_ui_events",),
    "turnmill.integrations.asgi": ("PublishStreams",),
    "turnmill.integrations.claude_agent": ("claude_client", "claude_query"),
    "turnmill.integrations.google_adk": ("AdkPlugin",),
    "turnmill.integrations.langchain": ("langchain_handler",),
    "turnmill.integrations.openai_agents": ("openai_agents_processor",),
    "turnmill.integrations.pydantic_ai": ("agent_events", "published_response"),
    "turnmill.integrations.stream_request": ("RunIdentity", "StreamRequest"),
    "turnmill.publish.counts": ("Report",),
    "turnmill.publish.feedback": ("feedback",),
    "turnmill.publish.publisher": ("Publisher",),
    "turnmill.publish.run": ("PublishedRun",),
    "turnmill.publish.run_info": ("RunInfo",),
    "turnmill.publish.synchronous": ("SyncPublisher", "SyncRun"),
    "turnmill.settings": ("ClientSettings",),
}
PUBLIC: Final = {name: module for module, names in _NAMES.items() for name in names}
__all__ = sorted(PUBLIC)  # noqa: PLE0605  # a list of strings

if TYPE_CHECKING:  # the same names for type checkers, which do not follow `__getattr__`
    __version__: str
    from turnmill.capture.clients import async_client as async_client
    from turnmill.capture.clients import client as client
    from turnmill.capture.clients import transport as transport
    from turnmill.capture.runtime import flush as flush
    from turnmill.consume.notice import Notice as Notice
    from turnmill.consume.synchronous import SyncNotices as SyncNotices
    from turnmill.consume.synchronous import SyncTurns as SyncTurns
    from turnmill.consume.turns import Notices as Notices
    from turnmill.consume.turns import Turn as Turn
    from turnmill.consume.turns import Turns as Turns
    from turnmill.control.answer_forms import resumption as resumption
    from turnmill.control.answer_reader import answers as answers
    from turnmill.control.claims import Answer as Answer
    from turnmill.control.claims import answer_id as answer_id
    from turnmill.control.steering import Steer as Steer
    from turnmill.control.stopping import RunStopped as RunStopped
    from turnmill.environment import load_settings as load_settings
    from turnmill.errors import BrokerError as BrokerError
    from turnmill.errors import CallerError as CallerError
    from turnmill.errors import InvalidRecord as InvalidRecord
    from turnmill.errors import Reason as Reason
    from turnmill.errors import TurnmillError as TurnmillError
    from turnmill.integrations.ag_ui import ag_ui_events as ag_ui_events
    from turnmill.integrations.asgi import PublishStreams as PublishStreams
    from turnmill.integrations.claude_agent import claude_client as claude_client
    from turnmill.integrations.claude_agent import claude_query as claude_query
    from turnmill.integrations.google_adk import AdkPlugin as AdkPlugin
    from turnmill.integrations.langchain import langchain_handler as langchain_handler
    from turnmill.integrations.openai_agents import openai_agents_processor as openai_agents_processor
    from turnmill.integrations.pydantic_ai import agent_events as agent_events
    from turnmill.integrations.pydantic_ai import published_response as published_response
    from turnmill.integrations.stream_request import RunIdentity as RunIdentity
    from turnmill.integrations.stream_request import StreamRequest as StreamRequest
    from turnmill.publish.counts import Report as Report
    from turnmill.publish.feedback import feedback as feedback
    from turnmill.publish.publisher import Publisher as Publisher
    from turnmill.publish.run import PublishedRun as PublishedRun
    from turnmill.publish.run_info import RunInfo as RunInfo
    from turnmill.publish.synchronous import SyncPublisher as SyncPublisher
    from turnmill.publish.synchronous import SyncRun as SyncRun
    from turnmill.settings import ClientSettings as ClientSettings
else:  # hidden from type checkers: with a `__getattr__` they would accept any name

    def __getattr__(name: str) -> object:
        """Return a public name, loaded when it is first used (PEP 562)."""
        if name == "__version__":
            return import_module("importlib.metadata").version("turnmill")
        if name not in PUBLIC:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(PUBLIC[name]), name)
        return value


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
