"""A token endpoint of a test's own: client credentials in, tokens out (RFC 6749, 4.4)."""

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote_plus

CLIENT = "turnmill"
SECRET = "s3cret of: a client/%"


@dataclass(slots=True)
class Endpoint:
    """Its address, and what it was asked for."""

    url: str
    given: int = 0
    scopes: set[str] = field(default_factory=set)


@contextmanager
def token_endpoint(token: Callable[[], str], life: float, moved_to: str | None = None) -> Iterator[Endpoint]:
    """It answers CLIENT with SECRET, and 401 to all others; or redirects all of them."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            scheme, _, pair = self.headers["Authorization"].partition(" ")
            client, _, secret = base64.b64decode(pair).decode().partition(":")
            known = (scheme, unquote_plus(client), unquote_plus(secret)) == ("Basic", CLIENT, SECRET)
            granted = known and form["grant_type"] == ["client_credentials"] and moved_to is None
            body = {"access_token": token(), "token_type": "bearer", "expires_in": life} if granted else {}
            endpoint.given += granted
            endpoint.scopes.update(form.get("scope", []))
            self.send_response(200 if granted else 401 if moved_to is None else 302)
            if moved_to is not None:
                self.send_header("Location", moved_to)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: object) -> None:
            """Not on the test's output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    endpoint = Endpoint(f"http://127.0.0.1:{server.server_port}/token")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
