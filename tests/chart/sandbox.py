"""A root of its own for a process: an image's (IMAGE_ROOT, a folder), or, without one, the system's programs
and this checkout in the place of an image. Only what is said can be written to.
"""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.chart.tools import ROOT

IMAGE: Final = os.environ.get("IMAGE_ROOT")
SYSTEM: Final = ("/usr", "/lib", "/lib64", "/bin", "/sbin")
FILES: Final = ("/etc/hosts", "/etc/resolv.conf")
MORE_FILES: Final = ("/etc/ssl", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/ld.so.cache")
DEVICES: Final = ("null", "zero", "full", "random", "urandom")
PREFIX: Final = "/opt/turnmill"  # where the image has its programs


def dockerfile(instruction: str) -> list[str]:
    """What the last stage of the Dockerfile says with one instruction, each as a line."""
    lines = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").splitlines()
    last = max(number for number, line in enumerate(lines) if line.startswith("FROM "))
    return [line.partition(" ")[2] for line in lines[last:] if line.startswith(f"{instruction} ")]


def image_environment() -> dict[str, str]:
    """The variables that the image itself sets."""
    found = {"PATH": "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"}
    for line in dockerfile("ENV"):
        for pair in shlex.split(line):
            name, _, value = pair.partition("=")
            found[name] = value.replace("$PATH", found["PATH"])
    return found


Bind = tuple[str, str, bool]
"""A file or folder of the host, where it is seen, whether it can be written to."""


def seen() -> list[Bind]:
    """What there is but the volumes."""
    if IMAGE:
        return [(path, path, False) for path in FILES]
    compiled = ROOT.glob("turnmill_*__mypyc*.so")  # what `make compile` puts beside the packages
    ours = [*(ROOT / name for name in ("turnmill", "topics", "pipeline")), *compiled]
    paths = dict.fromkeys([*FILES, *SYSTEM, *MORE_FILES, sys.base_prefix, sys.prefix, *map(str, ours)])
    found = [(path, path, False) for path in paths if Path(path).exists() and not Path(path).is_symlink()]
    return [*found, (sys.prefix, PREFIX, False)]


def mounts(root: Path, binds: Sequence[Bind]) -> list[str]:
    """Shell commands that make the root, of which only what is said can be written to."""
    at = shlex.quote(str(root))
    commands = [f"mount -t tmpfs -o mode=0755 none {at}"]
    if IMAGE:  # in layers, as a runtime does it: what is mounted may have no place in the image
        layers = f"lowerdir={shlex.quote(IMAGE)},upperdir={at}/upper,workdir={at}/work"
        commands += [f"mkdir {at}/upper {at}/work", f"mount -t overlay -o {layers} none {at}"]
    links = [] if IMAGE else [path for path in SYSTEM if Path(path).is_symlink()]
    commands += [f"ln -s {Path(path).readlink()} {at}{path}" for path in links]
    for source, target, write in sorted(binds, key=lambda bind: bind[1].count("/")):  # a volume may be above a checkout
        place = shlex.quote(f"{root}{target}")
        make = "mkdir -p" if Path(source).is_dir() else "touch"
        commands.append(f"mkdir -p $(dirname {place}); {make} {place}; mount --bind {shlex.quote(source)} {place}")
        commands += [] if write else [f"mount -o remount,bind,ro {place}"]
    commands += [f"mkdir -p {at}/proc {at}/dev", f"mount -t proc proc {at}/proc"]
    commands.append(f"mount -t tmpfs -o mode=0755 none {at}/dev")
    commands += [f"touch {at}/dev/{name}; mount --bind /dev/{name} {at}/dev/{name}" for name in DEVICES]
    commands.append(f"mkdir -m 1777 {at}/dev/shm; mount -t tmpfs none {at}/dev/shm")
    return [*commands, f"mount -o remount,ro {at}"]
