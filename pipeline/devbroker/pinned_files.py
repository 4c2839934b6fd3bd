"""Download files once and check the SHA-256 known beforehand; any other content is refused.

The received part of a file is kept as NAME.part, where the next attempt continues. They come from
TURNMILL_MAVEN_REPOSITORY; else, as Maven itself does, from the mirror of Maven Central that ~/.m2/settings.xml names;
else from Maven Central. https://maven.apache.org/guides/mini/guide-mirror-settings.html
"""

import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import httpx

from turnmill.errors import CallerError
from turnmill.settings import PREFIX, without_password

CENTRAL: Final = "https://repo.maven.apache.org/maven2"
VARIABLE: Final = f"{PREFIX}MAVEN_REPOSITORY"
OF_ALL: Final = frozenset({"central", "*", "external:*"})  # values of `mirrorOf` that include Maven Central

CONCURRENCY: Final = 8
MAX_ATTEMPTS: Final = 5
FIRST_RETRY_DELAY: Final = 0.5  # seconds; doubled after each attempt
READ_TIMEOUT: Final = 20.0  # seconds without a byte after which an attempt has failed
PROGRESS_INTERVAL: Final = 0.1  # seconds between two reports of progress
LATER: Final = frozenset({408, 425, 429, 500, 502, 503, 504})  # statuses that are worth a retry
REFUSALS: Final = {
    401: "it wants a login, or another one",
    403: "it refuses access",
    404: "it has no such file; is it a mirror of Maven Central?",
    407: "a proxy on the way wants a login: HTTPS_PROXY=http://user:password@host:port",
}

Received = Callable[[int, int], None]  # bytes received, bytes in all


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


@dataclass(frozen=True, slots=True)
class Pinned:
    """A file: its path below the repository's address, bytes, and SHA-256 in hex."""

    path: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.rpartition("/")[2]


class _Broken(Exception):
    """A failed attempt; the next may succeed."""


def parse(text: str) -> list[Pinned]:
    """Return the files listed in lines of SHA-256, size and path."""
    rows = (line.split() for line in text.splitlines() if line and not line.startswith("#"))
    return [Pinned(path, int(size), sha256) for sha256, size, path in rows]


def render(files: Iterable[Pinned]) -> str:
    """Return the text that `parse` reads."""
    return "".join(f"{file.sha256} {file.size:>8} {file.path}\n" for file in files)


def digest(file: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def are_whole(files: Iterable[Pinned], folder: Path) -> bool:
    """Return True if the folder has each pinned file unchanged and no other jar, which Java would load, too."""
    jars = {jar.name for jar in folder.glob("*.jar")}
    return jars == {file.name for file in files} and not any(_differs(file, folder) for file in files)


def keep_whole(files: Iterable[Pinned], folder: Path) -> None:
    """Delete the jars of a folder that differ from the pinned files."""
    good = {file.name for file in files if not _differs(file, folder)}
    for jar in folder.glob("*.jar"):
        if jar.name not in good:
            jar.unlink()


def _differs(file: Pinned, folder: Path) -> bool:
    jar = folder / file.name
    return not jar.is_file() or jar.stat().st_size != file.size or digest(jar) != file.sha256


def fetch(files: Sequence[Pinned], repository: Repository, folder: Path, received: Received) -> None:
    """Download the missing parts of these files into a folder. Raises CallerError; received parts are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    context = httpx.create_ssl_context()
    context.load_default_certs()  # the system's, too, since they include a company's own
    total = sum(file.size for file in files)
    with (
        httpx.Client(auth=repository.login, verify=context, timeout=READ_TIMEOUT, follow_redirects=True) as client,
        ThreadPoolExecutor(CONCURRENCY) as threads,
    ):
        download = _Download(client, repository, folder, threading.Event())
        tasks = [threads.submit(download.file, file) for file in files]
        try:
            while any(not task.done() for task in tasks) and not any(map(_has_failed, tasks)):
                wait(tasks, PROGRESS_INTERVAL, FIRST_EXCEPTION)
                received(sum(download.size(file) for file in files), total)
        finally:
            download.stop.set()  # a download has failed, or Ctrl-C: the others stop and keep their parts
            threads.shutdown(cancel_futures=True)
    for task in filter(_has_failed, tasks):
        task.result()


def _has_failed(task: Future[None]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is not None


@dataclass(frozen=True, slots=True)
class _Download:
    """The download of several files. Setting `stop` ends it between two pieces."""

    client: httpx.Client
    repository: Repository
    folder: Path
    stop: threading.Event

    def size(self, file: Pinned) -> int:
        """Return how many bytes of a file are on disk."""
        for path in (self.folder / file.name, self._part(file)):
            with suppress(FileNotFoundError):
                return path.stat().st_size
        return 0

    def file(self, file: Pinned) -> None:
        """Download a file, with retries. Raises CallerError."""
        pause = FIRST_RETRY_DELAY
        for left in reversed(range(MAX_ATTEMPTS)):
            try:
                self._try(file)
            except httpx.InvalidURL as error:
                raise CallerError(f"{self.repository.url} is no address ({error}). {self.repository.advice}") from None
            except (httpx.TransportError, _Broken) as error:
                if not left:
                    raise CallerError(self._unreachable(file, error)) from None
                self.stop.wait(pause)
                pause *= 2
            else:
                return

    def _try(self, file: Pinned) -> None:
        target, part = self.folder / file.name, self._part(file)
        if target.exists() or self.stop.is_set():
            return
        if self.size(file) < file.size:
            self._receive(file, part)
        if self.size(file) < file.size:
            if self.stop.is_set():
                return
            raise _Broken("it ended early")
        if digest(part) != file.sha256:
            part.unlink()
            raise _Broken(f"what came is not the file that Turnmill knows, of SHA-256 {file.sha256}")
        part.rename(target)

    def _part(self, file: Pinned) -> Path:
        return self.folder / f"{file.name}.part"

    def _receive(self, file: Pinned, part: Path) -> None:
        """Download the missing bytes of a part."""
        have = self.size(file)
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        with self.client.stream("GET", self.repository.address(file.path), headers=headers) as answer:
            self._check(file, answer)
            goes_on = answer.status_code == HTTPStatus.PARTIAL_CONTENT  # else the server only sends whole files
            with part.open("ab" if goes_on else "wb") as data:
                for piece in answer.iter_bytes():
                    data.write(piece)
                    if data.tell() > file.size or self.stop.is_set():
                        return

    def _check(self, file: Pinned, answer: httpx.Response) -> None:
        if answer.status_code in LATER or answer.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise _Broken(f"it answers {answer.status_code}")
        if not answer.is_success:
            why = REFUSALS.get(answer.status_code, "which is no file")
            shown = self.repository.shown(file.path)
            raise CallerError(f"{shown} answers {answer.status_code}: {why}. {self.repository.advice}")

    def _unreachable(self, file: Pinned, error: Exception) -> str:
        return (
            f"{self.repository.shown(file.path)} could not be downloaded ({error or type(error).__name__}). Check the "
            "network; a proxy is named by HTTPS_PROXY, a certificate authority of your own by SSL_CERT_FILE. "
            f"{self.repository.advice} What has come is in {self.folder}, and the next try goes on there."
        )


def repository(named: str | None) -> Repository:
    """Return the repository that is `named`, else that of settings.xml. Raises CallerError if that can't be read."""
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
    """Return the mirror of Maven Central in a settings.xml. Raises ParseError; ValueError for an encrypted password."""
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
