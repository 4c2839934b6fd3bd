"""A collector for OpenTelemetry's protocol: an HTTP server that decodes what it is sent."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """`spans`: what came, in order. It answers 503 to the first `refused` requests."""

    def __init__(self, endpoint: str, refused: int) -> None:
        self.endpoint = endpoint
        self.refused = refused
        self.paths: set[str] = set()
        self.services: set[str] = set()
        self.headers: dict[str, str] = {}
        self.spans: list[Any] = []

    def named(self) -> dict[str, Any]:
        """run_id -> its span; each run has one."""
        found = {attributes(span)["turnmill.run.id"]: span for span in self.spans}
        assert len(found) == len(self.spans)
        return found

    def take(self, path: str, headers: Any, body: bytes) -> int:
        if self.refused:
            self.refused -= 1
            return 503
        data = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
        self.paths.add(path)
        self.headers = {name.lower(): value for name, value in headers.items()}
        for resource in ExportTraceServiceRequest.FromString(data).resource_spans:
            self.services.add(attributes(resource.resource)["service.name"])
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)
        return 200


def attributes(of: Any) -> dict[str, Any]:
    """The attributes of a span or a resource, as plain values."""
    return {pair.key: _value(pair.value) for pair in of.attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return [_value(one) for one in found.values] if kind == "array_value" else found


@contextmanager
def collecting(refused: int = 0) -> Iterator[Collector]:
    """A collector that listens."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            self.send_response(collector.take(self.path, self.headers, body))
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector = Collector(f"http://127.0.0.1:{server.server_port}", refused)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()
