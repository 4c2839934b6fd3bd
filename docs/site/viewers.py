"""The programs that show the OpenAPI and AsyncAPI documents in a browser, from npm's registry.

One file of each package is used, so the packages are fetched without the hundreds that they depend on to be built.
"""

import base64
import hashlib
import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Final

VIEWERS: Final = {  # package -> (integrity as npm states it, file in the package -> name in _static)
    "@scalar/api-reference@1.72.1": (
        "sha512-XpEJ0rfc/cXbCrR+iC4kK0o/WwX2dTtGQbT049OlPKAHD6IMIFdTeGz2r+M27P2EDWKyUITRm/NzlP8z2pw/Ow==",
        {"dist/browser/standalone.js": "scalar.js"},
    ),
    "@asyncapi/react-component@3.2.1": (
        "sha512-k5ZqJd6+oxYaQ2o6F3rGWJ1MTIjXdpsUYB3NKQbVqr4yzrN0Ovj5c7eZx8NGd3wfKPhbOrLREtYl9K2OPfnSsA==",
        {"browser/standalone/index.js": "asyncapi.js", "styles/default.min.css": "asyncapi.css"},
    ),
}


def write(folder: Path, cache: Path) -> None:
    """Write the viewers' files into `folder`; keep the packages in `cache`."""
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("make site needs Node 20 or newer with npm: https://nodejs.org")
    folder.mkdir(parents=True, exist_ok=True)
    cache.mkdir(parents=True, exist_ok=True)
    for package, (integrity, files) in VIEWERS.items():
        archive = cache / f"{package.removeprefix('@').replace('/', '-').replace('@', '-')}.tgz"
        if not (archive.exists() and _integrity(archive) == integrity):
            command = [npm, "pack", package, "--pack-destination", cache, "--json", "--loglevel=error"]
            done = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)  # noqa: S603  # npm
            (cache / done[0]["filename"]).replace(archive)
        if _integrity(archive) != integrity:
            raise SystemExit(
                f"{archive} is not the {package} that docs/site/viewers.py names: remove it, and try again"
            )
        with tarfile.open(archive) as content:
            for source, name in files.items():
                member = content.extractfile(f"package/{source}")
                assert member is not None
                (folder / name).write_bytes(member.read())


def _integrity(file: Path) -> str:
    return "sha512-" + base64.b64encode(hashlib.sha512(file.read_bytes()).digest()).decode()
