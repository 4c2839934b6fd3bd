"""Definitions of the resources of others (KEDA, Prometheus operator, Gateway API, Strimzi), and JSON schemas of what
the chart makes, for kubeconform.
"""

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any, Final

import yaml

from pipeline.devbroker.java import java
from tests.chart.tools import (
    BIN,
    GATEWAY_API,
    KEDA,
    KUBERNETES_MODULE,
    OLDEST_KUBERNETES,
    PROMETHEUS_OPERATOR,
    ROOT,
    folder,
)
from tests.support.maven_jars import maven_jars

Schema = dict[str, Any]
FILES: Final = {
    KEDA: ("config/crd/bases", ("keda.sh_scaledobjects", "keda.sh_triggerauthentications")),
    PROMETHEUS_OPERATOR: (
        "example/prometheus-operator-crd",
        tuple(f"monitoring.coreos.com_{plural}" for plural in ("podmonitors", "servicemonitors", "prometheusrules")),
    ),
    GATEWAY_API: ("config/crd/standard", ("gateway.networking.k8s.io_httproutes",)),
}
STRIMZI: Final = Path(__file__).with_name("strimzi")
STRIMZI_CLASSES: Final = ("topic.KafkaTopic", "user.KafkaUser")
# Kubernetes' releases that the chart is for: the oldest, and that of the tests' API server.
RELEASES: Final = {"oldest": OLDEST_KUBERNETES, "newest": KUBERNETES_MODULE}


def definitions() -> list[Path]:
    """Files of CustomResourceDefinitions."""
    found = [folder(module) / below / f"{name}.yaml" for module, (below, names) in FILES.items() for name in names]
    return [*found, _strimzi()]


def _strimzi() -> Path:
    """Made of the operator's own classes by strimzi/Definitions.java, once."""
    source = STRIMZI / "Definitions.java"
    made = (
        BIN
        / f"strimzi-{hashlib.sha256(source.read_bytes() + (STRIMZI / 'pom.xml').read_bytes()).hexdigest()[:12]}.yaml"
    )
    if not made.exists():
        jars = maven_jars(ROOT / ".cache" / "turnmill", STRIMZI / "pom.xml", "strimzi")
        classes = [f"io.strimzi.api.kafka.model.{name}" for name in STRIMZI_CLASSES]
        run = subprocess.run(
            [str(java()), "-cp", f"{jars}/*", str(source), *classes], capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, f"Strimzi's definitions need a JDK, 17 or newer:\n{run.stderr}"
        made.write_text("---\n".join(run.stdout.splitlines(keepends=True)))
    return made


def write_schemas(release: str, where: Path) -> str:
    """Schemas of a release's resources and of the definitions, in a folder -> where kubeconform finds them."""
    where.mkdir(parents=True, exist_ok=True)
    described = json.loads((folder(RELEASES[release]) / "api" / "openapi-spec" / "swagger.json").read_text())
    named: dict[str, Schema] = {name: _strict(schema) for name, schema in described["definitions"].items()}
    named["io.k8s.apimachinery.pkg.api.resource.Quantity"] = {"type": ["string", "number"]}
    text = json.dumps({"definitions": named}).replace('"#/definitions/', '"_definitions.json#/definitions/')
    (where / "_definitions.json").write_text(text)
    for schema in json.loads(text)["definitions"].values():
        kinds = schema.get("x-kubernetes-group-version-kind", [])
        if len(kinds) == 1 and "kind" in schema.get("properties", {}):
            _write(where, kinds[0]["group"], kinds[0]["version"], kinds[0]["kind"], schema)
    for path in definitions():
        for definition in yaml.safe_load_all(path.read_text()):
            spec = (definition or {}).get("spec", {})
            for version in spec.get("versions", ()):
                schema = _strict(version["schema"]["openAPIV3Schema"])
                schema["properties"]["metadata"] = {"type": "object"}
                _write(where, spec["group"], version["name"], spec["names"]["kind"], schema)
    return f"{where}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"


def _write(where: Path, group: str, version: str, kind: str, schema: Schema) -> None:
    name = "-".join([kind, *([group.partition(".")[0]] if group else []), version]).lower()
    mine = {"apiVersion": {"enum": [f"{group}/{version}" if group else version]}, "kind": {"enum": [kind]}}
    required = sorted({"apiVersion", "kind", *schema.get("required", [])})
    whole = {**schema, "properties": {**schema["properties"], **mine}, "required": required}
    (where / f"{name}.json").write_text(json.dumps(whole))


def _strict(schema: Any) -> Any:
    """OpenAPI's schema as JSON Schema that refuses keys which it does not name."""
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found: Schema = {}
    for key, value in schema.items():
        if key in ("enum", "default", "example", "required"):
            found[key] = value
        elif key == "properties":
            found[key] = {name: _strict(item) for name, item in value.items()}
        else:
            found[key] = _strict(value)
    if found.get("format") == "int-or-string" or found.get("x-kubernetes-int-or-string"):
        return {"type": ["string", "integer"]}
    open_ended = "additionalProperties" in found or found.get("x-kubernetes-preserve-unknown-fields")
    if "properties" in found and not open_ended:
        found["additionalProperties"] = False
    if found.pop("nullable", False) and isinstance(found.get("type"), str):
        found["type"] = [found["type"], "null"]
    return found
