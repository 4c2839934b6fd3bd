"""What the documentation tells people to type exists: commands, their options, settings, metrics, alerts."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from pipeline.__main__ import cli
from pipeline.observability import metrics
from pipeline.settings import Settings
from turnmill.settings import PREFIX

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md"])
COMMAND = re.compile(r"(?<![\w./-])turnmill((?: +(?!\\$)[^ `|;&#>\n]+)+)")
HELM = re.compile(r"\bhelm [^\n|;&]*")  # where `turnmill` is a release
VARIABLE = re.compile(rf"\b({PREFIX}[A-Z0-9_]*[A-Z0-9])\b(?!_)")
METRIC = re.compile(r"`((?:turnmill|gen_ai)_[a-z_]+)`")


def commands(text: str) -> Iterator[list[str]]:
    """The words behind `turnmill`, in code and in blocks of code; continued lines are one."""
    text = text.replace("\\\n", " ")
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`([^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    for piece in [*blocks, *spans]:
        for found in COMMAND.finditer(HELM.sub("", piece)):
            yield found[1].split()


def unknown(words: list[str]) -> str | None:
    """What of a command line there is not; behind `--` are the words of another program."""
    words = words[: words.index("--")] if "--" in words else words
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name, *words = words
        inner = command.get_command(context, name)
        if inner is None:
            return name if re.fullmatch(r"[a-z]+", name) else None
        command = inner
    known = {option for parameter in command.params for option in parameter.opts} | {"--help", "-h", "--version"}
    return next((word for word in words if re.fullmatch(r"--[a-z-]+", word) and word not in known), None)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options(page: Path) -> None:
    found = list(commands(page.read_text(encoding="utf-8")))
    assert [(words, what) for words in found if (what := unknown(words))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_variables_and_metrics(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    names = {PREFIX + name.upper() for name in Settings.model_fields}
    assert [name for name in VARIABLE.findall(text) if name not in names] == []
    counted = {row[0] for row in metrics.table()}
    assert [name for name in METRIC.findall(text) if name not in counted] == []


def test_what_is_not_is_found() -> None:
    assert [unknown(words) for words in commands("`turnmill topics shrink`")] == ["shrink"]
    assert [unknown(words) for words in commands("```sh\nturnmill replay \\\n  --from 2h\n```\n")] == ["--from"]
    assert len(list(commands((ROOT / "docs" / "operations" / "runbooks.md").read_text(encoding="utf-8")))) > 10
