"""Webhooks as values: their settings, their signatures, and where they may lead."""

import base64
import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks import Webhook as Verifier
from standardwebhooks import WebhookVerificationError

from pipeline.policies.webhooks import (
    FORMS,
    MAX_SLACK_CHARACTERS,
    SLACK,
    STANDARD,
    Event,
    body,
    checked_events,
    checked_url,
    networks,
    parse,
    reachable,
    secret_of,
    signature,
)
from pipeline.settings import load
from turnmill.errors import CallerError

SECRETS = [secret_of(bytes([n]) * 32) for n in range(2)]
ONE = {"name": "crm", "url": "https://crm.example.com/hook?key=hidden", "secret": SECRETS[0]}


def test_receivers_verify_what_we_sign_also_while_a_secret_changes() -> None:
    content, now = b'{"type":"turn.completed","data":{"text":"\xc3\xa9"}}', int(time.time())
    signed = signature(SECRETS, "turn_1", now, content)
    headers = {"webhook-id": "turn_1", "webhook-timestamp": str(now), "webhook-signature": signed}
    for secret in SECRETS:
        assert Verifier(secret).verify(content, headers)["type"] == "turn.completed"
    wrong = [
        (Verifier(secret_of(b"x" * 32)), headers, content),
        (Verifier(SECRETS[0]), headers, content + b" "),
        (Verifier(SECRETS[0]), headers | {"webhook-id": "turn_2"}, content),
        (Verifier(SECRETS[0]), headers | {"webhook-timestamp": str(now - 3600)}, content),
    ]
    for verifier, given, sent in wrong:
        with pytest.raises(WebhookVerificationError):
            verifier.verify(sent, given)
    at = datetime.fromtimestamp(now, UTC)
    assert Verifier(SECRETS[0]).sign("turn_1", at, content.decode()) == signed.split(" ")[0]


def test_a_list_of_webhooks() -> None:
    found = parse(json.dumps([ONE, {**ONE, "name": "b", "tenant": "", "events": ["thread.deleted"]}]))
    assert [one.id for one in found] == ["setting:crm", "setting:b"]
    deleted = Event("n", "thread.deleted", None, "l", 0, b"", ("t", 0, 0))
    of_acme = Event("n", "turn.completed", "acme", "l", 0, b"", ("t", 0, 0))
    assert [one.hears(deleted) for one in found] == [True, True]
    assert [one.hears(of_acme) for one in found] == [True, False]
    assert "hidden" not in repr(found)
    assert SECRETS[0] not in repr(found)


@pytest.mark.parametrize(
    "rows",
    [
        {},
        [1],
        [{**ONE, "name": "a b"}],
        [{**ONE, "url": None}],
        [{**ONE, "url": "ftp://crm.example.com"}],
        [{**ONE, "url": "https://user:word@crm.example.com"}],
        [{**ONE, "url": "https://crm.example.com:0/"}],
        [{**ONE, "secret": "whsec_" + base64.b64encode(b"short").decode()}],
        [{**ONE, "secret": "hush-hush"}],
        [{**ONE, "secrets": SECRETS * 2}],
        [{**ONE, "events": ["turn.begun"]}],
        [{**ONE, "events": []}],
        [{**ONE, "tenant": 1}],
        [{**ONE, "extra": 1}],
        [{**ONE, "form": "teams"}],
        [{"name": "open", "url": ONE["url"]}],
        [ONE, ONE],
    ],
)
def test_what_is_wrong_is_said_without_the_secret(rows: Any) -> None:
    with pytest.raises(CallerError) as error:
        load({"TURNMILL_WEBHOOKS": json.dumps(rows) if rows else "{"})
    text = str(error.value)
    assert text.startswith("TURNMILL_WEBHOOKS: ")
    assert not [secret for secret in (SECRETS[0], "hush-hush", "hidden", "word@") if secret in text]


def test_a_file_of_webhooks(tmp_path: Any) -> None:
    (tmp_path / "webhooks.json").write_text(json.dumps([ONE]))
    assert load({"TURNMILL_WEBHOOKS": str(tmp_path / "webhooks.json")}).webhook_list[0].host == "crm.example.com"
    assert load({}).webhook_list == ()


def test_a_message_to_slack_is_a_line_that_calls_nobody() -> None:
    [hook] = parse(json.dumps([{"name": "team", "url": "https://hooks.slack.com/services/x", "form": "slack"}]))
    assert hook.secrets == (), "its address is the secret"
    data = {
        "alert": "costs",
        "above": 20,
        "value": 23.5,
        "of": {"user": "<!channel> & co"},
        "turn": {"a": 1},
        "b": None,
    }
    sent = json.loads(FORMS[hook.form](body("alert.started", "2026-01-20T10:00:00Z", data)))
    assert sent == {"text": "alert.started: alert costs, above 20, value 23.5, user &lt;!channel&gt; &amp; co"}
    long = json.loads(FORMS[SLACK](body("feedback.given", "2026-01-20T10:00:00Z", {"comment": "<" * 10_000})))
    assert len(long["text"].replace("&lt;", "<")) == MAX_SLACK_CHARACTERS
    standard = body("alert.started", "2026-01-20T10:00:00Z", data)
    assert FORMS[STANDARD](standard) == standard


def test_urls_and_events() -> None:
    assert checked_url("https://[2606:4700::1111]:8443/a?b=c")
    for url in (
        "https://",
        "//x",
        "https://x/#a",
        "https://x/\n",
        "https://x/é",
        "https://x:99999/",
        "https://x/" + "a" * 2000,
    ):
        with pytest.raises(ValueError, match=r"expected|no place"):
            checked_url(url)
    assert checked_events(None) == (
        "turn.completed",
        "turn.interrupted",
        "thread.deleted",
        "budget.reached",
        "command.unanswered",
        "feedback.given",
        "clock.ahead",
        "alert.started",
        "alert.ended",
    )


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.100.100.200",
        "192.0.2.1",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "::7f00:1",
        "2001:0:0:0:0:0:80ff:fffe",
        "2001:db8::1",
        "fec0::1",
        "feff::1",
        "fe80::5efe:10.0.0.1",
        "2606:4700::5efe:10.0.0.1",
        "2606:4700::200:5efe:127.0.0.1",
        "64:ff9b:1::10.0.0.1",
        "2002:a9fe:a9fe::1",
        "no address",
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not reachable(address, "https", ())


def test_public_addresses_by_tls_and_exceptions() -> None:
    for address in (
        "93.184.216.34",
        "2606:4700:4700::1111",
        "::ffff:93.184.216.34",
        "64:ff9b::5db8:d822",
        "2606:4700::5efe:93.184.216.34",
    ):
        assert reachable(address, "https", ())
        assert not reachable(address, "http", ())
    allowed = networks("10.1.0.0/16, ::1")
    assert reachable("10.1.2.3", "http", allowed)
    assert reachable("::ffff:10.1.2.3", "http", allowed)
    assert reachable("::1", "https", allowed)
    assert not reachable("10.2.0.1", "https", allowed)
    with pytest.raises(CallerError, match="TURNMILL_WEBHOOKS_ALLOW"):
        load({"TURNMILL_WEBHOOKS_ALLOW": "10.0.0.1/8"})
