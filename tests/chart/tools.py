"""The programs that the chart's tests need, built from Go modules into .tools/chart; `python tests/chart/tools.py`.

Each module is pinned by version and checksum. Its own go.sum, which the checksum covers, pins everything below it.
The first build takes about fifteen minutes on two cores; after that nothing is done.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
BIN: Final = ROOT / ".tools" / "chart"
CACHE: Final = ROOT / ".cache" / "go"
OLDEST_GO: Final = "1.26"
KUBERNETES: Final = "1.36.3"
MINOR: Final = KUBERNETES.split(".")[1]
STAGING: Final = f"v0.{KUBERNETES.removeprefix('1.')}"


@dataclass(frozen=True, slots=True)
class Module:
    """One Go module. `programs`: name -> package to build; `variables`: what the linker sets."""

    path: str
    version: str
    checksum: str
    programs: Mapping[str, str] = field(default_factory=dict, hash=False)
    variables: Mapping[str, str] = field(default_factory=dict, hash=False)


KUBE_VERSION: Final = "k8s.io/component-base/version"
CAPABILITIES: Final = "helm.sh/helm/v3/pkg/chartutil"
LINT: Final = "helm.sh/helm/v3/pkg/lint/rules"

KUBERNETES_MODULE: Final = Module(
    "k8s.io/kubernetes",
    f"v{KUBERNETES}",
    "h1:qDQdoMiluAE2Eab6Fa52YV+WjiGz9mZFFoagEA6cI+o=",
    {
        name: f"k8s.io/kubernetes/cmd/{name}"
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
    },
    {
        f"{KUBE_VERSION}.gitVersion": f"v{KUBERNETES}",
        f"{KUBE_VERSION}.gitMajor": "1",
        f"{KUBE_VERSION}.gitMinor": MINOR,
    },
)
# Of which only the descriptions of its resources are wanted: the oldest release that the chart is for.
OLDEST_KUBERNETES: Final = Module("k8s.io/kubernetes", "v1.28.15", "h1:d91N2Znk+E8REIJZlrD6za2JtIwvEypa0DB1IoU4fJ0=")
KWOK: Final = Module(
    "sigs.k8s.io/kwok",
    "v0.8.0",
    "h1:OTIOTwgROqPMovcTwxICx2eYQ4AwLpSx5EpjbDKF4SQ=",
    {"kwok": "sigs.k8s.io/kwok/cmd/kwok"},
)
# Likewise: definitions of the resources of others.
KEDA: Final = Module("github.com/kedacore/keda/v2", "v2.21.0", "h1:R6z2HZvstK4RLUMxroNACzBj74xGxt3kG59b5Xc+Xps=")
PROMETHEUS_OPERATOR: Final = Module(
    "github.com/prometheus-operator/prometheus-operator", "v0.85.0", "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="
)
GATEWAY_API: Final = Module("sigs.k8s.io/gateway-api", "v1.4.1", "h1:NPxFutNkKNa8UfLd2CMlEuhIPMQgDQ6DXNKG9sHbJU8=")

MODULES: Final = (
    Module(
        "helm.sh/helm/v3",
        "v3.22.0",
        "h1:n1if5iQgHYsujPAcO5oonH/KiSNUmqmUF0iGVjSF3AU=",
        {"helm": "helm.sh/helm/v3/cmd/helm"},
        {  # else `helm template` would say Kubernetes v1.20
            "helm.sh/helm/v3/internal/version.version": "v3.22.0",
            **{f"{package}.k8sVersionMajor": "1" for package in (CAPABILITIES, LINT)},
            **{f"{package}.k8sVersionMinor": MINOR for package in (CAPABILITIES, LINT)},
        },
    ),
    Module(
        "github.com/norwoodj/helm-docs",
        "v1.14.2",
        "h1:Ew3bCq1hZqMnnTopkk66Uy2mGwu/jAclAx+3JAVp1To=",
        {"helm-docs": "github.com/norwoodj/helm-docs/cmd/helm-docs"},
    ),
    Module(
        "github.com/yannh/kubeconform",
        "v0.8.0",
        "h1:loDYd3a3spjIFrauqW67CDKF55Oo9R6uvC8AvpVd4ug=",
        {"kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform"},
    ),
    Module(
        "github.com/zegl/kube-score",
        "v1.20.0",
        "h1:J1VqK86SunV4Gg8emPTmwUVxe0rmXnAs5K9ZUbGMKR8=",
        {"kube-score": "github.com/zegl/kube-score/cmd/kube-score"},
    ),
    Module(
        "github.com/prometheus/prometheus",
        "v0.305.2",
        "h1:wk1qMEQheZta0wyln9svD0yjRMRkkmvOiV+KUPbrVsQ=",
        {name: f"github.com/prometheus/prometheus/cmd/{name}" for name in ("prometheus", "promtool")},
        {"github.com/prometheus/common/version.Version": "3.5.2"},
    ),
    Module(
        "go.etcd.io/etcd/server/v3",
        "v3.6.8",
        "h1:U2strdSEy1U8qcSzRIdkYpvOPtBy/9i/IfaaCI9flZ4=",
        {"etcd": "go.etcd.io/etcd/server/v3"},
    ),
    KWOK,
    KUBERNETES_MODULE,
)


@cache
def folder(module: Module) -> Path:
    """Where a module's files are, downloaded on the first call. SystemExit where its checksum is another."""
    run = _go("mod", "download", "-json", f"{module.path}@{module.version}", check=False)
    found = json.loads(run.stdout or "{}")
    if run.returncode or found.get("Error"):
        sys.exit(f"{module.path}@{module.version} can't be downloaded: {found.get('Error') or run.stderr}")
    if found["Sum"] != module.checksum:
        sys.exit(f"{module.path}@{module.version} has the checksum {found['Sum']}, not {module.checksum}")
    return Path(found["Dir"])


def build(module: Module) -> None:
    """Build what is missing of a module."""
    mark = BIN / f"{module.path.replace('/', '_')}@{module.version}"
    if mark.exists():
        return
    print(f"building {', '.join(module.programs)} from {module.path}@{module.version}", flush=True)  # noqa: T201
    source = folder(module)
    with tempfile.TemporaryDirectory() as scratch:
        # A module of our own that repeats the other's replace lines, which `go install` refuses. Folders of the same
        # repository become the modules that were published of the same release.
        text = re.sub(r"^module .*", "module tools", (source / "go.mod").read_text(), count=1, flags=re.MULTILINE)
        text = re.sub(r"(?m)^(\s*)(k8s\.io/[a-z-]+) => \./staging/.*", rf"\1\2 => \2 {STAGING}", text)
        text = re.sub(r"(?m)^\s*(replace )?\S+ => \.\.?/.*\n", "", text)
        Path(scratch, "go.mod").write_text(text)
        shutil.copy(source / "go.sum", scratch)
        _go("mod", "edit", "-require", f"{module.path}@{module.version}", cwd=scratch)
        linker = " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in module.variables.items())])
        for name, package in module.programs.items():
            options = ["-mod=mod", "-trimpath", "-ldflags", linker]
            _go("build", *options, "-o", str(BIN / name), package, cwd=scratch)
    mark.touch()


def _go(*arguments: str, cwd: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run go with its caches in this folder."""
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-modcacherw",
        "GOMODCACHE": str(CACHE / "mod"),
        "GOCACHE": str(CACHE / "build"),
        "GOTOOLCHAIN": "local",
    }
    run = subprocess.run(["go", *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if check and run.returncode:
        sys.exit(f"go {' '.join(arguments)} failed:\n{run.stderr[-4000:]}")
    return run


def main() -> None:
    """Build what is missing: all, or the programs that are named."""
    wanted = set(sys.argv[1:])
    install = f"Go {OLDEST_GO} or newer builds helm, kubectl and the other tools: install it"
    if shutil.which("go") is None:
        sys.exit(f"there is no go in PATH; {install}")
    found = _go("env", "GOVERSION").stdout.strip().removeprefix("go")
    if [int(part) for part in re.findall(r"\d+", found)[:2]] < [int(part) for part in OLDEST_GO.split(".")]:
        sys.exit(f"Go {found} is too old; {install}")
    BIN.mkdir(parents=True, exist_ok=True)
    for module in MODULES:
        if not wanted or wanted & set(module.programs):
            build(module)


if __name__ == "__main__":
    main()
