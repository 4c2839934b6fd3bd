"""Which requests are taken for calls of a model."""

from typing import Any

import pytest

from turnmill.capture.providers import Known, Providers, asks_a_model, named_in
from turnmill.settings import more_hosts


def sure(known: Known | None) -> Known | None:
    """A request to the host of a provider; of others, the body says what it is."""
    return known if known is not None and known.sure else None


@pytest.mark.parametrize(
    ("host", "path", "known"),
    [
        ("api.openai.com", "/v1/responses", ("openai", "openai-responses")),
        ("api.openai.com", "/v1/chat/completions", ("openai", "openai-chat")),
        ("eu.api.openai.com", "/v1/chat/completions", ("openai", "openai-chat")),
        ("me.openai.azure.com", "/openai/deployments/gpt-5/chat/completions", ("azure", "openai-chat")),
        ("me.openai.azure.com", "/openai/v1/responses", ("azure", "openai-responses")),
        ("me.services.ai.azure.com", "/anthropic/v1/messages", ("azure", "anthropic")),
        ("api.anthropic.com", "/v1/messages", ("anthropic", "anthropic")),
        ("generativelanguage.googleapis.com", "/v1beta/models/gemini-3:generateContent", ("google", "gemini")),
        ("generativelanguage.googleapis.com", "/v1beta/openai/chat/completions", ("google", "openai-chat")),
        (
            "us-east5-aiplatform.googleapis.com",
            "/v1/projects/p/locations/us/publishers/google/models/gemini-3:streamGenerateContent",
            ("google", "gemini"),
        ),
        (
            "us-east5-aiplatform.googleapis.com",
            "/v1/projects/p/locations/us/publishers/anthropic/models/claude:streamRawPredict",
            ("google", "anthropic"),
        ),
        ("API.Mistral.ai", "/v1/chat/completions", ("mistral", "openai-chat")),
        ("api.groq.com", "/openai/v1/chat/completions", ("groq", "openai-chat")),
        ("openrouter.ai", "/api/v1/chat/completions", ("openrouter", "openai-chat")),
        ("bedrock-runtime.eu-central-1.amazonaws.com", "/model/amazon.nova-pro-v1:0/converse", ("bedrock", "bedrock")),
        ("bedrock-runtime.us-east-1.amazonaws.com", "/model/m-v1%3A0/converse-stream", ("bedrock", "bedrock")),
        ("bedrock-runtime.us-east-1.amazonaws.com", "/model/anthropic.c/invoke", ("bedrock", "bedrock")),
        (
            "bedrock-runtime-fips.us-east-1.amazonaws.com",
            "/model/us.anthropic.claude-v1:0/invoke-with-response-stream",
            ("bedrock", "bedrock"),
        ),
        ("bedrock-runtime.us-west-2.amazonaws.com", "/openai/v1/chat/completions", ("bedrock", "openai-chat")),
        ("bedrock-runtime.us-east-1.amazonaws.com", "/model/meta.llama3-v1:0/invoke", None),
        ("bedrock-runtime.us-east-1.amazonaws.com", "/guardrail/g/version/1/apply", None),
        ("bedrock.us-east-1.amazonaws.com", "/model/m/converse", None),
        ("api.cohere.com", "/v2/chat", ("cohere", "cohere")),
        ("api.cohere.com", "/v2/embed", None),
        ("api.mistral.ai", "/v1/conversations", ("mistral", "mistral")),
        ("api.mistral.ai", "/v1/conversations/conv_1", ("mistral", "mistral")),
        ("api.mistral.ai", "/v1/conversations/conv_1/restart", ("mistral", "mistral")),
        ("api.mistral.ai", "/v1/conversations/conv_1/history", None),
        ("generativelanguage.googleapis.com", "/v1beta/interactions", ("google", "gemini-interactions")),
        ("generativelanguage.googleapis.com", "/v1beta/interactions/int_1/cancel", None),
        ("ollama.com", "/api/chat", ("ollama", "ollama")),
        ("ollama.com", "/api/embed", None),
        ("api.openai.com", "/v1/embeddings", None),
        ("api.openai.com", "/v1/responses/resp_1/input_items", None),
        ("api.openai.com", "/v1/threads/t/messages", None),
        ("api.anthropic.com", "/v1/messages/count_tokens", None),
        ("api.anthropic.com", "/v1/messages/batches", None),
        ("api.openai.com.evil.example", "/v1/responses", None),
        ("evil.example", "/v1/responses", None),
        ("notapi.openai.com", "/v1/responses", None),
    ],
)
def test_hosts_and_paths(host: str, path: str, known: tuple[str, str] | None) -> None:
    providers = Providers()
    for _ in range(2):  # the second time from memory
        assert sure(providers.known("POST", host, None, path)) == (Known(*known) if known else None)
    assert providers.known("GET", host, None, path) is None


@pytest.mark.parametrize(
    ("dialect", "path", "body", "asks"),
    [
        ("openai-chat", "/v1/chat/completions", {"model": "m", "messages": []}, True),
        ("openai-responses", "/responses", {"model": "m", "input": "hi"}, True),
        ("gemini", "/v1beta/models/gemini-3:generateContent", {"contents": []}, True),
        ("ollama", "/api/generate", {"model": "m", "prompt": "hi"}, True),
        ("openai-responses", "/forms/7/responses", {"form": 7, "answers": []}, False),
        ("openai-responses", "/responses", {"model": "car", "colour": "red"}, False),
        ("openai-chat", "/v1/chat/completions", {"messages": []}, False),
        ("openai-chat", "/v1/chat/completions", [], False),
        ("openai-chat", "/v1/chat/completions", None, False),
    ],
)
def test_of_other_hosts_the_body_says_whether_a_model_is_asked(
    dialect: str, path: str, body: Any, *, asks: bool
) -> None:
    assert Providers().known("POST", "llm.corp.example", None, path) == Known("llm.corp.example", dialect, sure=False)
    assert asks_a_model(dialect, path, body) is asks


def test_a_program_on_this_machine_is_known_by_its_port() -> None:
    providers = Providers()
    for host in ("localhost", "127.0.0.1"):
        assert providers.known("POST", host, 11434, "/api/generate") == Known("ollama", "ollama")
        assert providers.known("POST", host, 11434, "/v1/chat/completions") == Known("ollama", "openai-chat")
        assert providers.known("POST", host, 8000, "/api/chat") == Known(host, "ollama", sure=False)


def test_more_hosts() -> None:
    providers = Providers(more_hosts("127.0.0.1:8000, llm.internal=vllm"))
    assert providers.known("POST", "127.0.0.1", 8000, "/v1/responses") == Known("127.0.0.1", "openai-responses")
    assert providers.known("post", "llm.internal", 9, "/x/v1/messages") == Known("vllm", "anthropic")
    assert sure(providers.known("POST", "127.0.0.1", 8001, "/v1/responses")) is None
    assert more_hosts("") == {}


@pytest.mark.parametrize("wrong", ["https://llm.internal", "host:port", "a b", "=openai"])
def test_wrong_hosts(wrong: str) -> None:
    with pytest.raises(ValueError, match="a host is expected"):
        more_hosts(wrong)


def test_what_is_in_paths() -> None:
    assert named_in("/openai/deployments/my-gpt/chat/completions") == {"model": "my-gpt"}
    assert named_in("/v1beta/models/gemini-3-pro:generateContent") == {"model": "gemini-3-pro"}
    model, profile = "us.amazon.nova-pro-v1:0", "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.claude"
    assert named_in(f"/model/{model}/invoke") == {"modelId": model}
    assert named_in(f"/model/{profile}/converse-stream") == {"modelId": profile}
    assert named_in("/v1/conversations/conv_1/restart") == {"conversation_id": "conv_1"}
    assert named_in("/v1/conversations") == named_in("/v1/chat/completions") == {}


def test_what_is_remembered_of_hosts_is_bounded() -> None:
    providers = Providers()
    for number in range(20_001):
        assert providers.known("POST", f"{number}.example", None, "/v1/files") is None
    assert len(providers._by_host) <= 10_001
