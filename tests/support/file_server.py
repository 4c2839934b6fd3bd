"""An HTTP server of files, as a Maven repository is one, that fails as told."""

import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class FileServer:
    """`files`: path -> bytes. `answers` are the status codes of its next answers, before it does as it should.

    `cut`: each answer ends after so many bytes; `whole`: it does not know ranges; `login`: what it lets in.
    """

    files: dict[str, bytes]
    answers: list[int] = field(default_factory=list)
    cut: int | None = None
    whole: bool = False
    login: str | None = None
    requests: list[tuple[str, str | None]] = field(default_factory=list)  # path, range
    url: str = ""

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        wanted = request.headers.get("Range")
        self.requests.append((request.path, wanted))
        body, status = self.files.get(request.path.lstrip("/")), 200
        given = request.headers.get("Authorization", "Basic ").removeprefix("Basic ")
        if self.answers:
            body, status = b"", self.answers.pop(0)
        elif self.login is not None and b64decode(given).decode() != self.login:
            body, status = b"", 401
        elif body is None:
            body, status = b"", 404
        elif wanted and not self.whole:
            body, status = body[int(wanted.removeprefix("bytes=").rstrip("-")) :], 206
        request.send_response(status)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body if self.cut is None else body[: self.cut])
        request.close_connection = True


@contextmanager
def file_server(files: dict[str, bytes], **how: object) -> Iterator[FileServer]:
    """It runs within the block."""
    served = FileServer(files, **how)  # type: ignore[arg-type]  # its own fields

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.answer(self)

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()
