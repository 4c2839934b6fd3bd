"""Large values in a folder and in a bucket of a real S3 server (moto): the same tests on both."""

import asyncio
import base64
import hashlib
import http.server
import json
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pipeline.__main__ import cli
from pipeline.devbroker.ports import free_ports
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metrics
from pipeline.settings import Settings, load
from pipeline.stores.content.offload import Offload
from pipeline.stores.content.store import ContentStore
from pipeline.stores.database.errors import StoreError
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.keeping.erasure import delete_thread
from pipeline.stores.turns import write_turns
from pipeline.turns.canonical import turn_hash
from tests.support.certificates import Authority
from tests.support.packs import packed
from tests.support.s3 import new_bucket, objects_of, use_s3
from tests.support.workers import environment
from topics import turn_record
from topics.thread_key import ThreadKey
from turnmill.errors import CallerError

THREAD = "11111111-1111-4111-8111-111111111111"
OTHER = "22222222-2222-4222-8222-222222222222"
SCHEMES = ("file", "s3")


@pytest.fixture(params=SCHEMES)
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an empty content store."""
    if request.param == "file":
        return (tmp_path / "a folder" / "content").as_uri()
    endpoint = request.getfixturevalue("s3")
    use_s3(monkeypatch, endpoint)
    return f"s3://{new_bucket(endpoint)}/some%20prefix"


@pytest.fixture
def objects(root: str, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[], dict[str, bytes]]:
    """Reads the names of all objects and what they hold, not by way of the store."""

    def read() -> dict[str, bytes]:
        if root.startswith("file:"):
            return packed(tmp_path / "a folder" / "content")
        found = objects_of(request.getfixturevalue("s3"), root.split("/")[2])
        return {name.removeprefix("some prefix/"): data for name, data in found.items()}

    return read


async def test_put_and_get(root: str, objects: Any) -> None:
    store = ContentStore(root)
    ref = await store.put(ThreadKey(THREAD), b"hello", "text/plain")
    digest = hashlib.sha256(b"hello").hexdigest()
    uri = f"{root}/{THREAD}/{digest}"
    assert ref == {"uri": uri, "size_bytes": 5, "hash": f"sha256:{digest}", "media_type": "text/plain"}
    assert objects() == {f"{THREAD}/{digest}": b"hello"}
    assert await store.get(ThreadKey(THREAD), ref) == b"hello"
    assert await store.get(ThreadKey(THREAD), {"uri": uri}) == b"hello"
    assert await ContentStore(root + "/").get(ThreadKey(THREAD), {**ref, "hash": digest.upper()}) == b"hello"


async def test_the_same_again_changes_nothing(root: str, objects: Any) -> None:
    store = ContentStore(root)
    refs = await asyncio.gather(*(store.put(ThreadKey(THREAD), b"x" * 300_000, "text/plain") for _ in range(5)))
    assert len(objects()) == 1
    assert all(ref == refs[0] for ref in refs)
    await store.put(ThreadKey(OTHER), b"x" * 300_000, "text/plain")
    assert len(objects()) == 2


async def test_a_threads_objects_go_with_it_and_no_others(root: str, objects: Any) -> None:
    store = ContentStore(root)
    assert await store.delete_thread(ThreadKey(THREAD)) == 0
    for number in range(3):
        await store.put(ThreadKey(THREAD), b"%d" % number, "text/plain")
    kept = await store.put(ThreadKey(OTHER), b"0", "text/plain")
    assert await store.delete_thread(ThreadKey(THREAD)) == 3
    assert list(objects()) == [f"{OTHER}/{kept['hash'].removeprefix('sha256:')}"]
    assert await store.delete_thread(ThreadKey(THREAD)) == 0


async def test_what_is_not_there_or_not_what_it_was(root: str, tmp_path: Path) -> None:
    store = ContentStore(root)
    ref = await store.put(ThreadKey(THREAD), b"hello", "text/plain")
    with pytest.raises(StoreError, match="does not hold what it should") as wrong:
        await store.get(ThreadKey(THREAD), {**ref, "hash": "sha256:" + "0" * 64})
    assert not wrong.value.transient
    await store.delete_thread(ThreadKey(THREAD))
    with pytest.raises(StoreError, match="is not there") as missing:
        await store.get(ThreadKey(THREAD), ref)
    assert ref["uri"] in str(missing.value)
    assert not missing.value.transient


async def test_a_store_that_has_moved(root: str) -> None:
    ref = await ContentStore(root).put(ThreadKey(THREAD), b"hello", "text/plain")
    before = {**ref, "uri": ref["uri"].replace(root, "s3://bucket-before/x")}
    assert await ContentStore(root).get(ThreadKey(THREAD), before) == b"hello"


async def test_objects_elsewhere_need_a_hash(root: str, tmp_path: Path) -> None:
    """So nobody can have a file read whose content they don't know."""
    file = tmp_path / "elsewhere.txt"
    file.write_bytes(b"inner")
    foreign = {"uri": file.as_uri(), "hash": hashlib.sha256(b"inner").hexdigest()}
    of_other = await ContentStore(root).put(ThreadKey(OTHER), b"theirs", "text/plain")
    for store in (ContentStore(root), ContentStore(None)):
        assert await store.get(ThreadKey(THREAD), foreign) == b"inner"
        with pytest.raises(StoreError, match="not in the content store"):
            await store.get(ThreadKey(THREAD), of_other)
        with pytest.raises(StoreError, match="without a SHA-256"):
            await store.get(ThreadKey(THREAD), {"uri": foreign["uri"]})
    for ref in (foreign, of_other):
        with pytest.raises(StoreError, match="nothing else is read here"):
            await ContentStore(root, elsewhere=False).get(ThreadKey(THREAD), ref)


@pytest.mark.parametrize("uri", ["http://127.0.0.1/x", "ftp://x/y", "/etc/hostname", "file:///", "file:///dev/zero"])
async def test_other_places_are_not_read(uri: str) -> None:
    with pytest.raises(StoreError, match="can't be read"):
        await ContentStore(None).get(ThreadKey(THREAD), {"uri": uri, "hash": "0" * 64})


async def test_a_store_that_is_away_is_transient_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_s3(monkeypatch, f"http://127.0.0.1:{free_ports(1)[0]}")
    with pytest.raises(StoreError, match="can't be written: Generic S3 error") as away:
        await ContentStore("s3://bucket/x").put(ThreadKey(THREAD), b"1", "text/plain")
    assert away.value.transient
    assert "\n" not in str(away.value)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="can't be written"):
        await ContentStore((tmp_path / "file").as_uri()).put(ThreadKey(THREAD), b"1", "text/plain")


async def test_a_bucket_that_is_not_there(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    use_s3(monkeypatch, s3)
    with pytest.raises(StoreError, match="the bucket is not there"):
        await ContentStore("s3://no-such-bucket").put(ThreadKey(THREAD), b"1", "text/plain")


def test_settings() -> None:
    home = {"TURNMILL_HOME": "/h"}
    assert load(home).content_url == "file:///h/content"
    assert load({**home, "TURNMILL_STORE": "postgresql://h/d"}).content_url is None
    assert load({**home, "TURNMILL_CONTENT": "inline"}).content_url is None
    assert load({"TURNMILL_CONTENT": "gs://bucket/x"}).content_url == "gs://bucket/x"
    for bad in ("/folder", "file://relative", "https://host/x", "s3:bucket", "s3://b?key=1"):
        with pytest.raises(CallerError, match="TURNMILL_CONTENT: file:///folder"):
            load({"TURNMILL_CONTENT": bad})
    with pytest.raises(CallerError, match=r"azure://box/x: .*Account must be specified"):
        ContentStore("azure://box/x")


# ---- turns


def large_turn(record: Any, size: int = 150_000) -> Any:
    """A turn whose tool gave back so much, with an attached picture as large."""
    made = record("chat", "r1")
    at = made["turn"]["started_at"]
    call = {"part_kind": "tool-call", "tool_name": "dump", "tool_call_id": "c", "args": {}}
    answer = {"part_kind": "tool-return", "tool_name": "dump", "tool_call_id": "c", "status": "success"}
    picture = {"kind": "binary", "data": base64.b64encode(bytes(size)).decode(), "media_type": "image/png"}
    prompt = {"part_kind": "user-prompt", "content": ["look", picture]}
    made["turn"]["messages"][0]["parts"].append(call)
    made["turn"]["messages"].append(
        {"message_type": "request", "timestamp": at, "agent_id": "a1",
         "parts": [{**answer, "content": [{"row": "ä" * size}]}, prompt]}
    )  # fmt: skip
    made["turn"]["meta:turn_id"] = made["turn_id"]
    made["hash"] = turn_hash(made["turn"])
    return made


async def test_offload_and_back(root: str, record: Any) -> None:
    made = large_turn(record)
    metrics = Metrics()
    offload = Offload(ContentStore(root), 100_000, metrics)
    value = await offload(turn_record.encode(made))
    assert len(value) < 3000
    assert value == await offload(turn_record.encode(made))
    small = turn_record.decode(value)
    assert small["hash"] == made["hash"]
    document = {"thread_id": made["thread_id"], "turns": [small["turn"]]}
    inlined = await ContentStore(root).inlined(ThreadKey(document["thread_id"]), document)
    assert inlined["turns"] == [made["turn"]]
    assert turn_hash(inlined["turns"][0]) == made["hash"]
    assert metrics.registry.get_sample_value(m.CONTENT_OBJECTS.name) == 4  # twice, as it was asked for twice


async def test_a_turn_is_the_same_whether_it_was_encoded_before_its_values_left_it(root: str, record: Any) -> None:
    offload, made = Offload(ContentStore(root), 100_000, Metrics()), large_turn(record)
    encoded = await offload(turn_record.encode(made))
    assert offload.has_long_text(made)
    await offload.move_longest(made)
    assert turn_record.encode(made) == encoded
    assert not offload.has_long_text(made)


async def test_a_small_turn_is_left_as_it_is(root: str, record: Any, objects: Any) -> None:
    value = turn_record.encode(record("chat", "r1"))
    assert await Offload(ContentStore(root), 1, Metrics())(value) == value
    assert objects() == {}


async def test_export_and_delete_by_command(
    root: str, record: Any, objects: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    settings = Settings(home=tmp_path, content=root)
    monkeypatch.setenv("TURNMILL_HOME", str(tmp_path))
    monkeypatch.setenv("TURNMILL_CONTENT", root)
    made = large_turn(record)
    async with await ThreadStore.open(settings.store_url) as store:
        value = await Offload(ContentStore.of(settings), 100_000, Metrics())(turn_record.encode(made))
        await write_turns(store, [turn_record.decode(value)])

    def run(*args: str) -> Any:
        return CliRunner().invoke(cli, args, standalone_mode=False)

    def one(*args: str) -> Any:
        result = run(*args)
        assert result.exception is None, result.output
        return json.loads(result.output)

    def commands() -> None:
        assert "content_ref" in json.dumps(one("export", "chat"))
        assert one("export", "--inline")["turns"] == [made["turn"]]
        assert one("threads", "show", "chat", "--json", "--inline")["turns"] == [made["turn"]]
        for form in ("pydantic-ai", "vercel-ai", "pi-agent"):
            text = json.dumps(one("export", "chat", "--format", form))
            assert "content_ref" not in text
            assert len(text) > 150_000
        uris = [f"{root}/{name}" for name in objects()]
        asyncio.run(ContentStore(root).delete_thread(ThreadKey(made["thread_id"])))
        failed = run("export", "--inline")
        assert isinstance(failed.exception, StoreError)
        assert str(failed.exception).startswith(f"thread {made['thread_id']}, turn {made['turn_id']}: {root}")
        assert any(uri in str(failed.exception) for uri in uris)
        asyncio.run(ContentStore(root).put(ThreadKey(made["thread_id"]), b"left", "text/plain"))
        assert run("threads", "delete", "chat", "--yes").exception is None
        assert objects() == {}

    await asyncio.to_thread(commands)


# ---- https


def test_https(tmp_path: Path, record: Any) -> None:
    """A producer's reference to an https server, read by the command; its certificate must be trusted."""
    authority = Authority.make(tmp_path)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/data.json?signature=1"
            self.send_response(200 if found else 404)
            self.end_headers()
            self.wfile.write(b'{"rows": [1]}')

        def log_message(self, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.sign("localhost"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings = Settings(home=tmp_path)

    def export(path: str, **more: str) -> subprocess.CompletedProcess[str]:
        made = record("chat", "r1")
        ref = {"uri": f"https://localhost:{server.server_port}/{path}", "media_type": "application/json"}
        ref["hash"] = "sha256:" + hashlib.sha256(b'{"rows": [1]}').hexdigest()
        answer = {"part_kind": "tool-return", "tool_name": "t", "tool_call_id": "c", "status": "success"}
        request = {"message_type": "request", "timestamp": made["turn"]["started_at"], "agent_id": "a1"}
        made["turn"]["messages"].append({**request, "parts": [{**answer, "content_ref": ref}]})

        async def write() -> None:
            async with await ThreadStore.open(settings.store_url) as store:
                await delete_thread(store, ThreadKey(made["thread_id"]))
                await write_turns(store, [made])

        asyncio.run(write())
        command = [sys.executable, "-m", "pipeline", "export", "--inline"]
        return subprocess.run(command, env=environment(settings, **more), capture_output=True, text=True, check=False)

    try:
        trusted = export("data.json?signature=1", SSL_CERT_FILE=str(authority.file))
        assert trusted.returncode == 0, trusted.stderr
        assert json.loads(trusted.stdout)["turns"][0]["messages"][1]["parts"][0]["content"] == {"rows": [1]}
        gone = export("gone", SSL_CERT_FILE=str(authority.file))
        assert (gone.returncode, "is not there" in gone.stderr) == (4, True)
        strange = export("data.json?signature=1")
        assert (strange.returncode, "ertificate" in strange.stderr) == (4, True)
        assert "Traceback" not in strange.stderr
    finally:
        server.shutdown()
        server.server_close()


async def test_an_object_is_fetched_once_and_a_document_is_bounded(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by the review: an event of 67 KB with 200 references to one object made one GET take 325 MB."""
    store = ContentStore(root)
    ref = await store.put(ThreadKey(THREAD), b"x" * 10_000, "text/plain")
    part = {"part_kind": "tool-return", "tool_name": "t", "tool_call_id": "c", "content_ref": ref}
    document = {"thread_id": THREAD, "turns": [{"meta:turn_id": "1", "messages": [{"parts": [part] * 200}]}]}
    assert store.values is not None
    read, real = [], store.values.read

    async def counted(folder: str, digest: str, most: int | None) -> bytes:
        read.append(digest)
        return await real(folder, digest, most)

    monkeypatch.setattr(store.values, "read", counted)
    whole = await store.inlined(ThreadKey(THREAD), document, most=200 * 10_000)
    assert [part["content"] for part in whole["turns"][0]["messages"][0]["parts"]] == ["x" * 10_000] * 200
    assert len(read) == 1
    with pytest.raises(StoreError, match="more than 1,999,999 bytes in one answer") as raised:
        await store.inlined(ThreadKey(THREAD), document, most=200 * 10_000 - 1)
    assert not raised.value.transient
    assert len(read) == 1, "what is too much is not even read"
    for said in (None, 10):  # who says less, or nothing, gets no more
        other = {key: value for key, value in ({**ref, "size_bytes": said}).items() if value is not None}
        one = {"thread_id": THREAD, "turns": [{"parts": [{**part, "content_ref": other}]}]}
        with pytest.raises(StoreError, match="it has more than"):
            await store.inlined(ThreadKey(THREAD), one, most=9_999)
