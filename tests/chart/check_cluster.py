"""On a real API server: releases are installed, upgraded, rolled back, tested and removed; it takes whatever the values
make of the chart.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.chart import cluster as clusters
from tests.chart.check_options import rendered
from tests.chart.cluster import Cluster
from tests.chart.options import CASES, GATEWAY
from tests.chart.render import CHART, PROFILES, Manifest, Refused, arguments, helm, text
from topics.catalog import CATALOG

WAIT: Final = ("--wait", "--timeout=240s")
MONITORED: Final = {"monitoring": {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}}}
# What pods of the options below name, and what must be there before a pod is.
CLASSES: Final = (
    *(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1, "metadata": {"name": name}}
        for name in ("mine", "high", "jobs")
    ),
    {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "gvisor", "metadata": {"name": "gvisor"}},
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with clusters.running() as one:
        yield one


class Release:
    """`t` in a namespace of its own."""

    def __init__(self, cluster: Cluster, namespace: str, profile: str = "plain", *values: dict[str, Any]) -> None:
        self.cluster = cluster
        self.namespace = cluster.namespace(namespace)
        self.profile = profile
        self.values = values

    def helm(self, *words: str) -> str:
        return helm(*words, "--namespace", self.namespace, environment=self.cluster.environment)

    def install(self) -> str:
        return self.helm("install", "t", str(CHART), *arguments(self.profile, *self.values), *WAIT)

    def upgrade(self, *values: dict[str, Any], wait: tuple[str, ...] = WAIT) -> str:
        return self.helm("upgrade", "t", str(CHART), *arguments(self.profile, *self.values, *values), *wait)

    def objects(self, kinds: str, *words: str) -> list[Manifest]:
        return self.cluster.objects(kinds, self.namespace, *words)

    def images(self) -> set[str]:
        """Tags of what workers and gateway run; all of them are ready."""
        pods = self.objects("pods", "--selector=app.kubernetes.io/component notin (dev-kafka, dev-postgres, test)")
        assert all(_ready(pod) for pod in pods)
        return {container["image"].rpartition(":")[2] for pod in pods for container in pod["spec"]["containers"]}


def _ready(pod: Manifest) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))


@pytest.mark.parametrize("profile", PROFILES)
def test_a_release_lives(profile: str, cluster: Cluster) -> None:
    release = Release(cluster, f"life-{profile}", profile)
    notes = release.install().partition("NOTES:")[2]
    assert f"helm test t -n life-{profile}" in notes
    assert "exec deploy/t-turnmill-worker-" in notes
    assert "%!" not in notes
    assert ("NOT for production" in notes) == (profile == "dev")
    version: str = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert release.images() == {version}
    assert "Succeeded" in release.helm("test", "t", "--timeout=240s")
    assert [pod["metadata"]["name"] for pod in release.objects("pods", "--selector=app.kubernetes.io/component=test")]
    release.upgrade({"image": {"tag": "9.9.9"}})
    assert release.images() == {"9.9.9"}
    release.helm("rollback", "t", "1", *WAIT)
    assert release.images() == {version}
    history = json.loads(release.helm("history", "t", "--output=json"))
    assert [entry["status"] for entry in history] == ["superseded", "superseded", "deployed"]

    kinds = "deployments,services,jobs,pods,configmaps,serviceaccounts,networkpolicies,poddisruptionbudgets,ingresses"
    kinds += ",horizontalpodautoscalers,scaledobjects.keda.sh,triggerauthentications.keda.sh,kafkausers,httproutes"
    kinds += ",podmonitors,servicemonitors,prometheusrules"
    release.helm("uninstall", "t", *WAIT)
    cluster.kubectl("delete", "pod", "t-turnmill-test", "--namespace", release.namespace)  # as Helm leaves tests
    left = [
        f"{m['kind']} {m['metadata']['name']}"
        for m in release.objects(kinds)
        if not m["metadata"].get("deletionTimestamp")
    ]
    assert sorted(left) == ["ConfigMap kube-root-ca.crt", "ServiceAccount default"]
    # What holds data stays.
    assert len(release.objects("kafkatopics")) == (len(CATALOG) if profile == "strimzi" else 0)


def test_selectors_find_what_they_are_for(cluster: Cluster) -> None:
    release = Release(cluster, "selectors", "plain", GATEWAY, MONITORED)
    release.install()
    pods = release.objects("pods")
    running = [pod for pod in pods if _ready(pod)]
    assert len(running) == 4

    def selected(selector: Manifest) -> list[Manifest]:
        found = []
        for pod in running:
            labels = pod["metadata"]["labels"]
            fits = all(labels.get(name) == value for name, value in selector.get("matchLabels", {}).items())
            among = all(labels.get(e["key"]) in e["values"] for e in selector.get("matchExpressions", []))
            found += [pod] if fits and among else []
        return found

    for budget in release.objects("poddisruptionbudgets"):
        assert (budget["status"]["currentHealthy"], budget["status"]["disruptionsAllowed"]) == (2, 1)
    ports = {}
    for monitor in release.objects("podmonitors"):
        ports[monitor["kind"]] = monitor["spec"]["podMetricsEndpoints"][0]["port"]
        names = [
            port["name"]
            for pod in selected(monitor["spec"]["selector"])
            for port in pod["spec"]["containers"][0]["ports"]
        ]
        assert names == [ports["PodMonitor"]] * 2
    services = release.objects("services")
    for monitor in release.objects("servicemonitors"):
        wanted = monitor["spec"]["selector"]["matchLabels"]
        found = [s for s in services if wanted.items() <= s["metadata"]["labels"].items()]
        assert [port["name"] for s in found for port in s["spec"]["ports"]] == [monitor["spec"]["endpoints"][0]["port"]]
    slices = release.objects("endpointslices")
    assert [len(s["endpoints"]) for s in slices] == [2]
    assert all(endpoint["conditions"]["ready"] for s in slices for endpoint in s["endpoints"])
    long_lived = [
        p for p in release.objects("networkpolicies") if p["metadata"]["name"].endswith(("worker-all", "gateway"))
    ]
    assert [len(selected(policy["spec"]["podSelector"])) for policy in long_lived] == [2, 2]
    # Pods of a Deployment are on nodes of their own.
    for component in ("worker-all", "gateway"):
        mine = [p for p in running if p["metadata"]["labels"]["app.kubernetes.io/component"] == component]
        assert len({pod["spec"]["nodeName"] for pod in mine}) == 2


def test_a_role_moves_to_a_deployment_of_its_own(cluster: Cluster) -> None:
    release = Release(cluster, "split")
    release.install()
    split = {name: {"enabled": True} for name in ("assemble", "metrics", "store")}
    release.upgrade({"roles": {"all": {"enabled": False}, **split}})
    names = {m["metadata"]["name"].removeprefix("t-turnmill-worker-") for m in release.objects("deployments")}
    assert names == set(split)


@pytest.mark.parametrize(
    "fault",
    [{"jobs": {"backoffLimit": 0, "pod": {"labels": {"sim": "fail"}}}}, {"image": {"tag": "broken"}}],
    ids=["migration-fails", "no-such-image"],
)
def test_an_upgrade_that_fails_leaves_what_ran(fault: dict[str, Any], cluster: Cluster) -> None:
    release = Release(cluster, f"fault-{'image' if 'image' in fault else 'jobs'}")
    release.install()
    before = {m["metadata"]["name"]: m["metadata"]["generation"] for m in release.objects("deployments")}
    with pytest.raises(Refused, match="pre-upgrade hooks failed"):
        release.upgrade(fault, {"worker": {"homeSize": "3Gi"}}, wait=("--wait", "--timeout=15s"))
    assert {m["metadata"]["name"]: m["metadata"]["generation"] for m in release.objects("deployments")} == before
    release.upgrade({"worker": {"homeSize": "3Gi"}})
    assert "broken" not in release.images()


def test_an_install_that_fails_can_be_repeated(cluster: Cluster) -> None:
    release = Release(cluster, "again", "plain", {"jobs": {"backoffLimit": 0, "pod": {"labels": {"sim": "fail"}}}})
    with pytest.raises(Refused, match="failed pre-install"):
        release.install()
    assert not release.objects("deployments")
    release.upgrade({"jobs": {"pod": {"labels": {"sim": "none"}}}}, wait=("--install", *WAIT))
    assert len(release.objects("deployments")) == 1


def test_workers_that_do_not_become_ready_are_rolled_back(cluster: Cluster) -> None:
    release = Release(cluster, "atomic")
    release.install()
    broken = {"roles": {"all": {"pod": {"labels": {"sim": "unready"}}}}}
    with pytest.raises(Refused, match="rolled back"):
        release.upgrade(broken, wait=("--atomic", "--timeout=30s"))
    assert all(_ready(pod) for pod in release.objects("pods"))


def test_the_server_takes_what_every_key_makes(cluster: Cluster, tmp_path: Path) -> None:
    for name in ("agents", "brokers"):
        cluster.namespace(name, standard="privileged")
    texts = [text(profile) for profile in PROFILES] + [rendered(key) for key in CASES]
    found = {json.dumps(one): None for whole in texts for one in yaml.safe_load_all(whole) if one}
    # Pods are made only with the account that they name.
    accounts = {json.loads(one)["spec"]["serviceAccountName"] for one in found if '"kind": "Pod",' in one} - {"default"}
    metadata = [{"name": name, "namespace": "agents"} for name in sorted(accounts)]
    known = [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": one} for one in metadata]
    cluster.kubectl("create", "--filename=-", stdin=yaml.safe_dump_all([*CLASSES, *known]))
    found = {one: None for one in found if '"kind": "ServiceAccount"' not in one}
    for number, one in enumerate(found):
        (tmp_path / f"{number:04}.json").write_text(one)
    said = cluster.kubectl("create", "--dry-run=server", "--validate=strict", "--filename", str(tmp_path), patience=900)
    assert said.count("(server dry run)") == len(found) > len(CASES)


def test_the_server_refuses_what_is_wrong(cluster: Cluster) -> None:
    wrong = (
        ("kind: Deployment", "replicas: 2", "replica: 2"),
        ("kind: ScaledObject", "maxReplicaCount: 12", "maxReplicaCount: many"),
        ("kind: HTTPRoute", "request: 0s", "request: never"),
        ("kind: KafkaUser", "patternType: prefix", "patternType: start"),
        ("kind: PodMonitor", "interval: 15s", "interval: often"),
    )
    whole = "\n---\n".join(rendered(key) for key in CASES)
    for kind, right, other in wrong:
        one = next(m for m in whole.split("\n---\n") if kind in m and right in m)
        with pytest.raises(AssertionError, match="kubectl create"):
            cluster.kubectl(
                "create", "--dry-run=server", "--validate=strict", "-f", "-", stdin=one.replace(right, other)
            )
