"""What agents import: publishing the events of their runs, and reading what became of them.

    from threadmill import Publisher

    async with Publisher() as publisher:
        async with publisher.run(thread_id="chat-17", agent_id="weather", dialect="vercel-ai") as run:
            async for chunk in run.tee(chunks):  # unchanged, and published on the way
                yield chunk

Importing this loads no Kafka client and no pydantic: they are loaded when something is published. It imports neither
`pipeline` nor `topics`: a program may have modules of these names.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from threadmill.counts import Report as Report
    from threadmill.errors import BrokerError as BrokerError
    from threadmill.errors import CallerError as CallerError
    from threadmill.errors import InvalidRecord as InvalidRecord
    from threadmill.errors import Reason as Reason
    from threadmill.errors import ThreadmillError as ThreadmillError
    from threadmill.published_run import PublishedRun as PublishedRun
    from threadmill.publisher import Publisher as Publisher
    from threadmill.run_info import RunInfo as RunInfo
    from threadmill.settings import ClientSettings as ClientSettings
    from threadmill.settings import load_settings as load_settings
    from threadmill.synchronous import SyncPublisher as SyncPublisher
    from threadmill.synchronous import SyncRun as SyncRun

# Public name -> the module that holds it, and what it is called there.
PUBLIC: Final[dict[str, tuple[str, str]]] = {
    "BrokerError": ("threadmill.errors", "BrokerError"),
    "CallerError": ("threadmill.errors", "CallerError"),
    "ClientSettings": ("threadmill.settings", "ClientSettings"),
    "InvalidRecord": ("threadmill.errors", "InvalidRecord"),
    "PublishedRun": ("threadmill.published_run", "PublishedRun"),
    "Publisher": ("threadmill.publisher", "Publisher"),
    "Reason": ("threadmill.errors", "Reason"),
    "Report": ("threadmill.counts", "Report"),
    "RunInfo": ("threadmill.run_info", "RunInfo"),
    "SyncPublisher": ("threadmill.synchronous", "SyncPublisher"),
    "SyncRun": ("threadmill.synchronous", "SyncRun"),
    "ThreadmillError": ("threadmill.errors", "ThreadmillError"),
    "load_settings": ("threadmill.settings", "load_settings"),
}
__all__ = sorted(PUBLIC)  # noqa: PLE0605  # a list


def __getattr__(name: str) -> Any:
    """A public name, loaded when it is first asked for (PEP 562)."""
    if name not in PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = PUBLIC[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    """-> the public names."""
    return list(PUBLIC)
