"""Containers of a manifest as processes: its command, environment, user, volumes, probes and signals, as a kubelet
gives them, on a root that can't be written to (sandbox.py). The process is number 1 of its own PID namespace.
"""

from __future__ import annotations

import base64
import os
import re
import shlex
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.chart.render import Manifest
from tests.chart.sandbox import Bind, dockerfile, image_environment, mounts, seen


class Pod:
    """One pod on a node of its own: `folder` keeps its volumes, whatever becomes of its containers."""

    def __init__(self, manifest: Manifest, others: Iterable[Manifest], folder: Path) -> None:
        assert os.geteuid() == 0, "a container's user, volumes and root are given by root alone: run this as root"
        template = manifest["spec"].get("template", manifest)
        self.spec: Manifest = template["spec"]
        self.folder = folder
        found = list(others)
        self.config_maps = {m["metadata"]["name"]: m["data"] for m in found if m["kind"] == "ConfigMap"}
        self.secrets = {m["metadata"]["name"]: _decoded(m) for m in found if m["kind"] == "Secret"}
        claims = [{**claim["metadata"], "claim": claim} for claim in manifest["spec"].get("volumeClaimTemplates", [])]
        self.volumes = {volume["name"]: self._volume(volume) for volume in [*self.spec["volumes"], *claims]}

    @property
    def init(self) -> list[Container]:
        return [Container(self, container) for container in self.spec.get("initContainers", [])]

    @property
    def main(self) -> Container:
        return Container(self, self.spec["containers"][0])

    @property
    def grace(self) -> float:
        seconds: float = self.spec.get("terminationGracePeriodSeconds", 30)
        return seconds

    def _volume(self, volume: Manifest) -> Path:
        """A folder, with the owner and mode that a kubelet gives: root, and the group fsGroup."""
        where = self.folder / volume["name"]
        where.mkdir(parents=True, exist_ok=True)
        group = self.spec["securityContext"]["fsGroup"]
        sources = [volume] if "secret" in volume else volume.get("projected", {}).get("sources", [])
        if not sources and not {"emptyDir", "claim"} & set(volume):
            raise AssertionError(f"no kubelet of these tests has volumes such as {volume}")
        for source in sources:
            secret = source["secret"]
            values = self.secrets[secret.get("secretName") or secret["name"]]
            mode = secret.get("defaultMode") or volume["projected"]["defaultMode"]
            for item in secret["items"]:
                file = where / item["path"]
                file.write_text(values[item["key"]])
                _give(file, mode, group)
        _give(where, 0o2755 if sources else 0o2777, group)
        return where


def _decoded(secret: Manifest) -> dict[str, str]:
    encoded = {name: base64.b64decode(value).decode() for name, value in secret.get("data", {}).items()}
    return encoded | secret.get("stringData", {})


def _give(path: Path, mode: int, group: int) -> None:
    os.chown(path, 0, group)
    path.chmod(mode)


class Container:
    """One container. What it prints is in `log`."""

    def __init__(self, pod: Pod, container: Manifest) -> None:
        self.pod = pod
        self.spec = container
        self.name = container["name"]
        self.log = pod.folder / f"{self.name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.unwell: list[str] = []
        self.ports = {port["name"]: port["containerPort"] for port in container.get("ports", [])}

    def environment(self) -> dict[str, str]:
        """All variables, as the container sees them."""
        found = image_environment()
        for source in self.spec.get("envFrom", []):
            found |= self.pod.config_maps[source["configMapRef"]["name"]]
        for variable in self.spec["env"]:
            if "value" in variable:
                found[variable["name"]] = variable["value"]
            else:
                key = variable["valueFrom"]["secretKeyRef"]
                found[variable["name"]] = self.pod.secrets[key["name"]][key["key"]]
        return found

    def start(self, command: Sequence[str] | None = None) -> Container:
        """Run it; by default what the manifest says."""
        root = self.pod.folder / "root"
        root.mkdir(exist_ok=True)
        variables = [f"{name}={value}" for name, value in self.environment().items()]
        what = list(command or [*self.spec["command"], *self.spec.get("args", [])])
        inside = ["/usr/bin/env", "--chdir", dockerfile("WORKDIR")[0], "-i", *variables, *what]
        script = "\n".join([*mounts(root, self._binds()), f"exec {shlex.join([*self._drop(), str(root), *inside])}"])
        isolated = ["unshare", "--mount", "--pid", "--fork"]
        with self.log.open("ab") as out:
            self.process = subprocess.Popen([*isolated, "sh", "-euc", script], stdout=out, stderr=out)
        return self

    def _binds(self) -> list[Bind]:
        mounts = self.spec["volumeMounts"]
        return [
            *seen(),
            *((str(self.pod.volumes[m["name"]]), m["mountPath"], not m.get("readOnly", False)) for m in mounts),
        ]

    def _drop(self) -> list[str]:
        """The user, and no right to become another; ends with chroot, the root is still to come."""
        context, user = self.spec["securityContext"], self.pod.spec["securityContext"]
        assert context["readOnlyRootFilesystem"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert not context["allowPrivilegeEscalation"]
        drop = ["setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all,+sys_chroot,+setuid,+setgid"]
        return [*drop, "chroot", f"--userspec={user['runAsUser']}:{user['runAsGroup']}", f"--groups={user['fsGroup']}"]

    @property
    def pid(self) -> int:
        """Of the process itself, as the host numbers it: the only child of unshare."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])

    def inside(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in it, as `kubectl exec` does."""
        user = self.pod.spec["securityContext"]
        as_user = ["--setuid", str(user["runAsUser"]), "--setgid", str(user["runAsGroup"])]
        variables = [f"{name}={value}" for name, value in self.environment().items()]
        joined = ["nsenter", "--target", str(self.pid), "--mount", "--pid", "--root"]
        return subprocess.run(
            [*joined, *as_user, "--", "/usr/bin/env", "-i", *variables, *command],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def probe(self, kind: str) -> str | None:
        """-> why a probe fails, or None."""
        probe = self.spec[f"{kind}Probe"]
        get = probe["httpGet"]
        url = f"http://127.0.0.1:{self.ports[get['port']]}{get['path']}"
        try:
            with urllib.request.urlopen(url, timeout=probe.get("timeoutSeconds", 1)):
                return None
        except urllib.error.HTTPError as error:
            return f"{error.code} {error.read().decode(errors='replace')}"
        except OSError as error:
            return str(error)

    def until_ready(self) -> Container:
        """As a kubelet: the startup probe within its failures, then the readiness probe; from there on liveness."""
        startup = self.spec["startupProbe"]
        for _ in range(startup["failureThreshold"]):
            if (why := self.probe("startup")) is None:
                break
            self._running()
            time.sleep(startup["periodSeconds"])
        else:
            raise AssertionError(f"{self.name} does not start: {why}\n{self.text()}")
        threading.Thread(target=self._watch, daemon=True).start()
        for _ in range(240):
            if (why := self.probe("readiness")) is None:
                return self
            self._running()
            time.sleep(0.5)
        raise AssertionError(f"{self.name} is not ready: {why}\n{self.text()}")

    def _running(self) -> None:
        assert self.process is not None
        assert self.process.poll() is None, f"{self.name} has ended with {self.process.returncode}:\n{self.text()}"

    def _watch(self) -> None:
        probe, failures = self.spec["livenessProbe"], 0
        while self.process is not None and self.process.poll() is None:
            why = self.probe("liveness")
            failures = failures + 1 if why else 0
            if why and failures == probe["failureThreshold"]:
                self.unwell.append(why)
            time.sleep(probe["periodSeconds"])

    def stop(self) -> tuple[int, float]:
        """As a kubelet: preStop, SIGTERM, and after the grace period SIGKILL -> (exit status, seconds it took)."""
        assert self.process is not None
        began = time.monotonic()
        if hook := self.spec.get("lifecycle", {}).get("preStop"):
            done = self.inside(*hook["exec"]["command"])
            assert done.returncode == 0, done.stderr
        os.kill(self.pid, signal.SIGTERM)
        status = self.wait(max(0.1, self.pod.grace - (time.monotonic() - began)))
        return status, time.monotonic() - began

    def wait(self, seconds: float) -> int:
        """Until it ends by itself -> exit status; it is killed after so many seconds, and the status is 137."""
        assert self.process is not None
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return 137

    def kill(self) -> None:
        """SIGKILL, where it still runs."""
        if self.process is not None and self.process.poll() is None:
            os.kill(self.pid, signal.SIGKILL)  # and with number 1 the rest of its namespace
            self.process.wait()

    def status(self) -> Mapping[str, str]:
        """What the kernel says of the process: Uid, Gid, Groups, CapEff, NoNewPrivs, …"""
        text = Path(f"/proc/{self.pid}/status").read_text()
        return dict(re.findall(r"^(\w+):\s*(.*)$", text, re.MULTILINE))

    def text(self) -> str:
        return self.log.read_text(errors="replace")[-5000:]
