"""The table of the gateway's parts: what the code has and what the rows say are the same."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, Self

import httpx
import pytest
from fastapi import APIRouter

from pipeline.gateway.access.security import Reader
from pipeline.gateway.routing import FACTS, facts
from pipeline.gateway.serving.app import create_app
from pipeline.gateway.serving.parts import PACKAGE, PARTS, Part, named
from pipeline.gateway.state import Gateway, Service, provided
from pipeline.policies.pools import POOLS
from pipeline.settings import Settings

ROOT: Final = Path(__file__).resolve().parents[4]
FOLDER: Final = ROOT / PACKAGE.replace(".", "/")


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Each module of the gateway by its name below the package, and its tree."""
    for path in sorted(FOLDER.rglob("*.py")):
        yield ".".join(path.relative_to(FOLDER).with_suffix("").parts), ast.parse(path.read_text())


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    """Each class as `module:Class`."""
    for name, tree in modules():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                yield f"{name}:{node.name}", node


def test_each_service_is_in_one_row() -> None:
    services = [name for name, node in classes() if any(ast.unparse(base) == "Service" for base in node.bases)]
    rows = [service for part in PARTS for service in part.services]
    assert sorted(rows) == sorted(services)
    assert all(issubclass(named(service), Service) for service in rows)


def test_each_router_is_in_one_row() -> None:
    routers = []
    for name, tree in modules():
        assigned = {
            ast.unparse(target) for node in tree.body if isinstance(node, ast.Assign) for target in node.targets
        }
        made = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        if "router" in assigned or "routes" in made:
            routers.append(name)
    assert sorted(router for part in PARTS for router in part.routers) == sorted(routers)


def test_each_listener_is_in_one_row() -> None:
    def hears(node: ast.ClassDef) -> bool:
        own = {each.name for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
        return {"starts", "take"} <= own and not any(ast.unparse(base) == "Protocol" for base in node.bases)

    listeners = [name for name, node in classes() if hears(node)]
    assert sorted(listener for part in PARTS for listener in part.listeners) == sorted(listeners)


def test_each_pool_of_a_gateway_is_in_one_row() -> None:
    rows = [pool.name for part in PARTS for pool in part.pools]
    assert sorted(rows) == sorted(pool.name for pool in POOLS if pool.process == "gateway")


def test_each_bound_that_is_no_pool_is_of_a_module_that_exists() -> None:
    for part in PARTS:
        for module in part.unshared:
            assert import_module(f"{PACKAGE}.{module}")


def test_modules_of_parts_that_do_not_exist_are_not_loaded() -> None:
    gateway = Gateway(Settings(control=False))
    absent = [part for part in PARTS if not part.exists(gateway)]
    names = {f"{PACKAGE}.{text.partition(':')[0]}" for part in absent for text in (*part.services, *part.routers)}
    assert {part.name for part in absent} >= {"control", "rerun", "the proxy", "signing in", "turnmill dev"}
    program = (
        "import sys; from pipeline.gateway.serving.app import create_app; from pipeline.settings import Settings; "
        f"create_app(Settings(control=False)); assert not {names} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


class Noted(Service):
    """Notes its start and its end."""

    events: Final[list[str]] = []

    @classmethod
    def of(cls, gateway: Gateway) -> Self:
        cls.events.append(f"{cls.__name__} is made")
        return cls()

    def start(self) -> None:
        self.events.append(f"{type(self).__name__} starts")

    async def close(self) -> None:
        self.events.append(f"{type(self).__name__} ends")


class First(Noted):
    pass


class Second(Noted):
    pass


class Connection:
    """A publisher or a store that is open."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def __aexit__(self, *_: object) -> None:
        Noted.events.append(f"{self._name} delivers")

    async def close(self) -> None:
        Noted.events.append(f"{self._name} closes")


async def test_services_end_in_reverse_then_records_are_delivered_then_the_store_closes() -> None:
    gateway: Any = Gateway(Settings())
    for kind in (First, Second):
        gateway.add(kind)
    gateway.start()
    gateway._publisher.value = Connection("the publisher")
    gateway._store.value = Connection("the store")
    await gateway.close()
    assert Noted.events == [
        *("First is made", "Second is made", "First starts", "Second starts", "Second ends", "First ends"),
        *("the publisher delivers", "the store closes"),
    ]


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("access.security:Admission", "control.commands:Commands"),  # the trail is written once nothing acts any more
        ("live.follower:Follower", "live.following:Live"),  # readers are ended before what they read
        ("live.follower:Follower", "control.commands:Commands"),
        ("control.commands:Commands", "proxy.passing:Proxy"),  # captured calls may still be stopped
        ("proxy.passing:Proxy", "control.budget_stops:BudgetStops"),
    ],
)
def test_what_needs_another_service_ends_before_it(earlier: str, later: str) -> None:
    order = [service for part in PARTS for service in part.services]
    assert order.index(earlier) < order.index(later)


def test_budgets_that_stop_runs_need_control(tmp_path: Path) -> None:
    budgets = '[{"name": "day", "tokens": 10, "per": "day", "enforce": "stop"}]'
    with pytest.raises(Exception, match="TURNMILL_CONTROL must allow"):
        create_app(Settings(home=tmp_path, budgets=budgets, control=False))


class Toys(Service):
    """How many toys were asked for."""

    count = 0
    started = closed = False

    def start(self) -> None:
        self.started = True

    async def close(self) -> None:
        self.closed = True


router = APIRouter()


@router.get("/v1/toys", summary="Toys")
@facts(strangers=200)
async def list_toys(toys: Annotated[Toys, provided(Toys)], _: Reader) -> int:
    toys.count += 1
    return toys.count


async def test_a_new_part_is_a_module_and_a_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, f"{PACKAGE}.toys", sys.modules[__name__])
    row = Part("toys", services=("toys:Toys",), routers=("toys",))
    monkeypatch.setattr("pipeline.gateway.serving.app.PARTS", (*PARTS, row))
    app = create_app(Settings(home=tmp_path))
    toys: Toys = app.state.gateway.service(Toys)
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as http,
    ):
        assert toys.started
        assert [(await http.get("/v1/toys")).json() for _ in range(2)] == [1, 2]
    assert toys.closed
    assert app.openapi()["paths"]["/v1/toys"]["get"]["summary"] == "Toys"
    assert FACTS[list_toys].strangers == 200
