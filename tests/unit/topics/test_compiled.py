"""A compiled core is used where it is what its sources say, and nowhere else."""

import ast
import json
import tomllib
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import pytest

import compiled_core
from pipeline.dialects import DIALECTS
from pipeline.observability import metrics
from topics import CORE, compiled

ROOT = Path(compiled_core.__file__).parent
SUFFIX = EXTENSION_SUFFIXES[0]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A core of two modules that are compiled."""
    stamp: dict[str, Any] = {"suffix": SUFFIX, "sources": {}}
    for path in ("topics/one.py", "pipeline/turns/two.py"):
        source = tmp_path / path
        source.parent.mkdir(parents=True)
        source.write_text(f"NAME = {path!r}\n")
        source.with_suffix(SUFFIX).touch()
        stamp["sources"][path] = compiled.digest(source)
    (tmp_path / compiled.STAMP).write_text(json.dumps(stamp))
    return tmp_path


def test_what_is_as_its_sources_say_is_used(root: Path) -> None:
    assert compiled.check(root) == "compiled"


def test_without_a_stamp_it_is_interpreted(root: Path) -> None:
    (root / compiled.STAMP).unlink()
    assert compiled.check(root) == "interpreted"


def test_what_is_for_another_python_is_not_seen(root: Path) -> None:
    stamp = json.loads((root / compiled.STAMP).read_text())
    (root / compiled.STAMP).write_text(json.dumps({**stamp, "suffix": ".cpython-27.so"}))
    assert compiled.check(root) == "interpreted"


def test_what_is_older_than_its_source_is_refused(root: Path) -> None:
    (root / "pipeline/turns/two.py").write_text("NAME = 3\n")
    with pytest.raises(ImportError, match=r"^pipeline/turns/two\.py has changed .*make compile.*make interpreted"):
        compiled.check(root)


def test_a_part_of_it_is_refused(root: Path) -> None:
    (root / "topics/one.py").with_suffix(SUFFIX).unlink()
    with pytest.raises(ImportError, match=r"^topics/one\.py is not compiled"):
        compiled.check(root)


def test_all_that_is_listed_is_there_and_each_wire_is_listed() -> None:
    listed = compiled_core.sources()
    assert len(listed) == len(set(listed))
    assert all((ROOT / path).is_file() for path in listed)
    streamed = [name for name, dialect in DIALECTS.items() if dialect.stretches]  # in many small pieces
    assert {f"pipeline/dialects/{name.replace('-', '_')}/events.py" for name in streamed} <= {*listed}


def test_what_compiling_needs_is_locked() -> None:
    locked = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    assert {*compiled_core.NEEDS} <= {package["name"] for package in locked["package"]}


def test_this_core_is_what_it_says() -> None:
    extension = Path(metrics.__file__).parents[1] / f"assembly/partition{compiled_core.SUFFIX}"
    assert ("compiled" if extension.exists() else "interpreted") == CORE


def named_wholes(source: str) -> list[str | None]:
    """Return the names that `as` gives to patterns of mappings and sequences."""
    named = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.MatchAs))
    return [node.name for node in named if isinstance(node.pattern, ast.MatchMapping | ast.MatchSequence)]


def test_no_compiled_module_names_the_whole_of_a_pattern() -> None:
    """mypyc binds the name to something within: findings/mypyc-binds-as-to-a-literal-inside.sh."""
    assert named_wholes("match x:\n    case {'a': 1} as whole:\n        pass") == ["whole"]
    modules = [ROOT / folder / f"{name}.py" for folder, names in compiled_core.GROUPS.items() for name in names.split()]
    assert len(modules) > 80
    assert {path: named for path in modules if (named := named_wholes(path.read_text(encoding="utf-8")))} == {}
