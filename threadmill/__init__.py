"""What agents import, to publish the events of their runs; and programs that want to hear of the turns.

    from threadmill import Publisher

    async with Publisher() as publisher:
        async with publisher.run(thread_id="chat-17", agent_id="weather", dialect="vercel-ai") as run:
            async for chunk in run.tee(chunks):  # unchanged, and published on the way
                yield chunk

    async for turn in Turns(group="billing"):
        ...

`docs/publishing.md` and `docs/consuming.md` say more. A public name is loaded when it is first used, the Kafka
client and pydantic when something is published or consumed. Nothing here imports `pipeline` or `topics`: a program may
have modules of these names.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

PUBLIC: Final[dict[str, str]] = {  # name -> the module that holds it
    "AdkPlugin": "threadmill.integrations.google_adk",
    "BrokerError": "threadmill.errors",
    "CallerError": "threadmill.errors",
    "ClientSettings": "threadmill.settings",
    "InvalidRecord": "threadmill.errors",
    "Notice": "threadmill.notice",
    "Notices": "threadmill.turns",
    "PublishStreams": "threadmill.integrations.asgi",
    "PublishedRun": "threadmill.published_run",
    "Publisher": "threadmill.publisher",
    "Reason": "threadmill.errors",
    "Report": "threadmill.counts",
    "RunIdentity": "threadmill.integrations.stream_request",
    "RunInfo": "threadmill.run_info",
    "StreamRequest": "threadmill.integrations.stream_request",
    "SyncNotices": "threadmill.synchronous_turns",
    "SyncPublisher": "threadmill.synchronous",
    "SyncRun": "threadmill.synchronous",
    "SyncTurns": "threadmill.synchronous_turns",
    "ThreadmillError": "threadmill.errors",
    "Turn": "threadmill.turn",
    "Turns": "threadmill.turns",
    "ag_ui_events": "threadmill.integrations.ag_ui",
    "agent_events": "threadmill.integrations.pydantic_ai",
    "async_client": "threadmill.capture.clients",
    "claude_client": "threadmill.integrations.claude_agent",
    "claude_query": "threadmill.integrations.claude_agent",
    "client": "threadmill.capture.clients",
    "flush": "threadmill.capture.runtime",
    "langchain_handler": "threadmill.integrations.langchain",
    "load_settings": "threadmill.environment",
    "openai_agents_processor": "threadmill.integrations.openai_agents",
    "published_response": "threadmill.integrations.pydantic_ai",
    "transport": "threadmill.capture.clients",
}
__all__ = sorted(PUBLIC)  # noqa: PLE0605  # a list of strings

if TYPE_CHECKING:  # the same names for type checkers, which do not follow `__getattr__`
    from threadmill.capture.clients import async_client as async_client
    from threadmill.capture.clients import client as client
    from threadmill.capture.clients import transport as transport
    from threadmill.capture.runtime import flush as flush
    from threadmill.counts import Report as Report
    from threadmill.environment import load_settings as load_settings
    from threadmill.errors import BrokerError as BrokerError
    from threadmill.errors import CallerError as CallerError
    from threadmill.errors import InvalidRecord as InvalidRecord
    from threadmill.errors import Reason as Reason
    from threadmill.errors import ThreadmillError as ThreadmillError
    from threadmill.integrations.ag_ui import ag_ui_events as ag_ui_events
    from threadmill.integrations.asgi import PublishStreams as PublishStreams
    from threadmill.integrations.claude_agent import claude_client as claude_client
    from threadmill.integrations.claude_agent import claude_query as claude_query
    from threadmill.integrations.google_adk import AdkPlugin as AdkPlugin
    from threadmill.integrations.langchain import langchain_handler as langchain_handler
    from threadmill.integrations.openai_agents import openai_agents_processor as openai_agents_processor
    from threadmill.integrations.pydantic_ai import agent_events as agent_events
    from threadmill.integrations.pydantic_ai import published_response as published_response
    from threadmill.integrations.stream_request import RunIdentity as RunIdentity
    from threadmill.integrations.stream_request import StreamRequest as StreamRequest
    from threadmill.notice import Notice as Notice
    from threadmill.published_run import PublishedRun as PublishedRun
    from threadmill.publisher import Publisher as Publisher
    from threadmill.run_info import RunInfo as RunInfo
    from threadmill.settings import ClientSettings as ClientSettings
    from threadmill.synchronous import SyncPublisher as SyncPublisher
    from threadmill.synchronous import SyncRun as SyncRun
    from threadmill.synchronous_turns import SyncNotices as SyncNotices
    from threadmill.synchronous_turns import SyncTurns as SyncTurns
    from threadmill.turn import Turn as Turn
    from threadmill.turns import Notices as Notices
    from threadmill.turns import Turns as Turns
else:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        """A public name, loaded when it is first used (PEP 562)."""
        if name not in PUBLIC:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(PUBLIC[name]), name)
        return value


def __dir__() -> list[str]:
    """-> the public names."""
    return __all__
