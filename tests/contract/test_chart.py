"""The chart's generated files are what the code says; every setting and every key of its values is there."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from helm.generate import CHART, DASHBOARDS, files
from helm.schema import ELSEWHERE, NOT_OFFERED, comments, values_schema
from pipeline.__main__ import COMMANDS
from pipeline.cli.services.gateway import STOP_TIMEOUT as GATEWAY_DEADLINE
from pipeline.cli.services.worker import STOP_TIMEOUT
from pipeline.gateway.access.token_table import hashed, parse_tokens
from pipeline.gateway.serving.parts import PARTS
from pipeline.gateway.state import Gateway
from pipeline.observability import metrics
from pipeline.settings import Settings, load
from pipeline.worker.host.roles import ROLES
from tests.chart.check_alerts import FIRES, SILENT
from tests.chart.options import CASES

VALUES = (CHART / "values.yaml").read_text()
SCHEMA = values_schema()


@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_generated_files_match_the_code(path: Path) -> None:
    assert path.read_text() == files()[path], "run `make chart`"


def keys(values: Any, path: str = "") -> Iterator[str]:
    for name, value in values.items():
        below = f"{path}.{name}" if path else name
        yield below
        if isinstance(value, dict):
            yield from keys(value, below)


def leaves(values: Any, path: str = "") -> Iterator[str]:
    """Yield the keys that users set. A mapping that the table of options names is one: it is a value of Kubernetes."""
    for name, value in values.items():
        below = f"{path}.{name}" if path else name
        if isinstance(value, dict) and value and below not in CASES:
            yield from leaves(value, below)
        else:
            yield below


def test_every_key_is_in_the_table_of_options() -> None:
    """`make test-chart` tries each of them."""
    assert set(leaves(yaml.safe_load(VALUES))) == set(CASES)


def test_every_key_has_a_comment_or_one_above() -> None:
    said = comments(VALUES)
    parents = {path.rpartition(".")[0] for path in said}
    silent = [
        path
        for path in keys(yaml.safe_load(VALUES))
        if path not in said
        and not any(other.startswith(f"{path}.") for other in parents | set(said))
        and not any(path.startswith(f"{other}.") for other in said)
    ]
    assert silent == []


def test_the_readme_has_every_value_with_its_comment() -> None:
    """`make test-chart` compares defaults, too, with the program that writes them."""
    rows = re.findall(r"^\| (\S+) \| \w+ \| `.*?` \| (.*) \|$", (CHART / "README.md").read_text(), re.MULTILINE)
    assert dict(rows) == comments(VALUES), "run `make chart`"


def test_every_setting_is_offered_once() -> None:
    offered = set(SCHEMA["$defs"]["settings"]["properties"])
    assert offered | set(ELSEWHERE) | NOT_OFFERED == set(Settings.model_fields)
    assert not offered & (set(ELSEWHERE) | NOT_OFFERED)


def test_settings_that_are_secrets_never_come_from_the_config_map() -> None:
    described = Settings.model_json_schema()["properties"]
    secret = {
        name
        for name, field in described.items()
        if "password" in json.dumps(field.get("anyOf", [])) or field.get("secret")
    }
    assert secret <= set(ELSEWHERE) | NOT_OFFERED


def test_pods_have_no_rights_in_the_cluster() -> None:
    """Nothing of ours speaks to Kubernetes: there is no role, and no pod has a token."""
    templates = {path.name: path.read_text() for path in (CHART / "templates").rglob("*.yaml")}
    templates |= {path.name: path.read_text() for path in (CHART / "templates").glob("*.tpl")}
    kinds = set(re.findall(r"^kind: (\w+)", "\n".join(templates.values()), re.MULTILINE))
    assert not {kind for kind in kinds if "Role" in kind or kind == "Secret"}
    without_token = "automountServiceAccountToken: false"
    assert {name for name, text in templates.items() if "containers:" in text} == {"_pod.tpl", "dev.yaml"}
    for name in ("_pod.tpl", "dev.yaml"):
        assert templates[name].count(without_token) == len(
            re.findall(r"^\s*containers:", templates[name], re.MULTILINE)
        )
    pod = yaml.safe_load(VALUES)["pod"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["containerSecurityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_what_stands_elsewhere_is_a_key_of_the_values() -> None:
    known = set(keys(yaml.safe_load(VALUES)))
    named = {word for text in ELSEWHERE.values() for word in text.split(" and ")}
    assert named <= known


def test_every_role_has_a_deployment() -> None:
    values = yaml.safe_load(VALUES)
    assert set(values["roles"]) == {"all", *ROLES}
    assert set(SCHEMA["properties"]["roles"]["properties"]["all"]["properties"]["roles"]["items"]["enum"]) == set(ROLES)


def test_a_worker_has_time_for_its_last_checkpoint() -> None:
    worker = yaml.safe_load(VALUES)["worker"]
    assert worker["terminationGracePeriodSeconds"] >= worker["preStopSeconds"] + STOP_TIMEOUT + 5


def test_a_gateway_has_time_for_open_uploads() -> None:
    gateway = yaml.safe_load(VALUES)["gateway"]
    assert gateway["terminationGracePeriodSeconds"] >= gateway["preStopSeconds"] + GATEWAY_DEADLINE + 5


def test_compose_says_what_the_programs_understand() -> None:
    compose = yaml.safe_load((CHART.parents[1] / "compose.yaml").read_text())
    ours = {name: service for name, service in compose["services"].items() if service.get("build")}
    assert set(ours) == {"topics", "migrate", "worker", "gateway"}
    for service in ours.values():
        assert load(service["environment"]).broker_list == ["kafka:9092"]
        assert service["command"][0] in COMMANDS
        assert {volume.partition(":")[0] for volume in service.get("volumes", [])} <= set(compose["volumes"])


def test_the_known_token_lets_in_who_tries_it() -> None:
    compose = yaml.safe_load((CHART.parents[1] / "compose.yaml").read_text())
    profile = yaml.safe_load((CHART / "values-dev.yaml").read_text())
    lines = [
        compose["services"]["gateway"]["environment"]["TURNMILL_GATEWAY_TOKENS"],
        profile["extraObjects"][0]["stringData"]["tokens"],
    ]
    for line in lines:
        assert list(parse_tokens(line, "the line")) == [hashed("turnmill-development")]


def test_the_versions_are_those_of_the_package() -> None:
    from importlib.metadata import version

    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == version("turnmill")
    assert f":{chart['appVersion']}" in chart["annotations"]["artifacthub.io/images"]


SERIES = {
    series
    for metric in metrics.TABLE
    for series in (metric.name, *(f"{metric.name}_{part}" for part in ("bucket", "sum", "count")))
}
RULES = {
    "alerts": (CHART / "files" / "alerts.yaml").read_text(),
    "rules": (CHART / "templates" / "rules.yaml").read_text(),
}


@pytest.mark.parametrize("name", DASHBOARDS)
def test_dashboards_ask_for_metrics_that_exist(name: str) -> None:
    asked = set(re.findall(r"\b(?:turnmill|gen_ai)_\w+", json.dumps(DASHBOARDS[name]())))
    assert asked - SERIES == set()
    assert asked


@pytest.mark.parametrize("name", RULES)
def test_alerts_and_rules_ask_for_metrics_that_exist(name: str) -> None:
    asked = set(re.findall(r"\b(?:turnmill|gen_ai)_\w+", RULES[name]))
    assert asked - SERIES == set()
    assert asked


def test_alerts_ask_for_rules_that_are_recorded() -> None:
    recorded = set(re.findall(r"record: (turnmill:\S+)", RULES["rules"]))
    asked = set(re.findall(r"\bturnmill:[\w:]+", "".join(RULES.values())))
    assert asked - recorded == set()
    assert recorded


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_do_not_overlap(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARDS[name]()["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


def alerts() -> list[str]:
    return re.findall(r"- alert: (\w+)", (CHART / "files" / "alerts.yaml").read_text())


def test_every_alert_is_tried_in_both_directions() -> None:
    assert set(alerts()) == set(FIRES) == set(SILENT)


def test_every_alert_has_a_runbook() -> None:
    runbooks = (CHART.parents[1] / "docs" / "operations" / "runbooks.md").read_text()
    assert alerts()
    assert [name for name in alerts() if f"\n## {name}\n" not in runbooks] == []


def test_metrics_and_probes_are_not_published() -> None:
    """They need no token. Everything else of the gateway is reached from outside."""
    template = (CHART / "templates" / "gateway.yaml").read_text()
    exact, prefixes = (
        re.findall(r'"([^"]+)"', line) for line in re.findall(r"\$(?:exact|prefixes) := list (.*) }}", template)
    )
    assert "pathType: Prefix" in template
    gateway = Gateway(Settings())
    routers = [router for part in PARTS if part.exists(gateway) for router in part.add_to(gateway)]
    paths = {route.path for router in routers for route in router.routes} | {"/openapi.json"}  # type: ignore[attr-defined]
    published = {path for path in paths if path in exact or path.startswith(tuple(f"{one}/" for one in prefixes))}
    assert paths - published == {"/metrics", "/livez", "/readyz"}
    assert set(exact) <= paths


def test_what_the_image_installs_has_hashes() -> None:
    lines = (CHART.parents[1] / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    installed = [line for line in lines if "pip install" in line or "uv sync" in line]
    assert len(installed) == 3
    assert [line for line in installed if "--require-hashes" not in line and "uv sync --frozen" not in line] == []
    [hashes] = [line for line in lines if line.startswith("ARG UV_HASHES")]
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", hashes)) == 2
