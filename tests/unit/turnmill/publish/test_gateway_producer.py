"""A publisher over HTTP: its token goes to the gateway of the settings, over TLS that it trusts, and nowhere else."""

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from pydantic import SecretStr

from tests.support.certificates import Authority
from turnmill.errors import BrokerError
from turnmill.publish.gateway_producer import connected
from turnmill.settings import ClientSettings

TOKEN = "a-token-of-ours"
Seen = list[str | None]


@contextmanager
def serving(certificate: Path | None = None, redirect: str | None = None) -> Iterator[tuple[int, Seen]]:
    """-> the port, and the credentials that came."""
    seen: Seen = []

    class Gateway(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.headers["Authorization"])
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = b'{"records": 0, "refusals": []}'
            self.send_response(307 if redirect else 200)
            self.send_header("Content-Length", str(len(body)))
            if redirect:
                self.send_header("Location", redirect)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Gateway) as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port, seen
        finally:
            server.shutdown()


def settings(url: str, ca_file: Path | None = None) -> ClientSettings:
    return ClientSettings(publish_url=url, publish_token=SecretStr(TOKEN), ssl_ca_file=ca_file)


async def test_a_gateway_that_is_trusted(tmp_path: Path) -> None:
    ours = Authority.make(tmp_path)
    with serving(ours.sign("gateway")) as (port, seen):
        await (await connected(settings(f"https://127.0.0.1:{port}", ours.file))).close()
    assert seen == [f"Bearer {TOKEN}"]


@pytest.mark.parametrize(
    ("certificate", "host"),
    [
        (lambda ours, _: ours.sign("elsewhere", host="gateway.example"), "127.0.0.1"),
        (lambda ours, _: ours.sign("ended", days=-1), "localhost"),
        (lambda _, theirs: theirs.sign("theirs"), "localhost"),
    ],
    ids=["another name", "ended", "another authority"],
)
async def test_a_gateway_that_is_not(
    tmp_path: Path, certificate: Callable[[Authority, Authority], Path], host: str
) -> None:
    ours, theirs = Authority.make(tmp_path), Authority.make(tmp_path, "theirs authority")
    with serving(certificate(ours, theirs)) as (port, seen), pytest.raises(BrokerError, match="certificate"):
        await connected(settings(f"https://{host}:{port}", ours.file))
    assert seen == []


async def test_a_redirect_is_not_followed() -> None:
    with (
        serving() as (there, stolen),
        serving(redirect=f"http://127.0.0.1:{there}/v1/records") as (port, _),
        pytest.raises(BrokerError, match="307") as error,
    ):
        await connected(settings(f"http://127.0.0.1:{port}"))
    assert stolen == []
    assert TOKEN not in str(error.value)
