"""The table of roles, and all that read it: none may leave a role out."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from pydantic import SecretStr

from docs.generate import roles_table
from helm.generate import CHART
from helm.schema import values_schema
from pipeline.__main__ import cli
from pipeline.cli.dev import demo, stage
from pipeline.cli.services import doctor
from pipeline.gateway.serving import status
from pipeline.kafka.offsets import PartitionLag
from pipeline.kafka.partitioners import Placed
from pipeline.kafka.topic_plan import Found
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings
from pipeline.worker.host.roles import OPERATIONS, ROLES, default_roles, roles_named
from pipeline.worker.host.worker import build_app
from topics.catalog import CATALOG, Topic
from turnmill.errors import CallerError


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Those that allow every role."""
    return Settings(home=tmp_path, archive=tmp_path.as_uri(), webhooks=SecretStr("[]"))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[Topic]]]:
    """The groups that readers of the table ask the broker for, each with its topics."""
    asked: list[tuple[str, list[Topic]]] = []

    async def group_lag(_: Settings, group: str, topics: Iterable[Topic]) -> list[PartitionLag]:
        asked.append((group, list(topics)))
        return []

    async def record_count(_: Settings, __: Topic) -> int:
        return 0

    async def ahead(*_: object) -> int:
        return 0

    async def group_members(*_: object) -> list[str]:
        return []

    async def placed(_: Settings) -> Placed:
        return Placed(0, 0, 0, 0, None)

    monkeypatch.setattr(doctor, "group_members", group_members)
    for module in (stage, doctor, status):
        monkeypatch.setattr(module, "group_lag", group_lag)
    monkeypatch.setattr(status, "record_count", record_count)
    monkeypatch.setattr(doctor, "_ahead", ahead)
    monkeypatch.setattr(doctor, "_placed", placed)
    return asked


def groups(settings: Settings) -> list[tuple[str, list[Topic]]]:
    return [(f"{settings.topic_prefix}-{role.name}", [role.topic]) for role in ROLES.values()]


async def test_the_status_tells_of_every_role(settings: Settings, asked: list[tuple[str, list[Topic]]]) -> None:
    roles, _ = await status.BrokerStatus(settings).get()
    assert [role.role for role in roles] == list(ROLES)
    assert asked == groups(settings)


async def test_the_doctor_looks_at_every_role(settings: Settings, asked: list[tuple[str, list[Topic]]]) -> None:
    found = [Found(topic.full_name(settings.topic_prefix), (), {}, {}) for topic in CATALOG]
    findings = await doctor._records(settings, found, stored=False, ledger=False)
    assert [f.check for f in findings if f.check.startswith("group")] == [f"group {g}" for g, _ in groups(settings)]


async def test_the_demo_waits_for_every_role(settings: Settings, asked: list[tuple[str, list[Topic]]]) -> None:
    assert await demo._all_read(settings)
    assert asked == groups(settings)


def test_the_command_line_names_every_role() -> None:
    text = " ".join(CliRunner().invoke(cli, ["worker", "--help"]).output.split())
    assert f"of {', '.join(ROLES)};" in text


def test_asyncapi_has_an_operation_for_what_each_role_reads() -> None:
    described = json.loads(CliRunner().invoke(cli, ["topics", "asyncapi"]).output)["operations"]
    assert len(described) == len(OPERATIONS)
    for role in ROLES.values():
        reads = [described[operation.name] for operation in role.operations if operation.topic is role.topic]
        assert [(one["action"], one["channel"]["$ref"]) for one in reads] == [
            ("receive", f"#/channels/{role.topic.name}")
        ]


def test_the_chart_knows_every_role() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert list(values["roles"]) == ["all", *ROLES]
    assert values["roles"]["all"]["roles"] == [role.name for role in default_roles(Settings())]
    schema = values_schema()["properties"]["roles"]["properties"]
    assert schema["all"]["properties"]["roles"]["items"]["enum"] == list(ROLES)
    assert set(schema) == {"all", *ROLES}
    topics = json.loads((CHART / "files" / "roles.json").read_text())
    assert topics == {role.name: role.topic.name for role in ROLES.values()}
    monitored = ", ".join(f"worker-{name}" for name in ("all", *ROLES))
    assert f"values: [{monitored}]" in (CHART / "templates" / "monitoring.yaml").read_text()
    needing = " ".join(f'(has "{role.name}" $w.roles)' for role in ROLES.values() if role.needs_store)
    for template in ("workers", "networkpolicy"):
        assert f"or {needing}" in (CHART / "templates" / f"{template}.yaml").read_text()


def test_the_documentation_lists_every_role() -> None:
    rows = roles_table().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == list(ROLES)


@pytest.mark.parametrize("name", ROLES)
async def test_every_role_can_be_built(name: str, settings: Settings) -> None:
    app = build_app(settings, ROLES[name], Metrics(10))
    assert app.conf.id == f"{settings.topic_prefix}-{name}"
    assert (app.stage.name, app.stage.topic) == (name, ROLES[name].topic.full_name(settings.topic_prefix))


def test_a_role_runs_by_default_where_its_setting_is_set(settings: Settings) -> None:
    assert [role.name for role in default_roles(settings)] == list(ROLES)
    assert [role.name for role in default_roles(Settings())] == ["assemble", "metrics", "store", "feedback"]
    assert "feedback" not in [role.name for role in default_roles(Settings(feedback=False))]


def test_a_name_that_is_no_role_is_refused() -> None:
    assert [role.name for role in roles_named(["store", "assemble"])] == ["store", "assemble"]
    with pytest.raises(CallerError, match="no such role: stroe; there are assemble, "):
        roles_named(["stroe"])
    with pytest.raises(CallerError, match="none given"):
        roles_named([])


def test_to_read_the_table_loads_neither_faust_nor_a_database() -> None:
    program = (
        "import sys, pipeline.worker.host.roles;"
        "assert not {'faust', 'aiokafka', 'sqlalchemy', 'obstore', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
