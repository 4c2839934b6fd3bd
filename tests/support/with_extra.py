"""Import modules as in an environment with one extra of the package: python -m tests.support.with_extra EXTRA MODULE…

All third-party modules that neither the package nor the extra requires, however far down, are not there. What is
written names the modules that could not be imported, and why; nothing where all could.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import packages_distributions, requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

OURS = {"pipeline", "turnmill", "topics"}


def requirements(name: str, extra: str, seen: set[tuple[str, str]]) -> set[str]:
    """Names of all distributions that `name[extra]` needs, itself included."""
    if (name, extra) in seen:
        return set()
    seen.add((name, extra))
    found = {name}
    for line in requires(name) or ():
        needed = Requirement(line)
        if needed.marker is None or needed.marker.evaluate({"extra": extra}):
            for inner in {"", *needed.extras}:
                found |= requirements(canonicalize_name(needed.name), inner, seen)
    return found


class Absent(MetaPathFinder):
    """Finds none of these top-level modules, whoever else would."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


def main(extra: str, modules: list[str]) -> str:
    there = requirements("turnmill", extra, set())
    owners = packages_distributions()
    absent = {
        module for module, owned in owners.items() if not any(canonicalize_name(name) in there for name in owned)
    } - OURS
    sys.meta_path.insert(0, Absent(absent))
    for name in list(sys.modules):
        if name.partition(".")[0] in absent:
            del sys.modules[name]
    failed = []
    for module in modules:
        try:
            import_module(module)
        except ImportError as error:
            failed.append(f"{module}: {error}")
    return "; ".join(failed)


if __name__ == "__main__":
    sys.stdout.write(main(sys.argv[1], sys.argv[2:]))
