"""The files of turnmill-server, for hatchling: they lie in the folder of pyproject.toml, and beside it.

Where HATCH_BUILD_HOOKS_ENABLE is set, a wheel has the compiled core, too, and its name says for which Python it is:
without, it is pure Python. An editable install has none of them: it points at its checkout.
"""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MODULES: Final = ("pipeline", "topics")
# The demo's recordings, and where pipeline/cli/dev/demo.py looks for them.
RECORDINGS: Final = ("fleet", "wires", "broken", "weather.sse", "weather.sse.run.json")
PLACE: Final = "pipeline/cli/dev/examples"
# Of a checkout alone: the project's own files, and what `make compile` or an import has left.
LEFT_OUT: Final = {"pipeline/pyproject.toml", "pipeline/hatch_build.py", "topics/compiled.json"}
MADE: Final = {".so", ".pyc"}


class ServerFiles(BuildHookInterface[Any]):
    """Adds the files of a checkout, or of a source distribution, to what is built of it."""

    def dependencies(self) -> list[str]:
        """Return what compiling needs, in the versions of uv.lock."""
        if not self._compiles():
            return []
        locked = (self._tree() / "uv.lock").read_text(encoding="utf-8")
        versions = dict(re.findall(r'^name = "([^"]+)"\nversion = "([^"]+)"', locked, re.MULTILINE))
        return [f"{name}=={versions[name]}" for name in self._core().NEEDS]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the modules and recordings, and compile."""
        if version == "editable":
            return
        tree = self._tree()
        build_data["force_include"] |= {str(tree / path): place for path, place in _files(tree)}
        if not self._compiles():
            return
        self._folder = TemporaryDirectory()
        compiled, work = Path(self._folder.name, "compiled"), Path(self._folder.name, "work")
        made = self._core().compile_to(compiled, work)
        build_data["pure_python"], build_data["infer_tag"] = False, True
        build_data["force_include"] |= {str(compiled / path): path for path in made}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what is in the wheel now."""
        if version != "editable" and self._compiles():
            self._folder.cleanup()

    def _tree(self) -> Path:
        """Return the folder that holds the modules: of a source distribution its own, of a checkout the one above."""
        root = Path(self.root)
        return root if (root / "pipeline").is_dir() else root.parent

    def _compiles(self) -> bool:
        return self.target_name == "wheel" and bool(os.environ.get("HATCH_BUILD_HOOKS_ENABLE"))

    def _core(self) -> Any:
        tree = str(self._tree())
        if tree not in sys.path:
            sys.path.insert(0, tree)
        import compiled_core  # noqa: PLC0415  # only a checkout has it

        return compiled_core


def _files(tree: Path) -> Iterator[tuple[str, str]]:
    """Yield the paths of all files in the tree, and where they go.

    The image is built without recordings; a source distribution has licence and recordings where they go.
    """
    for module in MODULES:
        for file in sorted((tree / module).rglob("*")):
            path = file.relative_to(tree).as_posix()
            if file.is_file() and file.suffix not in MADE and path not in LEFT_OUT:
                yield path, path
    others = {"LICENSE": "pipeline/LICENSE"} | {f"examples/{name}": f"{PLACE}/{name}" for name in RECORDINGS}
    yield from ((path, place) for path, place in others.items() if (tree / path).exists())
