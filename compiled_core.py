"""Compile the core with mypyc: the same files that run interpreted where there is no C compiler.

python compiled_core.py                beside their sources, in this checkout: `make compile`
python compiled_core.py --into FOLDER  in a copy of this checkout, which stays as it is
python compiled_core.py --remove       away with it: `make interpreted`

`topics/compiled.py` looks, when the core is imported, whether what was compiled is what the sources say.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from runpy import run_path
from typing import Any, Final

# What is on the way of an event to its turn, and of a turn to its rows, by the C file that holds it; several C files
# are compiled at once.
# Left out, as compiling them gains nothing or they must stay as they are: tables and registries (`__init__`, `keys`),
# types of records (`turn_record`, `telemetry`: docs show their docstrings), pydantic's models, exports and histories
# (`formats`); and `run_states`, which tests watch from within.
GROUPS: Final[dict[str, str]] = {
    "topics": "json_text state",
    "pipeline/turns": (
        "arguments asides canonical column_text essence_filters event_coverage lineage media_kinds pending text "
        "thread_document times tokens"
    ),
    "pipeline/assembly": (
        "agent_turn builder deadlines dialect expected_record finish finishing limits marks memory offline oversized "
        "parking partition parts records restored_state results run run_ends "
        "segment_names sequence_window spilled_run telemetry weight"
    ),
    "pipeline/stores/costs": "prices rows",
    "pipeline/stores/database": "keys",
    "pipeline/stores/threads": "rows",
    "pipeline/dialects": (
        "asked_parts deltas ends model_calls responses_progress signatures speakers tp_events wire_values"
    ),
    "pipeline/dialects/ag_ui": "events messages stream text turn usage",
    "pipeline/dialects/agents_sdk": "events messages",
    "pipeline/dialects/anthropic": "events message request",
    "pipeline/dialects/claude_code": "blocks costs events lines partials retractions session",
    "pipeline/dialects/gemini": "answer events request",
    "pipeline/dialects/google_adk": "event events parts whole",
    "pipeline/dialects/langgraph": "events merge parts protocol_v3 request shapes stream turn",
    "pipeline/dialects/openai_agents": "events items raw_events",
    "pipeline/dialects/openai_chat": "answer calls events request thoughts usage",
    "pipeline/dialects/openai_responses": "events items output request usage",
    "pipeline/dialects/pi_agent": "events messages parts",
    "pipeline/dialects/pi_proxy": "events",
    "pipeline/dialects/pydantic_ai": "events messages response tools whole",
    "pipeline/dialects/thread_protocol": "events",
    "pipeline/dialects/vercel_ai": "content events from_pydantic_ai request side_events stream tools",
}
# What is written in C itself, each an extension module of its own.
KERNELS: Final = ("pipeline/assembly/delta_reader.c",)
# What mypyc needs to know the types of, and itself, as in uv.lock: a build of a wheel installs these for itself.
NEEDS: Final = (
    "genai-prices",
    "mypy",
    "orjson",
    "pydantic",
    "rfc8785",
    "setuptools",
    "sqlalchemy",
)
SUFFIX: Final = str(sysconfig.get_config_var("EXT_SUFFIX"))
ROOT: Final = Path(__file__).resolve().parent
# By its path: the package refuses to be imported where what was compiled is older than its sources.
CHECK: Final = run_path(str(ROOT / "topics" / "compiled.py"))
STAMP: Final[str] = CHECK["STAMP"]


def sources() -> list[str]:
    """-> the paths of all modules that are compiled, relative to the root."""
    return [f"{folder}/{name}.py" for folder, names in GROUPS.items() for name in names.split()]


def _digests() -> dict[str, str]:
    return {path: CHECK["digest"](ROOT / path) for path in (*sources(), *KERNELS)}


def compile_to(folder: Path, work: Path) -> list[str]:
    """Compile into a folder, with what was made on the way in `work` -> the paths of all files, relative to it.

    Where both are those of an earlier time, only the groups are compiled anew whose C files came out otherwise.

    Exits in words where there is no C compiler.
    """
    _look_for_compiler()
    from mypyc.build import mypycify  # noqa: PLC0415  # only here: what is only removed needs no compiler

    # Before they are read: a source that changes meanwhile is not taken for the one that was compiled.
    stamp = {"suffix": SUFFIX, "sources": _digests()}
    groups = [
        ([f"{path}/{name}.py" for name in names.split()], f"turnmill_{path.replace('/', '_')}")
        for path, names in GROUPS.items()
    ]
    options = ["--config-file", "pyproject.toml", "--ignore-missing-imports", "--cache-dir", str(work / "types")]
    with chdir(ROOT):  # mypyc names modules by the path from here
        extensions = mypycify(
            [*options, *sources()], opt_level="2", debug_level="0", separate=groups, target_dir=str(work / "c")
        )
        made = _built([*extensions, *_kernels()], folder, work)
    (folder / STAMP).write_text(json.dumps(stamp))
    return [STAMP, *(os.path.relpath(path, folder) for path in made)]


def kernels_to(folder: Path, work: Path) -> list[str]:
    """Compile the modules that are written in C alone, in a second -> their files. Exits as `compile_to` does."""
    _look_for_compiler()
    return _built(_kernels(), folder, work)


def _kernels() -> list[Any]:
    from setuptools import Extension  # noqa: PLC0415  # as above

    return [Extension(path.removesuffix(".c").replace("/", "."), [str(ROOT / path)]) for path in KERNELS]


def _built(extensions: list[Any], folder: Path, work: Path) -> list[str]:
    from setuptools import Distribution  # noqa: PLC0415  # as above

    built = Distribution({"name": "turnmill-core", "ext_modules": extensions})
    command = built.get_command_obj("build_ext")
    command.build_lib, command.build_temp, command.parallel = str(folder), str(work / "o"), os.cpu_count()
    command.ensure_finalized()
    command.run()
    return sorted(command.get_outputs())


def in_place(root: Path) -> None:
    """Compile, and put the modules beside the sources in `root`.

    The stamp comes first, so that nothing is used that it does not name.
    """
    work = ROOT / ".cache" / "compiled"
    made = compile_to(work / "lib", work)
    remove(root)
    for path in made:
        shutil.copy2(work / "lib" / path, root / path)


def remove(root: Path) -> None:
    """Remove all that was compiled, the stamp last."""
    for path in _compiled(root):
        path.unlink()
    (root / STAMP).unlink(missing_ok=True)


def _compiled(root: Path) -> Iterator[Path]:
    yield from root.glob("turnmill_*__mypyc*.so")
    for folder in GROUPS:
        yield from (root / folder).glob("*.so")


def _copy(folder: Path) -> None:
    """Copy what git knows or would add, and link what is not copied: environment, caches, tools."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout  # noqa: S603  # ours
    for path in filter(None, listed.split("\0")):
        if (ROOT / path).exists():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, folder / path)
    for name in (".venv", ".cache", ".tools"):
        if (ROOT / name).exists():
            (folder / name).symlink_to(ROOT / name)


def _look_for_compiler() -> None:
    compiler = shlex.split(os.environ.get("CC") or str(sysconfig.get_config_var("CC") or "cc"))[0]
    if shutil.which(compiler) is None:
        sys.exit(
            f"There is no C compiler ({compiler}): install it (Debian: gcc, macOS: xcode-select --install), or name "
            "it in CC. Without it, everything runs interpreted."
        )
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.exists():
        sys.exit(f"Python's headers are missing ({header}): install them (Debian: python3-dev).")


def main() -> None:
    """Run the command line."""
    parser = ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--into", type=Path, metavar="FOLDER")
    parser.add_argument("--remove", action="store_true")
    options = parser.parse_args()
    if options.remove:
        remove(ROOT)
    elif options.into is not None:
        shutil.rmtree(options.into, ignore_errors=True)
        _copy(options.into)
        in_place(options.into)
    else:
        in_place(ROOT)


if __name__ == "__main__":
    main()
