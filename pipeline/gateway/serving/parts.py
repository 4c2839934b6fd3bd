"""The parts of the gateway: a table. What isn't a row has no routes, remembers nothing, and runs nothing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from fastapi import APIRouter

from pipeline.gateway.state import Gateway
from pipeline.policies import pools
from pipeline.policies.budgets import COMMANDS
from turnmill import pools as captured
from turnmill.pools import Pool

PACKAGE: Final = "pipeline.gateway"


@dataclass(frozen=True, slots=True)
class Part:
    """A row. Modules are named as text, below `pipeline.gateway`, and loaded only where the part `exists`.

    `routers`: modules with a `router`, or with `routes`, which makes it for a gateway. `services`: `module:Class`, each
    a `Service`; they are made and started in this order, and closed in the reverse one. `listeners`: the classes of
    this part that the follower hands records. `pools`: what its tenants share. `unshared`: modules with a bound of
    another kind, and why nobody can use it up for others. `layer`: ASGI around all routes.
    """

    name: str
    exists: Callable[[Gateway], object] = lambda _: True
    services: tuple[str, ...] = ()
    routers: tuple[str, ...] = ()
    listeners: tuple[str, ...] = ()
    pools: tuple[Pool, ...] = ()
    unshared: Mapping[str, str] = field(default_factory=dict)
    layer: str = ""

    def add_to(self, gateway: Gateway) -> list[APIRouter]:
        """Make the services, and return the routers. Raises CallerError for settings that contradict each other."""
        for service in self.services:
            gateway.add(named(service))
        modules = [import_module(f"{PACKAGE}.{name}") for name in self.routers]
        return [module.router if hasattr(module, "router") else module.routes(gateway) for module in modules]


def named(text: str) -> Any:
    """Return the class that a row names as `module:Class`."""
    module, _, name = text.partition(":")
    return getattr(import_module(f"{PACKAGE}.{module}"), name)


PARTS: Final = (
    Part(
        "admission",
        services=("access.security:Admission",),
        pools=(pools.CALLERS, pools.TOKENS),
    ),
    Part("threads aside", services=("state:Aside",), pools=(pools.ASIDE,)),
    Part(
        "uploads",
        services=("intake.uploads:Uploads",),
        routers=("intake.ingest", "intake.records", "intake.otlp"),
        pools=(pools.SPOOL,),
    ),
    Part(
        "stored threads",
        services=("state:StoreSlots",),
        routers=(
            *("reading.threads", "reading.steps", "reading.runs", "reading.holds", "reading.search"),
            *("reading.webhooks", "reading.datasets"),
        ),
        pools=(pools.SEARCHES, pools.READS),
        unshared=dict.fromkeys(("reading.threads", "reading.long_threads"), "in a slot of READS"),
    ),
    Part("tokens and the audit log", routers=("access.tokens", "access.audit")),
    Part("budgets", services=("budgets.memory:Budgets",), routers=("budgets.routes",)),
    Part(
        "live streams",
        services=(
            "live.follower:Follower",
            "live.tail:EventTail",
            "live.run_watch:RunWatch",
            "live.erased:Erased",
            "live.following:Live",
        ),
        routers=("live.routes",),
        listeners=("live.tail:EventTail", "live.run_watch:RunWatch"),
        pools=(
            *(pools.READERS, pools.ERASED, pools.LATE, pools.RECENT, pools.FRESH),
            *(pools.OPEN_RUNS, pools.OVER_RUNS, pools.SEGMENTS, pools.SILENCES),
        ),
    ),
    Part("usage and alerts", routers=("reading.usage", "reading.alerts")),
    Part("saved views", routers=("dashboard.views",)),
    Part(
        "status",
        services=("serving.status:LoopWatch", "serving.status:BrokerStatus", "serving.status:StoreCounts"),
        routers=("serving.status", "serving.docs_page"),
        unshared={
            "serving.server": "no tenant is known yet: `gateway_caller_requests` bounds each token",
            "serving.status": "an operator's figures",
            "serving.docs_page": "the same document for all",
        },
    ),
    Part(
        "live figures",
        services=("dashboard.live_figures:FiguresTail",),
        routers=("dashboard.live_figures",),
        listeners=("dashboard.live_figures:FiguresTail",),
        pools=(pools.FIGURES, pools.COUNTED),
    ),
    Part("the dashboard", routers=("dashboard.dead_letters", "dashboard.page")),
    Part("feedback", exists=lambda gateway: gateway.settings.feedback, routers=("intake.feedback",)),
    Part(
        "links to threads",
        exists=lambda gateway: gateway.settings.gateway_share_seconds > 0,
        routers=("reading.shared",),
        unshared={"reading.shared": "in a slot of READS"},
    ),
    Part(
        "rerun",
        exists=lambda gateway: gateway.settings.gateway_rerun,
        services=("rerun.routes:Reruns",),
        routers=("rerun.routes",),
        pools=(pools.RERUNS,),
    ),
    Part(
        "control",
        exists=lambda gateway: gateway.settings.control,
        services=("control.commands:Commands",),
        routers=("control.routes",),
        listeners=("control.commands:Commands",),
        pools=(pools.CLAIMS, pools.COMMANDS, pools.COMMAND_STREAMS, pools.QUEUED),
    ),
    Part("signing in", exists=lambda gateway: gateway.settings.gateway_oidc is not None, routers=("access.sign_in",)),
    Part(
        "turnmill dev",
        exists=lambda gateway: gateway.dev is not None,
        routers=("serving.dev",),
        unshared={"serving.dev": "a machine with one caller"},
    ),
    Part(
        "the proxy",
        exists=lambda gateway: gateway.settings.gateway_proxy,
        services=("proxy.passing:Proxy",),
        routers=("proxy.passing",),
        listeners=("proxy.publishing:Sharing",),
        pools=(
            *(pools.BODIES, pools.HELD, captured.CAPTURES, captured.FAILED, captured.ANSWERS, captured.FOLLOWERS),
            *(captured.NAMED, captured.LEFT_OUT, captured.RETRIED, captured.STOPPED),
        ),
        layer="proxy.upstreams:PathToken",
    ),
    Part(
        "budgets that stop runs",
        exists=lambda gateway: any(budget.enforce in COMMANDS for budget in gateway.settings.budget_list),
        services=("control.budget_stops:BudgetStops",),
        listeners=("control.budget_stops:OpenUse",),
        pools=(pools.OPEN_USE,),
    ),
)
