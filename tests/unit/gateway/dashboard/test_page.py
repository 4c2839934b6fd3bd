"""The page's files: what they may do, and that nothing in them reaches further than this host."""

import hashlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from pipeline.gateway.dashboard.page import STATIC, files
from pipeline.gateway.serving.app import create_app
from pipeline.settings import Settings

OURS = [path for path in STATIC.rglob("*") if path.suffix in {".js", ".html", ".css"} and "vendor" not in path.parts]


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(Settings(home=tmp_path))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


async def test_every_file_comes_with_a_strict_policy(http: httpx.AsyncClient) -> None:
    for path in ("/", *(f"/static/{name}" for name in files())):
        answer = await http.get(path)
        assert answer.status_code == 200, path
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        again = await http.get(path, headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path", ["../page.py", "..%2fpage.py", "%2e%2e/page.py", "/etc/passwd", "vendor/uPlot.LICENSE", "", "js", "x" * 500]
)
async def test_nothing_else_is_reached(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.get(f"/static/{path}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_our_files_make_no_markup_out_of_text_and_name_no_other_host(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|new Function|DOMParser", text)
    hosts = set(re.findall(r"https?://([^/\s\"'`)]+)", text))
    assert hosts <= {"www.w3.org"}, "the name of SVG's namespace is no address"
    if path.suffix == ".html":
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script>", text), "nothing inline"


def test_every_import_and_link_is_there() -> None:
    for path in OURS:
        for name in re.findall(r'from "\./([\w.]+)"', path.read_text()):
            assert (path.parent / name).is_file(), f"{path.name} imports {name}"
        for name in re.findall(r'(?:src|href)="/static/([^"]+)"', path.read_text()):
            assert name in files(), f"{path.name} names {name}"


def test_what_is_not_ours_is_unchanged() -> None:
    listed = re.findall(r"\| `([\w.]+)` \| `([0-9a-f]{64})` \|", (STATIC / "vendor" / "README.md").read_text())
    assert len(listed) == 2
    for name, digest in listed:
        assert hashlib.sha256((STATIC / "vendor" / name).read_bytes()).hexdigest() == digest, name
