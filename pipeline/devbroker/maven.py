"""Jars that Maven resolves by a pom.xml: for programs that developers build and compare with, not for the broker.

`python -m pipeline.devbroker.maven` writes kafka.jars, after a change of pom.xml. The pom's dependencies have further
dependencies. Maven resolves them only here; everywhere else exactly these are used.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from pipeline.devbroker.jars import PINS, POM
from pipeline.devbroker.pinned_files import Pinned, digest, render
from pipeline.settings import load
from turnmill.errors import CallerError

LAYOUT: Final = "-Dmdep.useRepositoryLayout=true"


def copy_jars(cache: Path, pom: Path, libs: Path, *options: str) -> None:
    """Download a pom's jars into the folder `libs`. Raises CallerError if Maven is missing or fails."""
    maven = shutil.which("mvn")
    if not maven:
        raise CallerError("Maven (mvn) is not in PATH: install it (Debian: maven, macOS: brew install maven)")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="maven-") as folder:
        log, fresh = cache / "maven.log", Path(folder) / "libs"
        # Maven writes only into the cache and, with its target/, into the temporary folder.
        shutil.copy(pom, Path(folder) / "pom.xml")
        usual = [f"-Dmaven.repo.local={cache / 'm2'}", "-DincludeScope=runtime", f"-DoutputDirectory={fresh}"]
        command = [maven, "-B", "-ntp", *usual, *options, "dependency:copy-dependencies"]
        with log.open("w") as output:
            run = subprocess.run(  # noqa: S603
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False
            )
        if run.returncode:
            errors = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("[ERROR]")]
            raise CallerError(
                f"Maven could not download the jars of {pom}; its whole output is in {log}. Check the network or "
                "Maven's mirror settings and try again.\n" + "\n".join(errors[:5])
            )
        fresh.rename(libs)


def main() -> None:
    """Resolve the jars and write kafka.jars."""
    with tempfile.TemporaryDirectory() as folder:
        libs = Path(folder) / "libs"
        copy_jars(load().cache_folder, POM, libs, LAYOUT)
        jars = {str(jar.relative_to(libs)): jar for jar in libs.rglob("*.jar")}
        pinned = [Pinned(name, jar.stat().st_size, digest(jar)) for name, jar in sorted(jars.items())]
    PINS.write_text(render(pinned), encoding="utf-8")


if __name__ == "__main__":
    main()
