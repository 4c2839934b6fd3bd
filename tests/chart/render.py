"""The chart as manifests, by the real helm."""

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import yaml

from tests.chart.tools import BIN, ROOT

CHART: Final = ROOT / "helm" / "turnmill"
PROFILES: Final = {
    "plain": (),
    "dev": ("values-dev.yaml",),
    "production": ("values-production.yaml",),
    "strimzi": ("values-strimzi.yaml",),
}
# What each installation must say for itself.
REQUIRED: Final[dict[str, Any]] = {"kafka": {"brokers": "kafka:9092"}, "store": {"existingSecret": "turnmill-store"}}

Manifest = dict[str, Any]
Values = Mapping[str, Any]


class Refused(Exception):
    """Helm's own words."""


def helm(*arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """What helm prints. Raises Refused."""
    run = subprocess.run(
        [str(BIN / "helm"), *arguments], capture_output=True, text=True, check=False, env=environment, timeout=600
    )
    if run.returncode:
        raise Refused(run.stderr + run.stdout)
    return run.stdout


def arguments(profile: str = "plain", *values: Values) -> list[str]:
    """A profile's files, then values, as arguments of helm; files that hold them stay until the process ends."""
    found = [f"--values={CHART / name}" for name in PROFILES[profile]]
    for item in ([REQUIRED] if profile == "plain" else []) + list(values):
        with tempfile.NamedTemporaryFile("w", suffix=".json", dir=SCRATCH.name, delete=False) as file:
            json.dump(item, file)
        found.append(f"--values={file.name}")
    return found


SCRATCH: Final = tempfile.TemporaryDirectory(prefix="chart-values-")


def text(profile: str = "plain", *values: Values) -> str:
    """All manifests, hooks and tests included."""
    return _text(profile, json.dumps(values))


@cache
def _text(profile: str, values: str) -> str:
    return helm("template", "t", str(CHART), "--namespace=agents", *arguments(profile, *json.loads(values)))


def manifests(profile: str = "plain", *values: Values) -> list[Manifest]:
    """The same, read."""
    return [manifest for manifest in yaml.safe_load_all(text(profile, *values)) if manifest]


def of_kind(found: Sequence[Manifest], kind: str, name: str = "") -> list[Manifest]:
    """Those of a kind whose name ends so."""
    return [m for m in found if m["kind"] == kind and m["metadata"]["name"].endswith(name)]


def pod_of(manifest: Manifest) -> Manifest:
    """The pod's spec of a Deployment, Job or Pod."""
    spec: Manifest = manifest["spec"]
    return spec["template"]["spec"] if "template" in spec else spec


def nested(path: str, value: Any) -> dict[str, Any]:
    """`a.b`, value -> {"a": {"b": value}}."""
    for part in reversed(path.split(".")):
        value = {part: value}
    result: dict[str, Any] = value
    return result
