"""Headers that pass, and those that stop here."""

from pipeline.gateway.proxy.passed_headers import downward, upward
from pipeline.gateway.proxy.upstreams import without_token


def test_a_request_keeps_what_is_for_the_provider() -> None:
    kept = [("authorization", "Bearer k"), ("x-api-key", "k"), ("accept-encoding", "zstd"), ("x-a", "1"), ("x-a", "2")]
    stopped = [
        ("host", "gateway"),
        ("content-length", "5"),
        ("transfer-encoding", "chunked"),
        ("connection", "keep-alive, X-Mine"),
        ("x-mine", "1"),
        ("te", "trailers"),
        ("upgrade", "h2c"),
        ("cookie", "sso=secret"),
        ("turnmill-token", "tm_1"),
        ("turnmill-thread", "t"),
        ("x-forwarded-for", "10.0.0.1"),
        ("expect", "100-continue"),
    ]
    sent = [(name.encode(), value.encode()) for name, value in [*stopped, *kept]]
    assert upward(sent) == kept


def test_an_answer_keeps_what_is_for_the_program() -> None:
    kept = [
        (b"content-type", b"text/event-stream"),
        (b"x-request-id", b"r"),
        (b"retry-after", b"3"),
        (b"content-length", b"3"),
    ]
    stopped = [
        (b"Connection", b"X-Mine"),
        (b"X-Mine", b"1"),
        (b"Set-Cookie", b"a=b"),
        (b"Content-Security-Policy", b"default-src *"),
        (b"Access-Control-Allow-Origin", b"*"),
        (b"Date", b"now"),
    ]
    assert downward([*stopped, *kept]) == kept


def test_a_length_beside_chunks_does_not_count() -> None:
    assert downward([(b"Content-Length", b"3"), (b"Transfer-Encoding", b"chunked"), (b"X-A", b"1")]) == [(b"x-a", b"1")]


def test_a_token_in_the_path_is_nowhere_but_in_its_header() -> None:
    scope = {
        "type": "http",
        "path": "/proxy/t/tm_1/openai/v1/x y",
        "raw_path": b"/proxy/t/tm_%31/openai/v1/x%20y",
        "headers": [(b"turnmill-token", b"other"), (b"a", b"b")],
    }
    assert without_token(scope) == {
        "type": "http",
        "path": "/proxy/openai/v1/x y",
        "raw_path": b"/proxy/openai/v1/x%20y",
        "headers": [(b"a", b"b"), (b"turnmill-token", b"tm_1")],
    }
