"""Credentials of headers, addresses and settings, and what is published without them."""

import base64
import json
from typing import Any

import pytest

from turnmill.capture.exchange import Exchange
from turnmill.capture.secrets import credentials, hidden, masked_settings, without_addresses, without_secrets

KEY = "s3cret/of+mine=="
QUOTED = "s3cret%2Fof%2Bmine%3D%3D"


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {KEY}"},
        {"authorization": "Basic " + base64.b64encode(f"user:{KEY}".encode()).decode()},
        {"authorization": f"AWS4-HMAC-SHA256 Credential=AKIA/x, SignedHeaders=host, Signature={KEY}"},
        {"proxy-authorization": f"Bearer {KEY}"},
        {"x-api-key": KEY},
        {"x-goog-api-key": KEY},
        {"api-key": KEY},
        {"cookie": f"session={KEY}; theme=dark"},
        hidden(f"alt=sse&key={QUOTED}"),
        hidden(f"X-Amz-Signature={QUOTED}"),
        hidden(f"subscription-key={QUOTED}"),
        hidden("", None, KEY),
    ],
)
@pytest.mark.parametrize("form", [KEY, QUOTED])
def test_a_credential_that_is_repeated(headers: dict[str, str], form: str) -> None:
    assert without_secrets(f"no: {form}!", credentials(headers)) == "no: ***!"


def test_a_quote_in_a_credential() -> None:
    found = credentials({"x-api-key": 'a"secret"key'})
    assert without_secrets(json.dumps({"no": 'a"secret"key'}), found) == '{"no": "***"}'


def test_the_longest_goes_first() -> None:
    assert without_secrets("longer-key-1", {"longer-key", "longer-key-1"}) == "***"


def test_what_is_no_credential() -> None:
    headers = {"user-agent": "a-program/1.0", "authorization": "Bearer EMPTY", **hidden("api-version=2025-01-01")}
    assert not credentials(headers) & {"a-program/1.0", "EMPTY", "2025-01-01"}
    assert without_secrets("EMPTY a-program/1.0 2025-01-01", credentials(headers)) == "EMPTY a-program/1.0 2025-01-01"


def test_addresses_in_a_text() -> None:
    text = "ConnectError: 'https://me:word@api.example/v1?key=1' of me@example.com"
    assert without_addresses(text) == "ConnectError: 'https://api.example/v1' of me@example.com"


MCP = {"type": "mcp", "server_url": f"https://u:{QUOTED}@mcp.example/sse?token={QUOTED}"}
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("openai-responses", {"tools": [{**MCP, "authorization": KEY, "headers": {"X-Any": KEY}}]}),
    ("openai-responses", {"tools": [{"type": "shell", "environment": {"domain_secrets": [{"value": KEY}]}}]}),
    ("anthropic", {"mcp_servers": [{"type": "url", "url": MCP["server_url"], "authorization_token": KEY}]}),
    (
        "openai-chat",
        {"data_sources": [{"type": "azure_search", "parameters": {"authentication": {"type": "api_key", "key": KEY}}}]},
    ),
    ("openai-chat", {"data_sources": [{"type": "mongo_db", "parameters": {"connection_string": KEY}}]}),
    ("gemini", {"tools": [{"mcpServers": [{"streamableHttpTransport": {"headers": {"Authorization": KEY}}}]}]}),
    # Servers of tools as programs, and every other name that SDKs give credentials.
    ("anthropic", {"mcp_servers": [{"type": "stdio", "command": "npx", "env": {"ANY": KEY}}]}),
    ("openai-responses", {"tools": [{"type": "mcp", "http_headers": [{"name": "X-Any", "value": KEY}]}]}),
    ("openai-responses", {"tools": [{"type": "mcp", "headers": KEY}]}),
    ("openai-chat", {"extra_headers": {"X-Any": KEY}}),
    ("gemini", {"tools": [{"googleMaps": {"authConfig": {"oauthConfig": {"accessToken": KEY}}}}]}),
    ("gemini", {"tools": [{"mcpServers": [{"sseTransport": {"url": f"https://a/sse?X-Goog-Signature={QUOTED}"}}]}]}),
    ("openai-chat", {"vector_store": {"index_url": f"https://a.blob.core/x?sv=1&sig={QUOTED}"}}),
    ("openai-chat", {"store": {"uri": f"postgresql://me:{QUOTED}@db/x"}}),
    *[
        ("openai-chat", {"data_sources": [{"type": "any", "connection": {name: KEY}}]})
        for name in (
            *("api_key", "apiKey", "api-key", "x-api-key", "api_keys", "password", "passwd", "client_secret", "secret"),
            *("aws_secret_access_key", "aws_session_token", "aws_access_key_id", "accessKeyId", "private_key"),
            *("account_key", "sas_token", "admin_key", "subscription-key", "token", "id_token", "refresh_token"),
            *("bearer_token", "authToken", "credentials", "credentials_json", "connection_string", "cookie", "auth"),
        )
    ],
    ("gemini", {"tools": [{"retrieval": {"externalApi": {"apiAuth": {"apiKeyConfig": {"apiKeyString": KEY}}}}}]}),
]


@pytest.mark.parametrize(("dialect", "settings"), SETTINGS)
def test_credentials_in_settings(dialect: str, settings: dict[str, Any]) -> None:
    exchange = Exchange(dialect, settings)
    asked = json.dumps(exchange.asked())
    assert KEY not in asked
    assert QUOTED not in asked
    exchange.answered(401, {"content-type": "application/json"})
    list(exchange.data(json.dumps({"error": f"no {KEY}"}).encode()))
    events = list(exchange.finished())
    assert events[-1]["body"] == {"error": "no ***"}


SHAPED = (
    *("sk-proj-aB3dE6gH9jK2mN5pQ8sT", "sk-ant-api03-aB3dE6gH9jK2mN5p", "AIza" + "Sy_D-1" * 6, "AKIA" + "Q7Z2" * 4),
    *("ghp_" + "a1B2" * 9, "github_pat_" + "a1B2" * 9, "xoxb-123456789012-abc", "Bearer s3cretofmine"),
    *("eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl", "-----BEGIN RSA PRIVATE KEY-----\nMIIB\n"),
)


@pytest.mark.parametrize("secret", SHAPED)
def test_credentials_by_their_shape_in_arguments_of_a_tools_program(secret: str) -> None:
    body = {"mcp_servers": [{"type": "stdio", "command": "npx", "args": ["-y", "server", f"--key={secret}"]}]}
    masked, secrets = masked_settings("anthropic", body)
    assert masked["mcp_servers"][0]["args"] == ["-y", "server", "--key=***"]
    assert secret in secrets


def test_names_that_hold_no_credential() -> None:
    schema = {"type": "object", "properties": {"token": {"type": "string", "description": "the token to look for"}}}
    body = {
        "max_tokens": 9,
        "prompt_cache_key": "of this customer",
        "safety_identifier": "hashed",
        "continuationToken": "goes on",
        "stop_token_ids": [1],
        "chat_template_kwargs": {"eos_token": "</s>", "page_token": "p2"},
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}},
        "instructions": "Ask https://a.example/x?token=12345678 and sk-proj-aB3dE6gH9jK2mN5pQ8sT, says the user.",
        "tools": [{"type": "web_search", "description": "task-sk-1 of the author", "url": "https://a.example/x"}],
    }
    assert masked_settings("openai-chat", body) == (body, frozenset())
    assert masked_settings("vercel-ai", {"messages": [{"token": "said"}]})[0] == {"messages": [{"token": "said"}]}


def test_what_is_said_and_declared_stays() -> None:
    schema = {"type": "object", "properties": {"authorization": {"type": "string", "default": "none"}, "headers": {}}}
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": "my", "authorization": "said", "headers": {"a": "said too"}}],
        "metadata": {"url": "https://a/b?c", "thread_id": "t"},
        "tools": [{"type": "function", "function": {"name": "f", "parameters": schema}}],
    }
    assert masked_settings("openai-chat", body) == (body, frozenset())
    tools = [{"type": "function", "name": "f", "parameters": schema}]
    assert masked_settings("openai-responses", {"tools": tools}) == ({"tools": tools}, frozenset())
