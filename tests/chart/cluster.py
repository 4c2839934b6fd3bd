"""A real Kubernetes control plane: etcd, API server, controller manager and scheduler as processes on loopback, and
kwok in the place of kubelets (stages.py). Pods are scheduled, become ready, complete or fail, but nothing runs in them:
what the containers do is tried in check_containers.py.
"""

import json
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from pipeline.devbroker.ports import free_ports
from tests.chart.definitions import definitions
from tests.chart.stages import stages
from tests.chart.tools import BIN

PATIENCE: Final = 180.0
NODES: Final = 3
VOLUMES: Final = 6


@dataclass(frozen=True, slots=True)
class Cluster:
    """One that is up. `environment` is that of programs that speak to it."""

    folder: Path
    environment: dict[str, str]

    def kubectl(self, *arguments: str, stdin: str | None = None, patience: float = PATIENCE) -> str:
        """What kubectl prints. Raises AssertionError with its words."""
        run = subprocess.run(
            [str(BIN / "kubectl"), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env=self.environment,
            timeout=patience,
        )
        assert run.returncode == 0, f"kubectl {' '.join(arguments)}:\n{run.stderr[-4000:]}"
        return run.stdout

    def objects(self, kinds: str, namespace: str, *arguments: str) -> list[dict[str, Any]]:
        """Objects of kinds (`a,b`) in a namespace."""
        found = json.loads(self.kubectl("get", kinds, "--namespace", namespace, "--output", "json", *arguments))
        items: list[dict[str, Any]] = found["items"]
        return items

    def namespace(self, name: str, standard: str = "restricted") -> str:
        """A new one with its default ServiceAccount, in which only pods of a Pod Security Standard may run."""
        self.kubectl("create", "namespace", name)
        self.kubectl("label", "namespace", name, f"pod-security.kubernetes.io/enforce={standard}")
        _wait(lambda: bool(self.objects("serviceaccounts", name)), f"the ServiceAccount of {name}")
        return name


@contextmanager
def running() -> Iterator[Cluster]:
    """Until the block ends."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="turnmill-cluster-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        etcd, peer, api, kwok = free_ports(4)
        token = secrets.token_hex(16)
        (folder / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
        (folder / "stages.yaml").write_text(stages())
        kubeconfig = folder / "kubeconfig"
        cluster = Cluster(folder, {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(folder)})
        (folder / "sa.key").write_bytes(_private_key())

        def start(name: str, *options: str) -> None:
            with (folder / f"{name}.log").open("wb") as log:
                process = subprocess.Popen(["nice", "-n", "5", str(BIN / name), *options], stdout=log, stderr=log)
            stack.callback(_end, process)

        store, peers = f"http://127.0.0.1:{etcd}", f"http://127.0.0.1:{peer}"
        start(
            "etcd",
            f"--data-dir={folder / 'etcd'}",
            "--unsafe-no-fsync",
            "--log-level=warn",
            *(f"--{kind}-client-urls={store}" for kind in ("listen", "advertise")),
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
        )
        start(
            "kube-apiserver",
            f"--etcd-servers={store}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={api}",
            f"--cert-dir={folder / 'certificates'}",
            "--authorization-mode=RBAC",
            f"--token-auth-file={folder / 'tokens.csv'}",
            "--anonymous-auth=false",
            "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={folder / 'sa.key'}",
            f"--service-account-signing-key-file={folder / 'sa.key'}",
        )
        authority = folder / "certificates" / "apiserver.crt"
        _wait(lambda: authority.exists() and authority.stat().st_size > 0, "the API server's certificate", folder)
        kubeconfig.write_text(_kubeconfig(f"https://127.0.0.1:{api}", authority, token))
        _wait(lambda: _succeeds(cluster, "get", "--raw", "/readyz"), "the API server", folder)
        with_config = (f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--secure-port=0")
        start(
            "kube-controller-manager",
            *with_config,
            f"--service-account-private-key-file={folder / 'sa.key'}",
            f"--root-ca-file={authority}",
            "--allocate-node-cidrs=false",
        )
        start("kube-scheduler", *with_config)
        start(
            "kwok",
            f"--kubeconfig={kubeconfig}",
            f"--config={folder / 'stages.yaml'}",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            "--node-lease-duration-seconds=40",
            "--node-ip=127.0.0.1",
            f"--server-address=127.0.0.1:{kwok}",
        )
        for number in range(NODES):
            cluster.kubectl("apply", "--filename=-", stdin=json.dumps(_node(number)))
        for number in range(VOLUMES):
            cluster.kubectl("apply", "--filename=-", stdin=json.dumps(_volume(number)))
        for path in definitions():
            cluster.kubectl("apply", "--server-side", f"--filename={path}")
        cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", f"--timeout={PATIENCE:.0f}s")
        cluster.kubectl("wait", "--for=condition=Ready", "node", "--all", f"--timeout={PATIENCE:.0f}s")
        # A hook of Helm's is not scheduled before the taints of the start are gone.
        _wait(lambda: not any("taints" in n["spec"] for n in cluster.objects("nodes", "default")), "the nodes", folder)
        yield cluster


def _private_key() -> bytes:
    """What tokens of ServiceAccounts are signed with."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(pem, form, serialization.NoEncryption())


def _node(number: int) -> dict[str, Any]:
    capacity = {"cpu": "8", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": f"fake-{number}",
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {
                "kubernetes.io/hostname": f"fake-{number}",
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/zone": f"zone-{number}",
            },
        },
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def _volume(number: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"fake-{number}"},
        "spec": {
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": f"/volumes/{number}"},
        },
    }


def _kubeconfig(server: str, authority: Path, token: str) -> str:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": str(authority)}}],
            "users": [{"name": "admin", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "admin"}}],
            "current-context": "c",
        }
    )


def _succeeds(cluster: Cluster, *arguments: str) -> bool:
    try:
        cluster.kubectl(*arguments)
    except AssertionError:
        return False
    return True


def _wait(found: Callable[[], bool], what: str, folder: Path | None = None) -> None:
    deadline = time.monotonic() + PATIENCE
    while not found():
        if time.monotonic() > deadline:
            logs = sorted(folder.glob("*.log")) if folder else []
            ends = "\n".join(f"--- {log.name}\n{log.read_text()[-1000:]}" for log in logs)
            raise AssertionError(f"waited in vain for {what}\n{ends}")
        time.sleep(0.2)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
