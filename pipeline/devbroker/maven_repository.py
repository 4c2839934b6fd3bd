"""The repository that jars are downloaded from.

TURNMILL_MAVEN_REPOSITORY; else, as Maven itself does, the mirror of Maven Central that ~/.m2/settings.xml names; else
Maven Central. https://maven.apache.org/guides/mini/guide-mirror-settings.html
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from turnmill.errors import CallerError
from turnmill.settings import PREFIX, without_password

CENTRAL: Final = "https://repo.maven.apache.org/maven2"
VARIABLE: Final = f"{PREFIX}MAVEN_REPOSITORY"
OF_ALL: Final = frozenset({"central", "*", "external:*"})  # values of `mirrorOf` that include Maven Central


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository: its address, user and password if they are not in the address, and what names it (`named_by`)."""

    url: str
    login: tuple[str, str] | None
    named_by: str

    def address(self, path: str) -> str:
        """Return the address of a file in the repository."""
        return f"{self.url.rstrip('/')}/{path}"

    def shown(self, path: str) -> str:
        """Return the address of a file without secrets, for messages."""
        return without_password(self.address(path))

    @property
    def advice(self) -> str:
        """Advice on how to use another repository."""
        return f"The repository is named by {self.named_by}; {VARIABLE}=https://user:password@host/path names another."


def repository(named: str | None) -> Repository:
    """Return the repository to download from. `named`: by TURNMILL_MAVEN_REPOSITORY.

    Raises CallerError if settings.xml can't be read.
    """
    if named is not None:
        return Repository(named, None, VARIABLE)
    file = Path.home() / ".m2" / "settings.xml"
    mirror = None
    if file.is_file():
        try:
            mirror = mirror_of_central(file.read_text(encoding="utf-8"), os.environ, str(file))
        except (ET.ParseError, ValueError, OSError) as error:
            raise CallerError(f"{file} can't be read ({error}): mend it, or set {VARIABLE}") from None
    return mirror or Repository(CENTRAL, None, "nothing, so it is Maven Central")


def mirror_of_central(text: str, environ: Mapping[str, str], file: str) -> Repository | None:
    """Return the mirror of Maven Central that a settings.xml names, if any.

    Raises ParseError, and ValueError if a password is encrypted.
    """
    root = ET.fromstring(re.sub(r'\sxmlns="[^"]*"', "", text, count=1))  # noqa: S314  # the user's own file
    mirrors = root.findall("./mirrors/mirror")
    named = [mirror for mirror in mirrors if _text(mirror, "mirrorOf", environ) == "central"]
    for mirror in named or [mirror for mirror in mirrors if _is_of_central(_text(mirror, "mirrorOf", environ))]:
        if url := _text(mirror, "url", environ):
            return Repository(url, _login(root, _text(mirror, "id", environ), environ), file)
    return None


def _is_of_central(mirror_of: str) -> bool:
    patterns = {pattern.strip() for pattern in mirror_of.split(",")}
    return "!central" not in patterns and not patterns.isdisjoint(OF_ALL)


def _login(root: ET.Element, server_id: str, environ: Mapping[str, str]) -> tuple[str, str] | None:
    for server in root.findall("./servers/server"):
        user, password = _text(server, "username", environ), _text(server, "password", environ)
        if _text(server, "id", environ) == server_id and user:
            if re.fullmatch(r".*\{.+\}.*", password):
                raise ValueError(f"the password of server {server_id} is encrypted, which only Maven can undo")
            return user, password
    return None


def _text(element: ET.Element, name: str, environ: Mapping[str, str]) -> str:
    """Return the text of an inner element, with variables replaced as Maven does; empty if there is none."""
    text = (element.findtext(name) or "").strip()
    return re.sub(r"\$\{env\.([^}]+)\}", lambda match: environ.get(match[1], match[0]), text)
