"""What programs are told, so that their calls of models go through a proxy on this machine."""

import json
import re
from pathlib import Path

import pytest

from pipeline.cli.programs.addresses import CHATGPT, PRELOAD, agent_of, arguments, environment, through

PROXY = "http://127.0.0.1:4000/token"
OPEN = "http://127.0.0.1:4000/-"  # the token comes in a header
HEADER = '"Turnmill-Run-Token"="TURNMILL_RUN_TOKEN"'


def test_addresses_lead_through_the_proxy_to_where_they_led() -> None:
    given = {"OPENAI_BASE_URL": "http://10.0.0.1:8000/v1", "ANTHROPIC_BASE_URL": "", "NO_PROXY": "internal", "A": "b"}
    found = environment(given, PROXY, {})
    assert found["OPENAI_BASE_URL"] == f"{PROXY}/http/10.0.0.1:8000/v1"
    assert found["ANTHROPIC_BASE_URL"] == f"{PROXY}/https/api.anthropic.com"
    assert found["GOOGLE_GEMINI_BASE_URL"] == f"{PROXY}/https/generativelanguage.googleapis.com"
    assert found["TURNMILL_RUN_TOKEN"] == "token"
    assert (found["NO_PROXY"], found["no_proxy"], found["A"]) == ("internal,127.0.0.1", "127.0.0.1", "b")


@pytest.mark.parametrize("address", ["http://gateway:8080/proxy/openai/v1", "unix:///run/model", "nonsense"])
def test_an_address_that_publishes_by_itself_or_is_none_stays(address: str) -> None:
    assert environment({"OPENAI_BASE_URL": address}, PROXY, {})["OPENAI_BASE_URL"] == address


def test_node_is_told_the_hosts_and_keeps_its_options() -> None:
    found = environment({"NODE_OPTIONS": "--no-warnings"}, PROXY, {"llm.internal:8000": "vllm"})
    assert found["NODE_OPTIONS"].startswith("--no-warnings --require ")
    assert found["NODE_OPTIONS"].strip('"').endswith(PRELOAD.name)
    assert PRELOAD.exists()
    hosts = re.compile(found["TURNMILL_RUN_HOSTS"])
    for host in ("api.openai.com", "eu.api.openai.com", "mine.openai.azure.com", "llm.internal:8000"):
        assert hosts.fullmatch(host)
    assert not hosts.search("api.openai.com.example.com")


@pytest.mark.parametrize(
    ("command", "agent"),
    [
        (["node", "--import", "./x.mjs", "agent.mjs"], "x"),
        (["/usr/bin/node", "--no-warnings", "src/weather.ts", "more.js"], "weather"),
        (["node"], "node"),
        (["claude", "-p", "read a.js"], "claude"),
    ],
)
def test_the_agent_is_the_script_or_the_program(command: list[str], agent: str) -> None:
    assert agent_of(command) == agent


def codex(home: Path, **variables: str) -> list[str]:
    return arguments(["codex", "exec", "hello"], {"CODEX_HOME": str(home), **variables}, PROXY)


def test_codex_is_told_by_its_options(tmp_path: Path) -> None:
    found = codex(tmp_path, OPENAI_API_KEY="sk")
    assert (found[0], found[-2:]) == ("codex", ["exec", "hello"])
    assert f'model_providers.turnmill.base_url="{OPEN}/https/api.openai.com/v1"' in found
    assert f"model_providers.turnmill.env_http_headers={{{HEADER}}}" in found
    assert "token" not in " ".join(found).replace("TOKEN", "").replace("Token", ""), "other users read command lines"
    assert 'model_providers.turnmill.env_key="OPENAI_API_KEY"' in found
    assert arguments(["/usr/bin/other", "exec"], {}, PROXY) == ["/usr/bin/other", "exec"]


def test_codex_with_a_login_of_chatgpt_goes_where_it_went(tmp_path: Path) -> None:
    (tmp_path / "auth.json").write_text(json.dumps({"tokens": {"access_token": "x"}, "OPENAI_API_KEY": None}))
    found = codex(tmp_path)
    assert f'model_providers.turnmill.base_url="{through(OPEN, CHATGPT)}"' in found
    assert "model_providers.turnmill.requires_openai_auth=true" in found


def test_a_provider_of_its_own_stays_codexs(tmp_path: Path) -> None:
    settings = 'model_provider = "{}"\n[model_providers.mine]\nbase_url = "{}"\n'
    (tmp_path / "config.toml").write_text(settings.format("mine", "http://llm:1/v1"))
    own = '[model_providers.mine.env_http_headers]\n"X-Team" = "TEAM"\n'
    (tmp_path / "config.toml").write_text(settings.format("mine", "http://llm:1/v1") + own)
    assert codex(tmp_path)[1:5] == [
        *("-c", f'model_providers.mine.base_url="{OPEN}/http/llm:1/v1"'),
        *("-c", f'model_providers.mine.env_http_headers={{"X-Team"="TEAM", {HEADER}}}'),
    ]
    (tmp_path / "config.toml").write_text(settings.format("mine", "http://gateway:8080/proxy/openai/v1"))
    assert codex(tmp_path) == ["codex", "exec", "hello"]
    (tmp_path / "config.toml").write_text('model_provider = "ollama"')
    assert codex(tmp_path) == ["codex", "exec", "hello"]
    (tmp_path / "config.toml").write_text("not = [toml")
    (tmp_path / "auth.json").write_text("[")
    assert "turnmill" in codex(tmp_path)[2]
