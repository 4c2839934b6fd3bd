"""Downloads that break off, come back changed, or are refused."""

import hashlib
import re
from pathlib import Path

import pytest

from pipeline.devbroker import pinned_files
from pipeline.devbroker.pinned_files import Pinned, Repository, fetch, parse, render
from tests.support.file_server import FileServer, file_server
from turnmill.errors import CallerError

DATA = bytes(range(256)) * 2_000
FILES = {f"org/x/{n}/x-{n}.jar": DATA[n:] for n in range(12)}
FIRST = "org/x/0/x-0.jar"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinned_files, "FIRST_RETRY_DELAY", 0.001)


def pins(files: dict[str, bytes]) -> list[Pinned]:
    return [Pinned(path, len(data), hashlib.sha256(data).hexdigest()) for path, data in files.items()]


def download(
    server: FileServer, folder: Path, files: dict[str, bytes] = FILES, login: tuple[str, str] | None = None
) -> list[tuple[int, int]]:
    """-> what was told of how much is there."""
    told: list[tuple[int, int]] = []
    repository = Repository(server.url, login, "a test")
    fetch(pins(files), repository, folder, lambda have, total: told.append((have, total)))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        path.rpartition("/")[2]: data for path, data in files.items()
    }
    return told


def test_all_of_them_come_and_are_counted(tmp_path: Path) -> None:
    with file_server(FILES) as server:
        told = download(server, tmp_path)
        total = sum(map(len, FILES.values()))
        assert told[-1] == (total, total)
        assert sorted(server.requests) == sorted((f"/{path}", None) for path in FILES)
        download(server, tmp_path)
        assert len(server.requests) == len(FILES)  # they are there


def test_a_connection_that_breaks_is_taken_up_where_it_broke(tmp_path: Path) -> None:
    with file_server({FIRST: DATA}, cut=200_000) as server:
        download(server, tmp_path, {FIRST: DATA})
        assert [wanted for _, wanted in server.requests] == [None, "bytes=200000-", "bytes=400000-"]


def test_a_server_that_knows_no_ranges_gives_it_whole(tmp_path: Path) -> None:
    (tmp_path / "x-0.jar.part").write_bytes(DATA[:1000])
    with file_server({FIRST: DATA}, whole=True) as server:
        download(server, tmp_path, {FIRST: DATA})
        assert len(server.requests) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_is_busy_is_asked_again(tmp_path: Path, status: int) -> None:
    with file_server({FIRST: DATA}, answers=[status, status]) as server:
        download(server, tmp_path, {FIRST: DATA})
        assert len(server.requests) == 3


@pytest.mark.parametrize("have", [b"something else", DATA[:-1] + b"!", DATA + b"more"])
def test_what_is_left_of_another_file_is_thrown_away(tmp_path: Path, have: bytes) -> None:
    (tmp_path / "x-0.jar.part").write_bytes(have)
    with file_server({FIRST: DATA}) as server:
        download(server, tmp_path, {FIRST: DATA})


@pytest.mark.parametrize("wrong", [DATA[::-1], DATA + b"and more", b""])
def test_another_file_is_refused_and_not_kept(tmp_path: Path, wrong: bytes) -> None:
    with (
        file_server({FIRST: wrong}) as server,
        pytest.raises(CallerError, match=r"x-0\.jar could not be downloaded \((what came is not the file|it ended)"),
    ):
        fetch(pins({FIRST: DATA}), Repository(server.url, None, "a test"), tmp_path, lambda _have, _total: None)
    assert [path for path in tmp_path.iterdir() if path.stat().st_size] == []


def test_one_that_fails_stops_the_others_and_what_came_stays(tmp_path: Path) -> None:
    files = {**FILES, "org/y/1/y-1.jar": b"y"}
    with (
        file_server(FILES) as server,
        pytest.raises(
            CallerError, match=r"y-1\.jar answers 404: it has no such file; is it a mirror of Maven Central\?"
        ),
    ):
        fetch(pins(files), Repository(server.url, None, "a test"), tmp_path, lambda _have, _total: None)
    with file_server(files) as server:
        download(server, tmp_path, files)


def test_who_can_t_be_reached_is_said_with_what_to_do(tmp_path: Path) -> None:
    with file_server({}) as server:
        url = server.url.replace("http://", "http://me:s3cret@")
    with pytest.raises(CallerError, match=r"HTTPS_PROXY.*SSL_CERT_FILE.*TURNMILL_MAVEN_REPOSITORY") as raised:
        fetch(pins({FIRST: DATA}), Repository(url, None, "a test"), tmp_path, lambda _have, _total: None)
    assert "s3cret" not in str(raised.value)
    assert str(tmp_path) in str(raised.value)


def test_an_address_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(CallerError, match=r"is no address .*TURNMILL_MAVEN_REPOSITORY"):
        fetch(
            pins({FIRST: DATA}), Repository("https://mirror:${env.PORT}/x", None, "a test"), tmp_path, lambda *_: None
        )


def test_logins(tmp_path: Path) -> None:
    with file_server({FIRST: DATA}, login="me:s3cret") as server:
        with pytest.raises(CallerError, match="answers 401: it wants a login"):
            download(server, tmp_path, {FIRST: DATA})
        download(server, tmp_path, {FIRST: DATA}, ("me", "s3cret"))
        server.url = server.url.replace("http://", "http://me:s3cret@")
        download(server, tmp_path / "again", {FIRST: DATA})


def test_the_list_of_pins_comes_back() -> None:
    listed = pins(FILES)
    text = render(listed)
    assert parse(f"# a comment\n\n{text}") == listed
    assert re.fullmatch(r"(?:[0-9a-f]{64} +\d+ \S+\n)+", text)
