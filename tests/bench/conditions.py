"""The conditions of a measurement: machine, versions, command."""

import os
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from pipeline.devbroker.jars import POM
from tests.bench.kafka_streams import JAVA
from topics import CORE

PACKAGES: Final = ("turnmill", "faust-streaming", "aiokafka", "orjson", "uvloop", "quixstreams")
JARS: Final = {"kafka": (POM, "kafka_2.13"), "kafka-streams": (JAVA / "pom.xml", "kafka-streams")}


def conditions() -> dict[str, Any]:
    """-> core (compiled or interpreted), cpu, cores, system, python, packages, command, and `load`: the machine's load
    average of the minute before.
    """
    return {
        "core": CORE,
        "cpu": cpu(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {**{name: found for name in PACKAGES if (found := _version(name))}, **_jars()},
        "load": round(os.getloadavg()[0], 2),
        "command": " ".join(["turnmill", *sys.argv[1:]]),
    }


def in_words(where: dict[str, Any]) -> list[str]:
    """The conditions as lines of text."""
    packages = ", ".join(f"{name} {number}" for name, number in where["packages"].items())
    python = f"Python {where['python']}; core {where['core']}"
    return [
        f"{where['cpu']}, {where['cores']} cores; {where['system']}; {python}; {packages}",
        f"{where['command']}; load average {where['load']} before it, {where['load_after']} at its end",
    ]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _jars() -> dict[str, str]:
    found = {
        name: re.search(rf"<artifactId>{re.escape(artifact)}</artifactId>\s*<version>([^<]+)", pom.read_text())
        for name, (pom, artifact) in JARS.items()
    }
    return {name: match[1] for name, match in found.items() if match}


def cpu() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
