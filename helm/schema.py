"""The schema of the chart's values.

Keys and comments come from values.yaml, limits from the tables below, settings from the class Settings. So the schema
has each key of values.yaml, and each setting that the chart does not set itself.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from pipeline.settings import Settings
from pipeline.worker.host.roles import ROLES

VALUES: Final = Path(__file__).parent / "turnmill" / "values.yaml"
Schema = dict[str, Any]

# Settings that the chart sets itself -> the value that a user changes instead.
ELSEWHERE: Final = {
    "brokers": "kafka.brokers",
    "security_protocol": "kafka.tls.enabled and kafka.sasl.mechanism",
    "ssl_ca_file": "kafka.tls.ca",
    "ssl_certificate_file": "kafka.tls.client",
    "ssl_key_file": "kafka.tls.client",
    "ssl_key_password": "kafka.tls.client",
    "sasl_mechanism": "kafka.sasl.mechanism",
    "sasl_username": "kafka.sasl.username",
    "sasl_password": "kafka.sasl.existingSecret",
    "sasl_password_file": "kafka.sasl.existingSecret",
    "oauth_token_file": "kafka.sasl.oauth.tokenFile",
    "oauth_token_url": "kafka.sasl.oauth.tokenUrl",
    "oauth_client_id": "kafka.sasl.oauth.clientId",
    "oauth_client_secret": "kafka.sasl.oauth.existingSecret",
    "oauth_client_secret_file": "kafka.sasl.oauth.existingSecret",
    "oauth_scope": "kafka.sasl.oauth.scope",
    "store": "store.existingSecret",
    "topic_prefix": "topics.prefix",
    "partitions": "topics.partitions",
    "replication": "topics.replication",
    "home": "worker.homeSize and gateway.homeSize",
    "cache": "worker.homeSize",
    "host": "listenAddress",
    "port": "worker.port",
    "gateway_host": "listenAddress",
    "gateway_port": "gateway.port",
    "gateway_tokens": "gateway.tokens.existingSecret",
    "gateway_oidc": "pod.extraEnv",
    "gateway_oidc_client_secret": "pod.extraEnv",
    "webhooks": "pod.extraEnv",
}
# Settings of agents that publish to a gateway, and of the development broker: the chart has neither.
NOT_OFFERED: Final = frozenset({"publish_url", "publish_token", "publish_token_file", "maven_repository"})

TEXTS: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string"}}
ANY: Final[Schema] = {"type": "object"}  # an object of Kubernetes, which its API server validates
LIST: Final[Schema] = {"type": "array", "items": {"type": "object"}}
NAMED: Final[Schema] = {"type": "array", "items": {"type": "object", "required": ["name"]}}
STRINGS: Final[Schema] = {"type": "array", "items": {"type": "string"}}
PORT: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": 65535}
PORTS: Final[Schema] = {"type": "array", "items": PORT}
COUNT: Final[Schema] = {"type": "integer", "minimum": 1}
SIZE: Final[Schema] = {"type": "string", "pattern": "^[1-9][0-9]*(Mi|Gi|Ti)$"}
SECONDS: Final[Schema] = {"type": "integer", "minimum": 0}
NAME: Final[Schema] = {"type": "string", "pattern": "^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$", "maxLength": 253}
PERCENT: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": 100}
DURATION: Final[Schema] = {"type": "string", "pattern": "^([0-9]+(ms|s|m|h))+$"}
PROBE: Final[Schema] = {
    "type": "object",
    "additionalProperties": False,
    "properties": dict.fromkeys(("periodSeconds", "failureThreshold", "successThreshold", "timeoutSeconds"), COUNT)
    | {"initialDelaySeconds": SECONDS},
}


def one_of(*values: str) -> Schema:
    """Return the schema of one of these strings."""
    return {"type": "string", "enum": list(values)}


def ref(name: str) -> Schema:
    """Return a reference to a named schema."""
    return {"$ref": f"#/$defs/{name}"}


# Path of a key (its last parts are enough) -> its schema, if that is stricter than the type of its default.
LIMITS: Final[dict[str, Schema]] = {
    "commonLabels": TEXTS,
    "commonAnnotations": TEXTS,
    "fullnameOverride": NAME,
    "nameOverride": NAME,
    "listenAddress": {"type": "string", "pattern": "^[0-9a-fA-F:.]+$"},
    "image.repository": {"type": "string", "minLength": 1},
    "image.digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
    "image.pullPolicy": one_of("Always", "IfNotPresent", "Never"),
    "pullSecrets": NAMED,
    "imagePullSecrets": NAMED,
    "annotations": TEXTS,
    "labels": TEXTS,
    "alertLabels": TEXTS,
    "existingSecret": NAME,
    "sasl.mechanism": one_of("", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
    "oauth.tokenUrl": {"type": "string", "pattern": "^(https?://.+)?$"},
    "topics.prefix": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,100}$"},
    "topics.partitions": COUNT,
    "topics.replication": {"type": ["integer", "null"], "minimum": 1},
    "topics.apply": one_of("hook", "init", "none"),
    "store.migrate": one_of("hook", "init", "none"),
    "user.authentication": one_of("scram-sha-512", "tls"),
    "roles.all.roles": {"type": "array", "items": one_of(*ROLES), "minItems": 1, "uniqueItems": True},
    "settings": ref("settings"),
    "roles.all.autoscaling": ref("autoscaling"),
    **{f"roles.{role}.autoscaling": ref("autoscaling") for role in ROLES},
    "autoscaling.kind": one_of("keda", "hpa"),
    "autoscaling.minReplicas": COUNT,
    "autoscaling.maxReplicas": COUNT,
    "lagThreshold": COUNT,
    "targetCPUUtilization": PERCENT,
    "pollingInterval": COUNT,
    "resources": ANY,
    "strategy": ANY,
    "podDisruptionBudget": ANY,
    "startupProbe": PROBE,
    "livenessProbe": PROBE,
    "readinessProbe": PROBE,
    "homeSize": SIZE,
    "worker.port": {**PORT, "minimum": 1024},
    "gateway.port": {**PORT, "minimum": 1024},
    "service.type": one_of("ClusterIP", "NodePort", "LoadBalancer"),
    "service.port": PORT,
    "service.spec": ANY,
    "service.nodePort": {"type": ["integer", "null"], "minimum": 1, "maximum": 65535},
    "ingress.path": {"type": "string", "pattern": "^/"},
    "parentRefs": NAMED,
    "hostnames": STRINGS,
    "roles.all.pod": ref("pod"),
    **{f"roles.{role}.pod": ref("pod") for role in ROLES},
    "gateway.pod": ref("pod"),
    "jobs.pod": ref("pod"),
    "activeDeadlineSeconds": COUNT,
    "nodeSelector": TEXTS,
    "tolerations": LIST,
    "affinity": ANY,
    "topologySpreadConstraints": {
        "type": "array",
        "items": {"type": "object", "required": ["maxSkew", "topologyKey", "whenUnsatisfiable"]},
    },
    "dnsPolicy": one_of("", "ClusterFirst", "Default", "None", "ClusterFirstWithHostNet"),
    "hostAliases": LIST,
    "extraEnv": NAMED,
    "extraEnvFrom": LIST,
    "extraVolumes": NAMED,
    "extraVolumeMounts": NAMED,
    "initContainers": NAMED,
    "sidecars": NAMED,
    "securityContext": ANY,
    "containerSecurityContext": ANY,
    "kafkaPorts": PORTS,
    "storePorts": PORTS,
    "externalPorts": PORTS,
    "metricsFrom": LIST,
    "gatewayFrom": LIST,
    "extraEgress": LIST,
    "extraIngress": LIST,
    "interval": DURATION,
    "rules.disabled": STRINGS,
    "rules.errorRatio": {"type": "number", "minimum": 0, "maximum": 1},
    "rules.costPerHour": {"type": "number", "minimum": 0},
    "extraObjects": LIST,
}


def comments(text: str) -> dict[str, str]:
    """Return the comments `# -- …` of a values.yaml by the path of their key."""
    by_path: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    said: list[str] = []
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if comment := re.fullmatch(r"\s*# (-- )?(.*)", line):
            said = [comment[2]] if comment[1] else [*said, comment[2]] if said else []
        elif key := re.match(r"\s*([A-Za-z_][\w-]*):", line):
            path = [*((at, name) for at, name in path if at < indent), (indent, key[1])]
            if said:
                by_path[".".join(name for _, name in path)] = " ".join(said)
            said = []
    return by_path


@cache
def _settings() -> Schema:
    """Return the schema of each setting, made by pydantic, which takes longer than everything else here."""
    described: Schema = Settings.model_json_schema()["properties"]
    return described


def setting(name: str) -> Schema:
    """Return the schema of a setting in values.yaml; null stands for its default."""
    described: Schema = _settings()[name]
    choices = described.get("anyOf", [described])
    kept = ("enum", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength")
    schema: Schema = {"description": described["description"]}
    for choice in choices:
        schema |= {key: choice[key] for key in kept if key in choice}
    if "enum" in schema:
        schema["enum"] = [*schema["enum"], None]
    else:
        schema["type"] = [*(choice["type"] for choice in choices if choice["type"] != "null"), "null"]
    return schema


def values_schema() -> Schema:
    """Return the schema of all values, JSON Schema draft 7."""
    text = VALUES.read_text(encoding="utf-8")
    defaults, said = yaml.safe_load(text), comments(text)
    properties = {name: _schema((name,), value, said) for name, value in defaults.items()}
    definitions = {
        "pod": properties["pod"],
        "autoscaling": properties["autoscaling"],
        "settings": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                name: setting(name) for name in Settings.model_fields if name not in ELSEWHERE.keys() | NOT_OFFERED
            },
        },
    }
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the chart turnmill",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            **properties,
            "pod": {"description": "What all pods have", **ref("pod")},
            "autoscaling": {"description": "How workers are scaled", **ref("autoscaling")},
            # A parent chart may have more keys here.
            "global": {**properties["global"], "additionalProperties": True},
        },
        "$defs": definitions,
    }


def _schema(path: tuple[str, ...], value: Any, said: dict[str, str]) -> Schema:
    described: Schema = {"description": said[".".join(path)]} if ".".join(path) in said else {}
    for start in range(len(path)):
        if (limit := LIMITS.get(".".join(path[start:]))) is not None:
            return described | limit
    match value:
        case dict():
            below = {name: _schema((*path, name), item, said) for name, item in value.items()}
            return described | {"type": "object", "additionalProperties": False, "properties": below}
        case bool():
            return described | {"type": "boolean"}
        case int():
            return described | {"type": "integer", "minimum": 0}
        case str():
            return described | {"type": "string"}
        case _:
            raise TypeError(f"{'.'.join(path)}: say in LIMITS what it may be")
