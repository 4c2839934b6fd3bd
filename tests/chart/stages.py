"""How pods live where kwok plays the kubelets: they become ready and Jobs complete, and a label or an image tag tells
one to fail.

A pod labelled `sim: fail` ends with an error, `sim: unready` never becomes ready; one whose image has the tag `broken`
can't be pulled.
"""

from typing import Any, Final

import yaml

from tests.chart.tools import KWOK, folder

Stage = dict[str, Any]
SIM: Final = '.metadata.labels["sim"]'
HOOK: Final = '.metadata.annotations["helm.sh/hook"]'
REASON: Final = '.status.conditions.[] | select( .type == "ContainersReady" ) | .reason'
BROKEN: Final = '.spec.containers[].image | select(endswith(":broken"))'
ENDED: Final = "terminated: {exitCode: %d, reason: %s, finishedAt: {{ Now | Quote }}, startedAt: {{ Now | Quote }}}"
STATUS: Final = """\
conditions:
- {lastTransitionTime: {{ Now | Quote }}, status: "True", type: Initialized}
- {lastTransitionTime: {{ Now | Quote }}, status: "False", type: Ready}
- {lastTransitionTime: {{ Now | Quote }}, status: "False", type: ContainersReady, reason: %s}
containerStatuses:
{{ range .spec.containers }}
- {name: {{ .name | Quote }}, image: {{ .image | Quote }}, imageID: "", ready: false, started: false, restartCount: 0,
   state: {%s}}
{{ end }}
phase: %s
startTime: {{ Now | Quote }}
"""


def stages() -> str:
    """All rules, as kwok reads them: its own for nodes and healthy pods, and ours for the rest."""
    rules = [
        *map(_own, ("node/fast/node-initialize", "node/heartbeat-with-lease/node-heartbeat-with-lease")),
        _own("pod/fast/pod-delete"),
        _but(_own("pod/fast/pod-ready"), _none_of(REASON, "sim-nopull", "sim-unready")),
        _but(_own("pod/fast/pod-complete"), _none_of(SIM, "fail", "unready")),
        # A hook of Helm that is a pod and not a Job, such as a test.
        _stage(
            "hook-complete",
            ("Running", "Succeeded"),
            ENDED % (0, "Completed"),
            {"key": HOOK, "operator": "Exists"},
            _none_of(SIM, "fail", "unready"),
        ),
        _stage("sim-fail", ("Running", "Failed"), ENDED % (1, "Error"), _one_of(SIM, "fail")),
        _stage("sim-unready", ("Pending", "Running"), "running: {}", _one_of(SIM, "unready")),
        _stage(
            "sim-nopull",
            ("Pending", "Pending"),
            "waiting: {reason: ImagePullBackOff}",
            {"key": BROKEN, "operator": "Exists"},
        ),
    ]
    return yaml.safe_dump_all(rules, sort_keys=False)


def _own(name: str) -> Stage:
    text = (folder(KWOK) / "kustomize" / "stage" / f"{name}.yaml").read_text()
    stage: Stage = yaml.safe_load(text)
    return stage


def _but(stage: Stage, condition: Stage) -> Stage:
    stage["spec"]["selector"]["matchExpressions"].append(condition)
    return stage


def _one_of(key: str, *values: str) -> Stage:
    return {"key": key, "operator": "In", "values": list(values)}


def _none_of(key: str, *values: str) -> Stage:
    return {"key": key, "operator": "NotIn", "values": list(values)}


def _stage(name: str, phases: tuple[str, str], state: str, *conditions: Stage) -> Stage:
    """A rule that comes before kwok's own and applies once: the reason of `ContainersReady` is its name."""
    before, after = phases
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "weight": 10_000,
            "selector": {
                "matchExpressions": [
                    {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"},
                    _one_of(".status.phase", before),
                    _none_of(REASON, name),
                    *conditions,
                ]
            },
            "next": {"statusTemplate": STATUS % (name, state, after)},
        },
    }
