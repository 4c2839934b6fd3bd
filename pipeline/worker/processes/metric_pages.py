"""The metrics of several processes on one page. Each series has its process as a label, so none are summed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

LABEL: Final = "process"

Page = Sequence[Sequence[Any]]
"""Metrics in JSON: [name, help, kind, [[sample, labels, value], …]] each."""


def page(registry: CollectorRegistry) -> Page:
    """Return the registry's present values."""
    return [
        [one.name, one.documentation, one.type, [[each.name, each.labels, each.value] for each in one.samples]]
        for one in registry.collect()
    ]


class Merged(Collector):
    """Pages by the names of their processes."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self._pages = pages

    def collect(self) -> Iterable[Metric]:
        """Yield each metric once, with the samples of all processes."""
        found: dict[str, Metric] = {}
        for process, metrics in self._pages.items():
            for name, text, kind, samples in metrics:
                metric = found.setdefault(name, Metric(name, text, kind))
                for sample, labels, value in samples:
                    metric.add_sample(sample, {LABEL: process, **labels}, value)
        return found.values()


def merged(pages: Mapping[str, Page]) -> CollectorRegistry:
    """Return a registry of these pages."""
    registry = CollectorRegistry()
    registry.register(Merged(pages))
    return registry
