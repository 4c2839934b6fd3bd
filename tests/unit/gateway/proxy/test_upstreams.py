"""The setting, and the addresses that paths below `/proxy` mean."""

from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.gateway.problems import Problem
from pipeline.gateway.proxy.upstreams import upstreams
from turnmill.errors import CallerError


def test_known_names_and_addresses_of_ones_own() -> None:
    found = upstreams("openai, vllm=http://vllm.internal:8000/serving/,anthropic=https://mirror.example")
    assert {name: one.base for name, one in found.items()} == {
        "openai": "https://api.openai.com",
        "vllm": "http://vllm.internal:8000/serving",
        "anthropic": "https://mirror.example",
    }
    assert found["vllm"].address(b"/v1/models", b"a=%2F") == "http://vllm.internal:8000/serving/v1/models?a=%2F"


@pytest.mark.parametrize(
    "setting",
    [
        "vllm",
        "OpenAI",
        "t",
        "t=https://x",
        "openai,openai",
        "a=ftp://x",
        "a=https://",
        "a=https://user:hunter2@x",
        "a=https://x?y=hunter2",
        "a=https://x#y",
        "a=https://x/../y",
        "a=https://x:port",
        "a=https://x/ä",
        "../x=https://x",
    ],
)
def test_what_is_wrong_is_said_without_its_secrets(setting: str) -> None:
    with pytest.raises(CallerError) as error:
        upstreams(setting)
    assert "TURNMILL_GATEWAY_PROXY" in str(error.value)
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "method", "path", "dialect"),
    [
        ("openai", "POST", b"/v1/chat/completions", "openai-chat"),
        ("openai", "POST", b"/v1/responses", "openai-responses"),
        ("openai", "GET", b"/v1/responses", None),
        ("openai", "POST", b"/v1/responses/resp_1/cancel", None),
        ("openai", "POST", b"/v1/embeddings", None),
        ("openai", "POST", b"/v1/messages", None),
        ("anthropic", "POST", b"/v1/messages", "anthropic"),
        ("anthropic", "POST", b"/v1/messages/count_tokens", None),
        ("google", "POST", b"/v1beta/models/gemini-3-flash:streamGenerateContent", "gemini"),
        ("google", "POST", b"/v1beta/models/gemini-3-flash:countTokens", None),
        ("mine", "POST", b"/messages", "anthropic"),
        ("mine", "POST", b"/chat/completions", "openai-chat"),
    ],
)
def test_which_requests_are_published(name: str, method: str, path: bytes, dialect: str | None) -> None:
    one = upstreams("openai,anthropic,google,mine=https://mine.example/v1")[name]
    assert one.dialect(method, path) == dialect


@pytest.mark.parametrize(
    "path",
    [
        b"/../x",
        b"/v1/..",
        b"/v1/./x",
        b"/%2e%2e/x",
        b"/%2E./x",
        b"/v1/..%2fx",
        b"/v1%2f..%2f..%2fx",
        b"/%252e%252e/x",
        b"/%25252e%25252e/x",
        b"/..;/x",
        b"/%2e%2e;a=b/x",
        b"/..\\x",
        b"/..%5cx",
        b"/v1/%00",
        b"/v1/%0d%0aX: y",
        b"/v1 /x",
        b"/v1/\xff",
        b"/v1#x",
        b"/%25252525252525252e",
    ],
)
def test_a_path_that_may_leave_its_base_is_refused(path: bytes) -> None:
    with pytest.raises(Problem):
        upstreams("a=https://x.example/base")["a"].address(path, b"")


@given(st.text("abc/.%25eEfF;\\@:?#[]", max_size=20), st.text("a=&%/?#@", max_size=8))
def test_whatever_comes_it_stays_on_its_host_and_below_its_base(path: str, query: str) -> None:
    try:
        url = upstreams("a=https://x.example/base")["a"].address(b"/" + path.encode(), query.encode())
    except Problem:
        return
    parts = urlsplit(url)
    assert (parts.scheme, parts.netloc) == ("https", "x.example")
    assert parts.path.startswith("/base/")
    assert not parts.fragment
