"""What Kafka clients are made with: every combination of settings that makes none, and the files behind them."""

import ssl
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import AuthenticationFailedError

from pipeline.settings import load
from tests.support.certificates import Authority
from tests.support.token_endpoint import CLIENT, SECRET, token_endpoint
from turnmill.errors import CallerError
from turnmill.kafka.client import ClientCredentials, TokenFile, client_options

TLS = {"security_protocol": "SSL"}
SASL = {"security_protocol": "SASL_SSL"}
PLAIN = {**SASL, "sasl_mechanism": "PLAIN", "sasl_username": "alice", "sasl_password": "s3cret"}
BEARER = {**SASL, "sasl_mechanism": "OAUTHBEARER"}
URL = {"oauth_token_url": "https://idp/token", "oauth_client_id": "me", "oauth_client_secret": "s3cret"}


def options(**given: Any) -> dict[str, Any]:
    return client_options(load({}, **given))


def test_the_default_is_plaintext() -> None:
    found = options(brokers="a:1,b:2")
    assert (found["bootstrap_servers"], found["security_protocol"]) == (["a:1", "b:2"], "PLAINTEXT")
    assert found["ssl_context"] is found["sasl_plain_username"] is found["sasl_oauth_token_provider"] is None


def test_tls_checks_names_and_is_not_old() -> None:
    tls = options(**TLS)["ssl_context"]
    assert (tls.check_hostname, tls.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert tls.minimum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (SASL, "TURNMILL_SECURITY_PROTOCOL=SASL_SSL needs TURNMILL_SASL_MECHANISM"),
        ({**PLAIN, "sasl_username": None}, "TURNMILL_SASL_MECHANISM=PLAIN needs TURNMILL_SASL_USERNAME"),
        ({**PLAIN, "sasl_password": None}, "needs TURNMILL_SASL_PASSWORD or TURNMILL_SASL_PASSWORD_FILE"),
        ({**PLAIN, "sasl_password_file": "x"}, "TURNMILL_SASL_PASSWORD_FILE are both set: unset one"),
        (BEARER, "needs TURNMILL_OAUTH_TOKEN_FILE or TURNMILL_OAUTH_TOKEN_URL"),
        ({**BEARER, **URL, "oauth_token_file": "x"}, "TURNMILL_OAUTH_TOKEN_URL are both set"),
        ({**BEARER, **URL, "oauth_client_id": None}, "TURNMILL_OAUTH_TOKEN_URL needs TURNMILL_OAUTH_CLIENT_ID"),
        ({**BEARER, **URL, "oauth_client_secret": None}, "needs TURNMILL_OAUTH_CLIENT_SECRET or"),
        ({**BEARER, **URL, "sasl_password": "x"}, "TURNMILL_SASL_PASSWORD is set and would not be used"),
        ({**TLS, "ssl_key_file": "x"}, "TURNMILL_SSL_KEY_FILE needs TURNMILL_SSL_CERTIFICATE_FILE"),
        ({"ssl_ca_file": "x"}, "TURNMILL_SSL_CA_FILE is set and would not be used, as it is for TLS"),
        ({"sasl_mechanism": "PLAIN"}, "TURNMILL_SASL_MECHANISM is set and would not be used, as it is for SASL"),
        ({**PLAIN, **URL}, "TURNMILL_OAUTH_TOKEN_URL is set and would not be used, as it is for OAUTHBEARER"),
        ({**BEARER, "oauth_token_file": "x", "oauth_scope": "y"}, "TURNMILL_OAUTH_SCOPE is set and would not"),
        ({**TLS, "ssl_ca_file": "/no/such"}, "TURNMILL_SSL_CA_FILE: /no/such can't be used (No such file"),
        ({**TLS, "ssl_certificate_file": "/no/such"}, "TURNMILL_SSL_CERTIFICATE_FILE: /no/such or /no/such is not"),
        ({**PLAIN, "sasl_password": None, "sasl_password_file": "/no/such"}, "TURNMILL_SASL_PASSWORD_FILE: /no/such"),
    ],
)
def test_what_does_not_go_together_is_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(CallerError) as caught:
        options(**given)
    assert words in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("value", ["idp/token", "ftp://idp/token", "https://me:s3cret@idp/token", "https://"])
def test_an_address_of_tokens_that_is_none(value: str) -> None:
    with pytest.raises(CallerError) as caught:
        load({"TURNMILL_OAUTH_TOKEN_URL": value})
    assert "TURNMILL_OAUTH_TOKEN_URL: https://host/path is expected" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_secrets_come_from_files(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(" with spaces \n")
    given = {**PLAIN, "sasl_password": None, "sasl_password_file": file}
    assert options(**given)["sasl_plain_password"] == " with spaces "
    file.write_text("\n")
    with pytest.raises(CallerError, match="is empty"):
        options(**given)


def test_certificates_that_can_not_be_used(tmp_path: Path) -> None:
    locked = Authority.make(tmp_path).sign("client", password="open sesame")
    assert options(**TLS, ssl_certificate_file=locked, ssl_key_password="open sesame")["ssl_context"]
    for given in ({}, {"ssl_key_password": "guess"}):
        with pytest.raises(CallerError, match="TURNMILL_SSL_KEY_PASSWORD if that is encrypted"):
            options(**TLS, ssl_certificate_file=locked, **given)
    rubbish = tmp_path / "rubbish.pem"
    rubbish.write_text("rubbish")
    with pytest.raises(CallerError, match="TURNMILL_SSL_CA_FILE"):
        options(**TLS, ssl_ca_file=rubbish)


async def test_a_token_file_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "token"
    provider = options(**BEARER, oauth_token_file=file)["sasl_oauth_token_provider"]
    with pytest.raises(AuthenticationFailedError, match="can't be read"):
        await provider.token()
    for token in ("one", "two"):
        file.write_text(f"{token}\n")
        assert await provider.token() == token
    file.write_text("")
    with pytest.raises(AuthenticationFailedError, match="is empty"):
        TokenFile(file)()


@pytest.mark.parametrize(("life", "asked"), [(3600.0, 1), (0.0, 3)])
def test_a_token_serves_until_it_is_old(life: float, asked: int) -> None:
    with token_endpoint(lambda: "token", life) as endpoint:
        source = ClientCredentials(endpoint.url, CLIENT, SECRET, None, None)
        assert [source() for _ in range(3)] == ["token"] * 3
        assert endpoint.given == asked
        assert SECRET not in repr(source)


def test_an_endpoint_that_gives_no_token() -> None:
    with token_endpoint(lambda: "", 60) as endpoint:
        for secret, words in ((SECRET, "without an access_token"), ("guess", "answers 401")):
            with pytest.raises(AuthenticationFailedError, match=words):
                ClientCredentials(endpoint.url, CLIENT, secret, None, None)()
    with pytest.raises(AuthenticationFailedError, match="gives no token: "):
        ClientCredentials(endpoint.url, CLIENT, SECRET, None, None)()


def test_a_secret_is_not_taken_elsewhere() -> None:
    with token_endpoint(lambda: "token", 60) as elsewhere, token_endpoint(lambda: "", 60, elsewhere.url) as endpoint:
        with pytest.raises(AuthenticationFailedError, match="answers 302"):
            ClientCredentials(endpoint.url, CLIENT, SECRET, None, None)()
        assert (endpoint.given, elsewhere.given) == (0, 0)
