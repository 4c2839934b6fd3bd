"""The chart's options: other values to start from, a new value, and what must then be in the manifests."""

from collections.abc import Mapping
from typing import Any, Final

from pipeline.worker.host.roles import ROLES

GATEWAY: Final = {"gateway": {"enabled": True, "tokens": {"existingSecret": "gateway-tokens"}}}
KEDA: Final = {"autoscaling": {"enabled": True}}
HPA: Final = {"autoscaling": {"enabled": True, "kind": "hpa"}}
TLS: Final = {"kafka": {"tls": {"enabled": True, "ca": {"existingSecret": "ca"}, "client": {"existingSecret": "me"}}}}
SASL: Final = {"kafka": {"sasl": {"mechanism": "PLAIN", "username": "u", "existingSecret": "login"}}}
OAUTH: Final = {
    "kafka": {
        "sasl": {
            "mechanism": "OAUTHBEARER",
            "oauth": {"tokenUrl": "https://login", "clientId": "me", "existingSecret": "login"},
        }
    }
}
STRIMZI: Final = {"topics": {"strimzi": {"enabled": True, "cluster": "kafka-1"}}}
INGRESS: Final = {"gateway": {**GATEWAY["gateway"], "ingress": {"enabled": True, "host": "agents.example"}}}
ROUTE: Final = {"gateway": {**GATEWAY["gateway"], "httpRoute": {"enabled": True, "parentRefs": [{"name": "public"}]}}}
GATEWAY_HPA: Final = {"gateway": {**GATEWAY["gateway"], "autoscaling": {"enabled": True}}}
PERSISTENT: Final = {"gateway": {**GATEWAY["gateway"], "persistence": {"enabled": True}}}
RULES: Final = {"monitoring": {"rules": {"enabled": True}}}
DASHBOARDS: Final = {"monitoring": {"dashboards": {"enabled": True}}}
POD_MONITOR: Final = {"monitoring": {"podMonitor": {"enabled": True}}}
SERVICE_MONITOR: Final = {**GATEWAY, "monitoring": {"serviceMonitor": {"enabled": True}}}
DEV: Final = {
    "dev": {"kafka": {"enabled": True}, "postgres": {"enabled": True}},
    "topics": {"apply": "init"},
    "store": {"migrate": "init"},
}
ARCHIVE: Final = {"settings": {"archive": "s3://bucket/turns"}}
SPLIT: Final = {"roles": {"all": {"enabled": False}, **{role: {"enabled": True} for role in ROLES}}, **ARCHIVE}
SCALED_SPLIT: Final = {**SPLIT, **KEDA}
DIGEST: Final = f"sha256:{'0a' * 32}"

Case = tuple[Mapping[str, Any], Any, str]
"""Other values that it takes, the new value, what stands in the manifests then and did not before."""


def of_role(role: str) -> dict[str, Case]:
    base = SPLIT if role != "all" else {}
    return {
        f"roles.{role}.replicas": (base, 7, "replicas: 7"),
        f"roles.{role}.resources": (base, {"limits": {"memory": "3333Mi"}}, "memory: 3333Mi"),
        f"roles.{role}.settings": (base, {"fetch_records": 1111}, 'TURNMILL_FETCH_RECORDS, value: "1111"'),
        f"roles.{role}.autoscaling": (
            SCALED_SPLIT if role != "all" else KEDA,
            {"maxReplicas": 5},
            "maxReplicaCount: 5",
        ),
        f"roles.{role}.pod": (base, {"priorityClassName": "mine"}, "priorityClassName: mine"),
    }


CASES: Final[dict[str, Case]] = {
    "nameOverride": ({}, "mill", "app.kubernetes.io/name: mill"),
    "fullnameOverride": ({}, "mill", "name: mill-worker-all"),
    "commonLabels": ({}, {"team": "agents"}, "team: agents"),
    "commonAnnotations": ({}, {"owner": "agents"}, "owner: agents"),
    "listenAddress": ({}, "::", 'TURNMILL_HOST: "::"'),
    "global.imageRegistry": ({}, "mirror.example", "image: mirror.example/turnmill/turnmill:"),
    "global.imagePullSecrets": (
        {"image": {"pullSecrets": [{"name": "b"}]}},
        [{"name": "a"}],
        '[{"name":"a"},{"name":"b"}]',
    ),
    "image.registry": ({}, "registry.example", "image: registry.example/turnmill/turnmill:"),
    "image.repository": ({}, "mine/mill", "image: ghcr.io/mine/mill:"),
    "image.tag": ({}, "9.9.9", "turnmill:9.9.9"),
    "image.digest": ({}, DIGEST, f"@{DIGEST}"),
    "image.pullPolicy": ({}, "Always", "imagePullPolicy: Always"),
    "image.pullSecrets": ({}, [{"name": "pull"}], 'imagePullSecrets: [{"name":"pull"}]'),
    "serviceAccount.create": ({"serviceAccount": {"create": False}}, None, "kind: ServiceAccount"),
    "serviceAccount.name": ({}, "mine", "serviceAccountName: mine"),
    "serviceAccount.annotations": ({}, {"role": "reader"}, "role: reader"),
    "kafka.brokers": ({}, "a:9092,b:9093", "a:9092,b:9093"),
    "kafka.tls.enabled": ({}, True, 'TURNMILL_SECURITY_PROTOCOL: "SSL"'),
    "kafka.tls.ca.existingSecret": ({"kafka": {"tls": {"enabled": True}}}, "authorities", "TURNMILL_SSL_CA_FILE"),
    "kafka.tls.ca.key": (TLS, "root.pem", "{key: root.pem, path: ca.crt}"),
    "kafka.tls.client.existingSecret": ({"kafka": {"tls": {"enabled": True}}}, "me", "TURNMILL_SSL_CERTIFICATE_FILE"),
    "kafka.tls.client.certificateKey": (TLS, "my.crt", "{key: my.crt, path: tls.crt}"),
    "kafka.tls.client.privateKeyKey": (TLS, "my.key", "{key: my.key, path: tls.key}"),
    "kafka.tls.client.passwordKey": (TLS, "phrase", "secretKeyRef: {name: me, key: phrase}"),
    "kafka.sasl.mechanism": (SASL, "SCRAM-SHA-512", 'TURNMILL_SASL_MECHANISM: "SCRAM-SHA-512"'),
    "kafka.sasl.username": (SASL, "mill", 'TURNMILL_SASL_USERNAME: "mill"'),
    "kafka.sasl.existingSecret": (SASL, "other", "name: other"),
    "kafka.sasl.passwordKey": (SASL, "pw", "{key: pw, path: password}"),
    "kafka.sasl.oauth.tokenUrl": (OAUTH, "https://other", 'TURNMILL_OAUTH_TOKEN_URL: "https://other"'),
    "kafka.sasl.oauth.clientId": (OAUTH, "other", 'TURNMILL_OAUTH_CLIENT_ID: "other"'),
    "kafka.sasl.oauth.scope": (OAUTH, "kafka", 'TURNMILL_OAUTH_SCOPE: "kafka"'),
    "kafka.sasl.oauth.existingSecret": (OAUTH, "other", "name: other"),
    "kafka.sasl.oauth.secretKey": (OAUTH, "cs", "{key: cs, path: client-secret}"),
    "kafka.sasl.oauth.tokenFile": (OAUTH, "/var/token", 'TURNMILL_OAUTH_TOKEN_FILE: "/var/token"'),
    "topics.prefix": ({}, "mine", 'TURNMILL_TOPIC_PREFIX: "mine"'),
    "topics.partitions": ({}, 33, 'TURNMILL_PARTITIONS: "33"'),
    "topics.replication": ({}, 2, 'TURNMILL_REPLICATION: "2"'),
    "topics.apply": ({}, "init", "initContainers:\n        - name: topics"),
    "topics.grow": ({}, True, '["topics","apply","--grow"]'),
    "topics.strimzi.enabled": ({"topics": {"strimzi": {"cluster": "k"}}}, True, "kind: KafkaTopic"),
    "topics.strimzi.cluster": (STRIMZI, "kafka-2", "strimzi.io/cluster: kafka-2"),
    "topics.strimzi.namespace": (STRIMZI, "brokers", "namespace: brokers"),
    "topics.strimzi.user.create": (
        {"topics": {"strimzi": {"enabled": True, "cluster": "k", "user": {"create": False}}}},
        True,
        "kind: KafkaUser",
    ),
    "topics.strimzi.user.name": (STRIMZI, "mill-user", "name: mill-user"),
    "topics.strimzi.user.authentication": (STRIMZI, "tls", "authentication: {type: tls}"),
    "store.existingSecret": ({}, "other", "secretKeyRef: {name: other, key: url}"),
    "store.key": ({}, "address", "key: address}"),
    "store.url": (
        {"store": {"existingSecret": "", "url": "postgresql://other/threads"}},
        "postgresql://db/threads",
        'value: "postgresql://db/threads"',
    ),
    "store.migrate": ({}, "init", "initContainers:\n        - name: migrate"),
    "settings": ({}, {"max_record_bytes": 2000000}, 'TURNMILL_MAX_RECORD_BYTES: "2000000"'),
    "roles.all.enabled": ({"roles": {"all": {"enabled": False}, "store": {"enabled": True}}}, None, ""),
    "roles.all.roles": ({}, ["assemble"], '["worker","--roles","assemble"]'),
    **{
        f"roles.{role}.enabled": (
            {
                **ARCHIVE,
                "roles": {"all": {"enabled": False}, "metrics" if role != "metrics" else "store": {"enabled": True}},
            },
            True,
            f'["worker","--roles","{role}"]',
        )
        for role in ROLES
    },
    **{key: case for role in ("all", *ROLES) for key, case in of_role(role).items()},
    "worker.port": ({}, 7070, '"containerPort":7070'),
    "worker.strategy": ({}, {"type": "Recreate", "rollingUpdate": None}, "type: Recreate"),
    "worker.terminationGracePeriodSeconds": ({}, 77, "terminationGracePeriodSeconds: 77"),
    "worker.preStopSeconds": ({}, 3, 'command: [sleep, "3"]'),
    "worker.homeSize": ({}, "5Gi", "sizeLimit: 5Gi"),
    "worker.startupProbe": ({}, {"failureThreshold": 99}, '"failureThreshold":99'),
    "worker.livenessProbe": ({}, {"periodSeconds": 44}, '"periodSeconds":44'),
    "worker.readinessProbe": ({}, {"periodSeconds": 45}, '"periodSeconds":45'),
    "worker.podDisruptionBudget": ({}, {"maxUnavailable": 2}, "maxUnavailable: 2"),
    "autoscaling.enabled": ({}, True, "kind: ScaledObject"),
    "autoscaling.kind": (KEDA, "hpa", "kind: HorizontalPodAutoscaler"),
    "autoscaling.minReplicas": (KEDA, 4, "minReplicaCount: 4"),
    "autoscaling.maxReplicas": (KEDA, 6, "maxReplicaCount: 6"),
    "autoscaling.lagThreshold": (KEDA, 1000000, 'lagThreshold: "1000000"'),
    "autoscaling.targetCPUUtilization": (HPA, 55, "averageUtilization: 55"),
    "autoscaling.pollingInterval": (KEDA, 21, "pollingInterval: 21"),
    "autoscaling.scaleDownStabilizationSeconds": (KEDA, 901, '"stabilizationWindowSeconds":901'),
    "autoscaling.annotations": (KEDA, {"scaled": "by-lag"}, "scaled: by-lag"),
    "gateway.enabled": ({"gateway": {"tokens": {"existingSecret": "t"}}}, True, 'args: ["gateway"]'),
    "gateway.replicas": (GATEWAY, 9, "replicas: 9"),
    "gateway.resources": (GATEWAY, {"limits": {"memory": "3333Mi"}}, "memory: 3333Mi"),
    "gateway.settings": (GATEWAY, {"gateway_rate": 12.5}, 'TURNMILL_GATEWAY_RATE, value: "12.5"'),
    "gateway.pod": (GATEWAY, {"priorityClassName": "mine"}, "priorityClassName: mine"),
    "gateway.tokens.existingSecret": (GATEWAY, "others", "secretName: others"),
    "gateway.tokens.key": (GATEWAY, "lines", "{key: lines, path: tokens}"),
    "gateway.port": (GATEWAY, 9090, '"containerPort":9090'),
    "gateway.homeSize": (GATEWAY, "7Gi", "sizeLimit: 7Gi"),
    "gateway.persistence.enabled": (GATEWAY_HPA, True, "kind: StatefulSet"),
    "gateway.persistence.storageClass": (PERSISTENT, "fast", "storageClassName: fast"),
    "gateway.persistence.annotations": (PERSISTENT, {"backup": "yes"}, 'backup: "yes"'),
    "gateway.service.type": (GATEWAY, "LoadBalancer", "type: LoadBalancer"),
    "gateway.service.port": (GATEWAY, 8888, "port: 8888"),
    "gateway.service.nodePort": (
        {"gateway": {**GATEWAY["gateway"], "service": {"type": "NodePort"}}},
        30080,
        "nodePort: 30080",
    ),
    "gateway.service.spec": (GATEWAY, {"sessionAffinity": "ClientIP"}, "sessionAffinity: ClientIP"),
    "gateway.service.annotations": (GATEWAY, {"lb": "internal"}, "lb: internal"),
    "gateway.ingress.enabled": ({"gateway": {**GATEWAY["gateway"], "ingress": {"host": "h"}}}, True, "kind: Ingress"),
    "gateway.ingress.className": (INGRESS, "nginx", "ingressClassName: nginx"),
    "gateway.ingress.annotations": (INGRESS, {"buffering": "off"}, 'buffering: "off"'),
    "gateway.ingress.host": (INGRESS, "other.example", "host: other.example"),
    "gateway.ingress.path": (INGRESS, "/mill", "path: /mill"),
    "gateway.ingress.tlsSecret": (INGRESS, "certificate", "tls: [{secretName: certificate"),
    "gateway.httpRoute.enabled": (
        {"gateway": {**GATEWAY["gateway"], "httpRoute": {"parentRefs": [{"name": "g"}]}}},
        True,
        "kind: HTTPRoute",
    ),
    "gateway.httpRoute.parentRefs": (ROUTE, [{"name": "internal"}], "- name: internal"),
    "gateway.httpRoute.hostnames": (ROUTE, ["agents.example"], 'hostnames: ["agents.example"]'),
    "gateway.httpRoute.annotations": (ROUTE, {"routed": "yes"}, 'routed: "yes"'),
    "gateway.autoscaling.enabled": (GATEWAY, True, "kind: HorizontalPodAutoscaler"),
    "gateway.autoscaling.minReplicas": (GATEWAY_HPA, 3, "minReplicas: 3"),
    "gateway.autoscaling.maxReplicas": (GATEWAY_HPA, 33, "maxReplicas: 33"),
    "gateway.autoscaling.targetCPUUtilization": (GATEWAY_HPA, 44, "averageUtilization: 44"),
    "gateway.strategy": (GATEWAY, {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3}}, "maxSurge: 3"),
    "gateway.terminationGracePeriodSeconds": (GATEWAY, 88, "terminationGracePeriodSeconds: 88"),
    "gateway.preStopSeconds": (GATEWAY, 13, 'command: [sleep, "13"]'),
    "gateway.startupProbe": (GATEWAY, {"failureThreshold": 98}, '"failureThreshold":98'),
    "gateway.livenessProbe": (GATEWAY, {"periodSeconds": 46}, '"periodSeconds":46'),
    "gateway.readinessProbe": (GATEWAY, {"periodSeconds": 47}, '"periodSeconds":47'),
    "gateway.podDisruptionBudget": (GATEWAY, {"maxUnavailable": 3}, "maxUnavailable: 3"),
    "jobs.serviceAccountName": ({}, "hooks", "serviceAccountName: hooks"),
    "jobs.resources": ({}, {"limits": {"memory": "3333Mi"}}, "memory: 3333Mi"),
    "jobs.backoffLimit": ({}, 9, "backoffLimit: 9"),
    "jobs.activeDeadlineSeconds": ({}, 99, "activeDeadlineSeconds: 99"),
    "jobs.pod": ({}, {"priorityClassName": "jobs"}, "priorityClassName: jobs"),
    "pod.annotations": ({}, {"scraped": "no"}, 'scraped: "no"'),
    "pod.labels": ({}, {"cost": "agents"}, "cost: agents"),
    "pod.nodeSelector": ({}, {"pool": "kafka"}, "pool: kafka"),
    "pod.tolerations": ({}, [{"key": "dedicated", "operator": "Exists"}], "key: dedicated"),
    "pod.affinity": ({}, {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}, "nodeAffinity:"),
    "pod.topologySpreadConstraints": (
        {},
        [{"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}],
        '"topologyKey":"rack"',
    ),
    "pod.priorityClassName": ({}, "high", "priorityClassName: high"),
    "pod.runtimeClassName": ({}, "gvisor", "runtimeClassName: gvisor"),
    "pod.schedulerName": ({}, "batch", "schedulerName: batch"),
    "pod.dnsPolicy": ({}, "Default", "dnsPolicy: Default"),
    "pod.hostAliases": ({}, [{"ip": "10.1.1.1", "hostnames": ["kafka"]}], "ip: 10.1.1.1"),
    "pod.extraEnv": ({}, [{"name": "AWS_REGION", "value": "eu-north-1"}], "name: AWS_REGION"),
    "pod.extraEnvFrom": ({}, [{"secretRef": {"name": "object-store"}}], "name: object-store"),
    "pod.extraVolumes": ({}, [{"name": "rules", "configMap": {"name": "redaction"}}], "name: redaction"),
    "pod.extraVolumeMounts": (
        {"pod": {"extraVolumes": [{"name": "rules", "configMap": {"name": "redaction"}}]}},
        [{"name": "rules", "mountPath": "/etc/rules"}],
        "mountPath: /etc/rules",
    ),
    "pod.initContainers": ({}, [{"name": "wait", "image": "busybox"}], "name: wait"),
    "pod.sidecars": ({}, [{"name": "proxy", "image": "envoy"}], "name: proxy"),
    "pod.securityContext": ({}, {"runAsUser": 4242}, "runAsUser: 4242"),
    "pod.containerSecurityContext": ({}, {"runAsGroup": 4343}, "runAsGroup: 4343"),
    "networkPolicy.enabled": ({"networkPolicy": {"enabled": False}}, None, ""),
    "networkPolicy.kafkaPorts": ({}, [9999], "port: 9999"),
    "networkPolicy.storePorts": ({}, [6432], "port: 6432"),
    "networkPolicy.externalPorts": ({}, [8443], "port: 8443"),
    "networkPolicy.metricsFrom": ({}, [{"podSelector": {"matchLabels": {"app": "prometheus"}}}], '"app":"prometheus"'),
    "networkPolicy.gatewayFrom": (GATEWAY, [{"podSelector": {"matchLabels": {"app": "ingress"}}}], '"app":"ingress"'),
    "networkPolicy.extraEgress": ({}, [{"ports": [{"port": 4318}]}], "port: 4318"),
    "networkPolicy.extraIngress": ({}, [{"ports": [{"port": 4319}]}], "port: 4319"),
    "monitoring.podMonitor.enabled": ({}, True, "kind: PodMonitor"),
    "monitoring.podMonitor.labels": (POD_MONITOR, {"prometheus": "main"}, "prometheus: main"),
    "monitoring.podMonitor.interval": (POD_MONITOR, "33s", "interval: 33s"),
    "monitoring.serviceMonitor.enabled": (GATEWAY, True, "kind: ServiceMonitor"),
    "monitoring.serviceMonitor.labels": (SERVICE_MONITOR, {"prometheus": "main"}, "prometheus: main"),
    "monitoring.serviceMonitor.interval": (SERVICE_MONITOR, "34s", "interval: 34s"),
    "monitoring.rules.enabled": ({}, True, "kind: PrometheusRule"),
    "monitoring.rules.labels": (RULES, {"prometheus": "main"}, "prometheus: main"),
    "monitoring.rules.alertLabels": (RULES, {"team": "agents"}, "team: agents"),
    "monitoring.rules.runbookUrl": (RULES, "https://wiki/books", "https://wiki/books#turnmilllaggrowing"),
    "monitoring.rules.disabled": (RULES, ["TurnmillLagGrowing"], ""),
    "monitoring.rules.lag": (RULES, 123456789, "123456789"),
    "monitoring.rules.deadLetters": (RULES, 17, "\\u003e 17"),
    "monitoring.rules.errorRatio": (RULES, 0.37, "\\u003e 0.37"),
    "monitoring.rules.costPerHour": (RULES, 55, "alert: TurnmillCostHigh"),
    "monitoring.dashboards.enabled": ({}, True, "t-turnmill-dashboard-usage"),
    "monitoring.dashboards.labels": (DASHBOARDS, {"grafana": "yes"}, 'grafana: "yes"'),
    "monitoring.dashboards.annotations": (DASHBOARDS, {"folder": "Agents"}, "folder: Agents"),
    "extraObjects": (
        {},
        [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-mine"}}],
        "name: 't-mine'",
    ),
    "test.enabled": ({"test": {"enabled": False}}, None, ""),
    "dev.kafka.enabled": ({"topics": {"apply": "init"}, "store": {"migrate": "init"}}, True, "t-turnmill-kafka"),
    "dev.kafka.image": (DEV, "mirror/kafka:4", "image: mirror/kafka:4"),
    "dev.postgres.enabled": ({"topics": {"apply": "init"}, "store": {"migrate": "init"}}, True, "t-turnmill-postgres"),
    "dev.postgres.image": (DEV, "mirror/postgres:17", "image: mirror/postgres:17"),
}
