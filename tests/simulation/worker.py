"""A worker: the real works of its roles, each on its own consumer, in one process that may be killed."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.stores.content.offload import Offload
from pipeline.stores.content.store import ContentStore
from pipeline.turns.redaction import Redaction, TextRule
from pipeline.worker.assemble.checkpoint import AssembleWork
from pipeline.worker.assemble.limits import assemble_settings
from pipeline.worker.assemble.metrics import AssemblyMetrics
from pipeline.worker.host.commits import Stage
from pipeline.worker.host.roles import ROLES
from pipeline.worker.host.work import Work
from pipeline.worker.sinks.metrics import metrics_work
from pipeline.worker.sinks.role import archive_work, store_work
from tests.simulation.broker import Broker, WorkerProducer
from tests.simulation.consumer import Consumer
from tests.simulation.group import Group
from tests.simulation.loop import Process
from tests.simulation.watches import watch_assembly, watch_groups
from tests.simulation.wire import WIRES

METRICS: Final = Metrics(10)
SECRET: Final = "s3cr3t"
REDACTED: Final = "[secret]"
RAISES: Final = "no rule can read this"


def redaction() -> Redaction:
    """A rule that finds a secret, and fails at some texts."""

    def apply(text: str) -> tuple[str, int]:
        if RAISES in text:
            raise RuntimeError(RAISES)
        return text.replace(SECRET, REDACTED), text.count(SECRET)

    return Redaction([TextRule("secret", apply)])


def assemble_work(settings: Settings, metrics: Metrics, producer: Any, limits: Mapping[str, Any]) -> AssembleWork:
    """As `assemble.role.assemble_work`, with the wire of the simulated agents."""
    contents = ContentStore.of(settings)
    offload = Offload(contents, settings.content_threshold, metrics) if contents.root is not None else None
    counts = AssemblyMetrics(metrics, "events")
    rules = redaction() if settings.redact else None
    work = AssembleWork(assemble_settings(settings), WIRES, producer, counts, redaction=rules, offload=offload)
    work.limits = replace(work.limits, **limits)
    return work


BUILT: Final[Mapping[str, Callable[[Settings, Metrics, Any], Work]]] = {
    "metrics": metrics_work,
    "store": store_work,
    "archive": archive_work,
}


class Worker:
    """Its consumers run until it is killed or stopped; what is wrong meanwhile is added to `problems`."""

    def __init__(
        self,
        broker: Broker,
        process: Process,
        groups: Mapping[str, Group],
        roles: Sequence[str],
        settings: Settings,
        limits: Mapping[str, Any],
        problems: list[str],
    ) -> None:
        self.process = process
        self.consumers: list[Consumer] = []
        for name in roles:
            producer = WorkerProducer(broker, process)
            if name == "assemble":
                work: Any = assemble_work(settings, METRICS, producer, limits)
                watch_assembly(work, problems)
            else:
                work = BUILT[name](settings, METRICS, producer)
            if name == "store":
                watch_groups(work, problems)
            stage = Stage(name, ROLES[name].topic.full_name(settings.topic_prefix), work, METRICS)
            self.consumers.append(Consumer(broker, process, groups[name], stage, settings.checkpoint_interval))

    def start(self) -> None:
        """Run it in its process."""
        self.process.start(self._run())

    async def _run(self) -> None:
        await asyncio.gather(*(consumer.run() for consumer in self.consumers))
        self.process.kill()

    def stop(self) -> None:
        """As SIGTERM."""
        for consumer in self.consumers:
            consumer.stop()
