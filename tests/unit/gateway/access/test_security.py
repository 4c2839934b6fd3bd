"""Who is let in, with what, and to whose threads."""

import json
import os
from pathlib import Path

import pytest

from pipeline.gateway.access.authenticator import Authenticator
from pipeline.gateway.access.principal import Principal
from pipeline.gateway.access.token_memory import TokenMemory
from pipeline.gateway.access.token_table import TokenTable, hashed, is_within, networks, new_token, parse_tokens
from pipeline.gateway.problems import Problem
from pipeline.settings import Settings
from turnmill.errors import CallerError

TOKEN, LINE = new_token("acme-worker", ("publish", "read"), "acme")
JSON_LINE = LINE.model_dump_json(exclude_none=True)


def gateway_settings(**more: object) -> Settings:
    return Settings(**more)  # type: ignore[arg-type]  # pydantic checks them


class NoTokens(TokenMemory):
    """A store without tokens."""

    def __init__(self) -> None:
        pass

    async def find(self, digest: str, *, wait: bool = False) -> None:
        return None


def authenticator_of(settings: Settings) -> Authenticator:
    return Authenticator(settings, NoTokens())


async def refusal(authenticator: Authenticator, token: str | None, **headers: str) -> Problem:
    async def request() -> None:
        authenticator.guard(headers)
        await authenticator.principal(token)

    with pytest.raises(Problem) as raised:
        await request()
    return raised.value


def test_a_token_is_kept_as_its_hash_alone() -> None:
    assert TOKEN not in JSON_LINE
    assert json.loads(JSON_LINE) == {
        "name": "acme-worker",
        "sha256": hashed(TOKEN),
        "scopes": ["publish", "read"],
        "tenant": "acme",
    }
    assert new_token("x", ("read",), None)[0] != new_token("x", ("read",), None)[0]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2"),
        ('{"name": "x"}', "line 2: sha256"),
        ('{"name": "x", "sha256": "abc", "scopes": ["read"]}', "line 2: sha256"),
        (JSON_LINE.replace('"publish"', '"everything"'), "line 2: scopes.0"),
        (JSON_LINE.replace('["publish","read"]', "[]"), "line 2: scopes"),
        (JSON_LINE.replace('"acme"', '""'), "line 2: tenant"),
        (JSON_LINE.replace("tenant", "tenants"), "line 2: tenants"),
    ],
)
def test_a_wrong_line_is_named_and_not_shown(line: str, said: str) -> None:
    with pytest.raises(CallerError, match=f"tokens, {said}") as raised:
        parse_tokens(f"# ours\n{line}", "tokens")
    assert hashed(TOKEN) not in str(raised.value)


def test_the_same_token_twice_is_an_error() -> None:
    with pytest.raises(CallerError, match="twice"):
        parse_tokens(f"{JSON_LINE}\n\n{JSON_LINE}\n", "tokens")


def test_a_file_is_read_again_when_it_changes_and_kept_when_it_breaks(tmp_path: Path) -> None:
    path = tmp_path / "tokens.jsonl"
    path.write_text(JSON_LINE)
    table = TokenTable(str(path))
    assert table.find(TOKEN) == Principal("acme-worker", frozenset({"publish", "read"}), "acme")
    other, line = new_token("other", ("admin",), None)
    path.write_text(f"{JSON_LINE}\n{line.model_dump_json()}\n")
    os.utime(path, ns=(1, 1))
    assert table.find(other) == Principal("other", frozenset({"admin"}))
    path.write_text("rubbish")
    assert table.find(TOKEN) is not None
    assert table.find("tm_unknown") is None
    path.write_text(JSON_LINE)
    os.utime(path, ns=(2, 2))
    assert table.find(other) is None, "a token that was taken out is refused"


@pytest.mark.parametrize("setting", ["", "# nothing\n", "no/such/file"])
def test_no_tokens_are_an_error(setting: str, tmp_path: Path) -> None:
    path = tmp_path / "tokens.jsonl"
    path.write_text(setting)
    with pytest.raises(CallerError):
        TokenTable(str(path) if setting != "no/such/file" else setting)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "gateway.example.com"])
def test_without_tokens_a_gateway_does_not_listen_to_others(host: str) -> None:
    with pytest.raises(CallerError, match="TURNMILL_GATEWAY_TOKENS"):
        authenticator_of(gateway_settings(gateway_host=host))
    authenticator_of(gateway_settings(gateway_host=host, gateway_tokens=JSON_LINE))


async def test_without_tokens_pages_of_elsewhere_are_refused() -> None:
    authenticator = authenticator_of(gateway_settings(gateway_origins="https://app.example.com"))
    assert (await authenticator.principal(None)).tenant is None
    for host in ("127.0.0.1:8080", "[::1]:8080", "LOCALHOST"):
        authenticator.guard({"host": host})
    for origin in ("http://localhost:8080", "https://localhost:8080", "https://app.example.com"):
        authenticator.guard({"host": "localhost:8080", "origin": origin})
    assert (await refusal(authenticator, None, host="evil.example.com")).kind == "forbidden"
    foreign = ("https://evil.example.com", "null", "http://localhost.evil.example.com:80", "file://")
    for origin in (*foreign, "http://localhost:3000", "http://127.0.0.1"):
        assert (await refusal(authenticator, None, host="localhost", origin=origin)).kind == "forbidden"


async def test_with_tokens_each_request_needs_one() -> None:
    authenticator = authenticator_of(gateway_settings(gateway_tokens=JSON_LINE))
    assert (await authenticator.principal(TOKEN)).name == "acme-worker"
    missing = await refusal(authenticator, None)
    assert (missing.kind, missing.headers["WWW-Authenticate"]) == ("unauthorized", 'Bearer realm="turnmill"')
    for wrong in ("x", TOKEN[:-1], TOKEN + "=", hashed(TOKEN), "a.b.c", "é" * 10, "\udcff"):
        refused = await refusal(authenticator, wrong)
        assert refused.kind == "unauthorized"
        assert "invalid_token" in refused.headers["WWW-Authenticate"]


def test_a_principal_with_a_tenant_reaches_that_alone() -> None:
    bound, free = Principal("a", frozenset(), "acme"), Principal("b", frozenset())
    assert (bound.bounded(None), bound.bounded("acme")) == ("acme", "acme")
    assert (free.bounded(None), free.bounded("acme")) == (None, "acme")
    with pytest.raises(Problem, match="its own tenant"):
        bound.bounded("globex")


@pytest.mark.parametrize("half", [{}, {"gateway_jwt_issuer": "https://issuer"}, {"gateway_jwt_audience": "turnmill"}])
def test_a_jwks_without_issuer_and_audience_is_an_error(half: dict[str, str]) -> None:
    with pytest.raises(CallerError, match="GATEWAY_JWT_ISSUER"):
        authenticator_of(gateway_settings(gateway_jwks_url="https://issuer/jwks.json", **half))


@pytest.mark.parametrize(
    "url",
    [
        "http://issuer.example.com/keys",
        "http://localhost.example.com/",
        "http://127.0.0.1.nip.io/",
        "https:///x",
        "ftp://x",
    ],
)
def test_keys_come_by_tls_or_from_this_machine(url: str) -> None:
    with pytest.raises(ValueError, match="gateway_jwks_url"):
        gateway_settings(gateway_jwks_url=url)
    for good in ("https://issuer.example.com/keys", "http://localhost:8080/keys", "http://[::1]/keys"):
        assert gateway_settings(gateway_jwks_url=good).gateway_jwks_url == good


def test_networks_within_others() -> None:
    assert networks(["10.0.0.0/8", " 2001:db8::1 "]) == ("10.0.0.0/8", "2001:db8::1/128")
    for wrong in ("10.0.0.1/8", "example.com", ""):
        with pytest.raises(ValueError, match=wrong or "''"):
            networks([wrong])
    assert is_within(["10.1.2.3", "10.2.0.0/16"], ["10.0.0.0/8"])
    assert is_within(["127.0.0.1"], [])
    assert not is_within(["10.1.2.3", "11.0.0.1"], ["10.0.0.0/8"])
    assert not is_within(["::1"], ["127.0.0.0/8"])
