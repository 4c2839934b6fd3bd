"""How large the client is with all that it needs, and what its import costs: `make weigh`."""

import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.support import wheels

# Each program is a step of an agent: its import, `turnmill.auto`, and the modules of a publisher at work.
STEPS: Final = (
    "turnmill",
    "turnmill.auto",
    "turnmill.publish.publisher, turnmill.kafka.producer, turnmill.environment",
)
TIMES: Final = 5


def site(programs: Path) -> Path:
    """Return the folder of an environment's packages, all of their modules compiled to bytecode, as pip leaves them."""
    (folder,) = programs.parent.glob("lib/python*/site-packages")
    subprocess.run([programs / "python", "-m", "compileall", "-q", folder], check=True)
    return folder


def weights(folder: Path) -> Counter[str]:
    """Return the bytes of each top-level package, with bytecode; what is known of it counts as its own."""
    found: Counter[str] = Counter()
    for file in folder.rglob("*"):
        if file.is_file():
            found[file.relative_to(folder).parts[0].partition("-")[0].removesuffix(".py")] += file.stat().st_size
    return found


def modules(programs: Path, imported: str) -> set[str]:
    """Return the modules that are loaded once these are imported."""
    command = [programs / "python", "-c", f"import sys, {imported}; print(*sys.modules)"]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def milliseconds(programs: Path, imported: str) -> float:
    """Return how long an import takes in a new process: the least of some times."""
    program = f"import time; t = time.perf_counter(); import {imported}; print(time.perf_counter() - t)"
    times = [subprocess.check_output([programs / "python", "-c", program], text=True) for _ in range(TIMES)]
    return 1000 * min(map(float, times))


def main() -> None:
    with TemporaryDirectory() as name:
        programs = wheels.installed(wheels.build(Path(name, "dist")), Path(name, "environment"))
        found = weights(site(programs))
        for package, size in found.most_common():
            sys.stdout.write(f"{size / 1e6:8.2f} MB  {package}\n")
        sys.stdout.write(f"{found.total() / 1e6:8.2f} MB  in all\n")
        for step in STEPS:
            loaded = len(modules(programs, step))
            sys.stdout.write(f"{milliseconds(programs, step):8.1f} ms  import {step}: {loaded} modules\n")


if __name__ == "__main__":
    main()
