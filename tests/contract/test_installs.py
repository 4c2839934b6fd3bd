"""What the documents tell people to install is ours to give, or a package that we name on purpose."""

import re
from pathlib import Path

import pytest

from tests.contract.test_docs import PAGES, ROOT, generate

DOCUMENTS = sorted({*PAGES, *ROOT.glob("helm/**/*.md*"), *ROOT.glob("examples/**/*.md"), ROOT / "compose.yaml"})
COMMAND = re.compile(
    r"(?:\bpip install|\bpipx install|\buv add|\buv tool install|\buvx --from|\bnpm install|\bnpx|\bapt-get install"
    r"|\bdocker pull|\bhelm repo add) +([^\n`|;&#]+)"
)
OPTION_VALUES = re.compile(r"-\S+")
# Packages of others, by the names that they have on the registries of Python, npm and Debian.
OF_OTHERS = {
    "@ai-sdk/openai",
    "@mastra/core",
    "ai",
    "anthropic",
    "boto3",
    "claude-agent-sdk",
    "fastapi",
    "google-adk",
    "google-genai",
    "langchain-openai",
    "langgraph",
    "mistralai",
    "ollama",
    "openai",
    "openai-agents",
    "pydantic-ai",
    "pydantic-ai-slim",
    "strands-agents",
    "uvicorn",
}


def installed(text: str) -> set[str]:
    """Return the names of the packages that a document installs, without extras; a path stays a path."""
    names: set[str] = set()
    for found in COMMAND.finditer(text):
        words = [word.strip("'\"") for word in found[1].split()]
        if "--from" in found[0]:
            words = words[:1]  # behind it stands the command
        names |= {re.sub(r"\[.*", "", word).rstrip(".,:") for word in words if not OPTION_VALUES.match(word)}
    return names - {""}


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_documents_install_only_what_is_ours_or_named_on_purpose(page: Path) -> None:
    assert installed(page.read_text(encoding="utf-8")) <= OF_OTHERS | {generate.SOURCE, generate.SERVER}


def test_a_name_that_is_not_ours_is_found() -> None:
    assert installed("`pip install 'turnmill[demo]' openai` and\nnpm install turnmill-client # soon") == {
        "turnmill",
        "openai",
        "turnmill-client",
    }
    assert installed("uvx --from './turnmill[demo]' turnmill demo") == {"./turnmill"}


@pytest.mark.parametrize("released", [True, False])
@pytest.mark.parametrize(("old", "beside"), [("turnmill", ""), ("./turnmill", " ./turnmill/pipeline")])
def test_all_install_commands_follow_one_place(
    *, released: bool, old: str, beside: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def text(source: str, server: str) -> str:
        return (
            f"pip install '{source}[worker,gateway]'{server} openai\n`pip install {source}`, "
            f"`pip install '{source}[http]'` and\n"
            f"uvx --from '{source}[demo]' turnmill demo"
        )

    monkeypatch.setattr(generate, "RELEASED", released)
    monkeypatch.setattr(generate, "SOURCE", "turnmill" if released else "./turnmill")
    as_now = generate.generated(text(old, beside))
    assert as_now == text(*(("turnmill", "") if released else ("./turnmill", " ./turnmill/pipeline")))


def test_pages_for_a_start_say_where_from() -> None:
    for page in ("README.md", "docs/installing.md", "docs/start/README.md"):
        assert generate.install_note() in (ROOT / page).read_text(encoding="utf-8")
