"""What holds in every profile: pods that ask for nothing, policies for each, hooks that delete nothing; scores."""

import json
import subprocess
from typing import Final

import pytest

from tests.chart.render import PROFILES, Manifest, arguments, helm, manifests, of_kind, pod_of, text
from tests.chart.tools import BIN, ROOT

OURS: Final = "app.kubernetes.io/part-of"
# What kube-score finds, and why it stays.
EXPLAINED: Final = {
    "container-image-pull-policy": "images are named by version or digest, which do not change",
    "container-ephemeral-storage-request-and-limit": "the only places to write are emptyDirs with a sizeLimit",
    "container-resources": "no CPU limit: a throttled worker misses heartbeats and loses its partitions",
    "deployment-has-host-podantiaffinity": "topology spread constraints say it, and may be soft",
    "statefulset-has-host-podantiaffinity": "likewise",
    "statefulset-has-servicename": "the gateway's pods are asked through its Service, none by a name of its own",
}
# What it finds in the one-node Kafka and Postgres of values-dev.yaml alone, which are not for production.
FOR_TRYING: Final = {
    "container-security-context-readonlyrootfilesystem": "their images write to their root",
    "container-security-context-user-group-id": "their images come with users below 10000",
    "deployment-replicas": "one node; and the gateway beside them is one",
    "deployment-strategy": "two of them can't share data",
    "pod-networkpolicy": "to be reached from anywhere in the cluster",
    "pod-probes": "no liveness probe, so that a slow start is not cut off",
}


def pods(profile: str) -> list[tuple[str, Manifest, Manifest]]:
    """-> (component, labels, spec of the pod) of everything that runs our image."""
    found = []
    for manifest in manifests(profile):
        if manifest["kind"] in ("Deployment", "StatefulSet", "Job", "Pod"):
            spec = pod_of(manifest)
            labels = manifest["spec"].get("template", manifest)["metadata"]["labels"]
            if not labels["app.kubernetes.io/component"].startswith("dev-"):
                found.append((labels["app.kubernetes.io/component"], labels, spec))
    return found


@pytest.mark.parametrize("profile", PROFILES)
def test_it_passes_helms_lint(profile: str) -> None:
    helm("lint", "--strict", str(ROOT / "helm" / "turnmill"), *arguments(profile))


@pytest.mark.parametrize("profile", PROFILES)
def test_pods_are_what_the_restricted_standard_allows(profile: str) -> None:
    found = pods(profile)
    assert found
    for component, _, spec in found:
        assert spec["automountServiceAccountToken"] is False, component
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"]["drop"] == ["ALL"]
            assert container["resources"]["limits"]["memory"]
            assert container["resources"]["requests"]["cpu"]
        assert all("sizeLimit" in volume["emptyDir"] for volume in spec["volumes"] if "emptyDir" in volume)


@pytest.mark.parametrize("profile", PROFILES)
def test_every_pod_has_a_policy_and_every_policy_a_pod(profile: str) -> None:
    components = {component for component, _, _ in pods(profile)}
    selected = {
        policy["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
        for policy in of_kind(manifests(profile), "NetworkPolicy")
    }
    assert selected == components
    for policy in of_kind(manifests(profile), "NetworkPolicy"):
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
        assert all(rule.get("ports") for rule in policy["spec"]["egress"])


@pytest.mark.parametrize("profile", PROFILES)
def test_hooks_only_add(profile: str) -> None:
    hooks = [m for m in manifests(profile) if "helm.sh/hook" in (m["metadata"].get("annotations") or {})]
    commands = {m["metadata"]["annotations"]["helm.sh/hook"]: pod_of(m)["containers"][0]["args"] for m in hooks}
    assert all("delete" not in hook and "rollback" not in hook for hook in commands)
    assert all(args[0] in ("topics", "store", "doctor") and "delete" not in args for args in commands.values())
    # A hook before the install has nothing of the release to stand on.
    for hook in hooks:
        if hook["kind"] == "Job":
            spec = pod_of(hook)
            assert spec["serviceAccountName"] == "default"
            assert "envFrom" not in spec["containers"][0]


def test_topics_of_strimzi_are_kept_and_those_of_the_catalog() -> None:
    from topics.catalog import CATALOG

    found = of_kind(manifests("strimzi"), "KafkaTopic")
    assert {m["spec"]["topicName"]: m["spec"]["config"] for m in found} == {
        topic.full_name("turnmill"): topic.config() for topic in CATALOG
    }
    assert all(m["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" for m in found)
    assert not of_kind(manifests("strimzi"), "Job", "-topics")


def test_environment_is_what_the_settings_class_reads() -> None:
    """Every variable of every container, in every profile, is a setting, and its value is a good one."""
    from pipeline.settings import load

    for profile in PROFILES:
        found = manifests(profile)
        shared = of_kind(found, "ConfigMap", "t-turnmill")[0]["data"]
        for _, _, spec in pods(profile):
            container = spec["containers"][0]
            own = {v["name"]: v.get("value", "postgresql://user:pw@db/threads") for v in container["env"]}
            settings = load({**(shared if "envFrom" in container else {}), **own})
            assert settings.topic_prefix == "turnmill"


def test_kube_score_finds_nothing_unexplained() -> None:
    found: dict[str, set[tuple[str, str]]] = {}
    for profile in PROFILES:
        run = subprocess.run(
            [str(BIN / "kube-score"), "score", "--output-format", "json", "-"],
            input=text(profile),
            capture_output=True,
            text=True,
            check=False,
        )
        for scored in json.loads(run.stdout):
            for check in scored["checks"]:
                if not check["skipped"] and check["grade"] < 10:
                    found.setdefault(check["check"]["id"], set()).add((profile, scored["object_name"]))
    assert set(found) == set(EXPLAINED) | set(FOR_TRYING)
    assert {profile for check in FOR_TRYING for profile, _ in found[check]} == {"dev"}


def test_the_readme_is_made_from_the_values() -> None:
    made = subprocess.run(
        [str(BIN / "helm-docs"), "--chart-search-root=helm", "--sort-values-order=file", "--dry-run"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert made.stdout.strip() == (ROOT / "helm" / "turnmill" / "README.md").read_text().strip(), "run `make chart`"
