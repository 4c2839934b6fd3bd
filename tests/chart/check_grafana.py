"""The dashboards against the types that Grafana publishes (npm's @grafana/schema), checked by TypeScript."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from helm.generate import DASHBOARDS
from tests.support import npm

SOURCES: Final = Path(__file__).with_name("grafana")
OPTIONS: Final = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022"]
Json = dict[str, Any]


@pytest.fixture(scope="module")
def packages() -> Path:
    """The folder with the packages that tests/chart/grafana locks."""
    return npm.installed(SOURCES, "grafana")


def refusals(packages: Path, name: str, dashboard: Json) -> str:
    """What TypeScript says against it, nothing where all is well."""
    file = packages / f"{name}-{os.getpid()}.ts"
    text = json.dumps(dashboard, indent=2)
    file.write_text(f'import type {{ File }} from "./schema.js";\nexport const file: File = {text};\n')
    try:
        tsc = packages / "node_modules" / ".bin" / "tsc"
        run = subprocess.run(
            [str(tsc), *OPTIONS, file.name], cwd=packages, capture_output=True, text=True, check=False, timeout=300
        )
    finally:
        file.unlink()
    assert bool(run.returncode) == bool(run.stdout), run.stderr
    return run.stdout


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_is_of_grafanas_schema(packages: Path, name: str) -> None:
    assert refusals(packages, name, DASHBOARDS[name]()) == ""


def unknown_key(dashboard: Json) -> None:
    dashboard["panels"][1]["options"]["colour"] = "red"


def unknown_value(dashboard: Json) -> None:
    next(p for p in dashboard["panels"] if p["type"] == "timeseries")["options"]["tooltip"]["mode"] = "all"


def no_query(dashboard: Json) -> None:
    del dashboard["panels"][1]["targets"][0]["expr"]


@pytest.mark.parametrize("spoil", [unknown_key, unknown_value, no_query])
def test_what_is_not_is_refused(packages: Path, spoil: Callable[[Json], None]) -> None:
    dashboard = DASHBOARDS["usage"]()
    spoil(dashboard)
    assert "error TS" in refusals(packages, "spoiled", dashboard)
