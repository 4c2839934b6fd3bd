"""Settings of signing in: which are taken, and what the others are told, without a secret."""

import json
from typing import Any

import pytest
from pydantic import SecretStr

from pipeline.policies.sign_in import address, providers, rules

RULE: dict[str, Any] = {"role": "viewer", "claim": "groups", "value": "a", "tenant": "acme"}
PROVIDER = {"name": "a", "issuer": "https://a.example/", "client_id": "x", "client_secret": "hidden"}


def test_one_provider_and_several() -> None:
    [one] = providers("https://idp.example", "x", SecretStr("y"))
    assert (one.name, one.issuer, one.client_id) == ("provider", "https://idp.example", "x")
    both = providers(json.dumps([PROVIDER, {**PROVIDER, "name": "b", "title": "B"}]), None, None)
    assert [(one.name, one.title) for one in both] == [("a", "your organisation"), ("b", "B")]
    assert both[0].issuer == "https://a.example/", "an issuer is compared as it is written"
    assert "hidden" not in repr(both)


@pytest.mark.parametrize(
    "wrong",
    [
        "[]",
        "[1]",
        json.dumps([PROVIDER, PROVIDER]),
        json.dumps([{**PROVIDER, "issuer": "http://a.example"}]),
        json.dumps([{**PROVIDER, "name": "A/b"}]),
        json.dumps([{**PROVIDER, "client_secret": ""}]),
        json.dumps([{**PROVIDER, "secret": "hidden"}]),
        "https://idp.example",  # without a client
    ],
)
def test_a_provider_that_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        providers(wrong, None, None)
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    "changed", [{"role": "admin"}, {"claim": ""}, {"tenant": None}, {"tenant_claim": "org"}, {"group": "x"}]
)
def test_a_rule_that_is_refused(changed: dict[str, Any]) -> None:
    assert len(rules(json.dumps([RULE]))) == 1
    with pytest.raises(ValueError, match=r"0|rule 1"):
        rules(json.dumps([RULE | changed]))


def test_a_rule_in_words() -> None:
    [one] = rules(json.dumps([{"role": "editor", "claim": "hd", "tenant": "*", "provider": "google"}]))
    assert one.text == "editor of all tenants where hd is there, from google"


@pytest.mark.parametrize("url", ["https://a.example/x/", "http://127.0.0.1:8080", "http://localhost"])
def test_an_address(url: str) -> None:
    assert address(url) == url.rstrip("/")


@pytest.mark.parametrize("url", ["", "a.example", "http://a.example", "https://u:p@a.example", "https://a.example?x=1"])
def test_an_address_that_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="https://host/path"):
        address(url)
