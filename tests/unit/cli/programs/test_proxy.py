"""Where the proxy of `turnmill run` sends what comes, and which of it is captured."""

import pytest

from pipeline.cli.programs.proxy import ProgramProxy, Target
from turnmill.capture.providers import Known, Providers


def proxy() -> tuple[ProgramProxy, str]:
    found = ProgramProxy(lambda *_: None, Providers({"llm:8000": "vllm"}))
    return found, f"/{found._token}"


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/https/api.openai.com/v1/responses?a=%2F", Target("https", "api.openai.com", "/v1/responses?a=%2F")),
        ("/http/127.0.0.1:9/v1/models", Target("http", "127.0.0.1:9", "/v1/models")),
        ("/https/api.anthropic.com/v1/messages", Target("https", "api.anthropic.com", "/v1/messages")),
        ("/https/api.anthropic.com/messages?beta=true", Target("https", "api.anthropic.com", "/v1/messages?beta=true")),
        ("/https/api.anthropic.com", Target("https", "api.anthropic.com", "/")),
        ("/file/etc/passwd", None),
        ("/https", None),
        ("", None),
    ],
)
def test_a_path_names_its_server(path: str, target: Target | None) -> None:
    found, token = proxy()
    assert found.target(token + path) == target
    assert found.target("/-" + path, token[1:]) == target, "in a header"
    for wrong in ("", "other"):
        assert found.target(f"/{wrong or '-'}{path}", wrong) is None


def test_calls_of_hosts_that_nobody_named_are_captured_under_the_host() -> None:
    found, _ = proxy()
    for host, path, known in (
        ("api.openai.com", "/v1/responses", Known("openai", "openai-responses")),
        ("llm:8000", "/v1/chat/completions?x=1", Known("vllm", "openai-chat")),
        ("127.0.0.1:1234", "/v1/chat/completions", Known("127.0.0.1", "openai-chat", sure=False)),
        ("chatgpt.com", "/backend-api/codex/responses", Known("openai", "openai-responses", sure=False)),
        ("llm:8000", "/v1/embeddings", None),
        ("example.com", "/upload", None),
    ):
        assert found.known("POST", Target("http", host, path)) == known
    assert found.known("GET", Target("http", "api.openai.com", "/v1/responses")) is None
