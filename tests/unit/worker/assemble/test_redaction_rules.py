import json
import re
from pathlib import Path
from typing import Any

import pytest

from pipeline.settings import Settings
from pipeline.turns.redaction import Redaction
from pipeline.turns.text_rules import BUILT_IN, GROUPS
from pipeline.worker.assemble.limits import redaction_of
from pipeline.worker.assemble.redaction_rules import rules_of
from turnmill.errors import CallerError


def written(folder: Path, rules: Any) -> str:
    file = folder / "rules.json"
    file.write_text(rules if isinstance(rules, str) else json.dumps(rules))
    return str(file)


def redacted(redact: str, value: Any) -> Any:
    return Redaction(rules_of(redact)).value(value)


def test_off_by_default() -> None:
    assert redaction_of(Settings()) is None
    masking = redaction_of(Settings(mask_errors=True))
    assert masking is not None
    assert masking.texts == ()


def test_names_groups_and_files_together(tmp_path: Path) -> None:
    file = written(tmp_path, ["email", {"name": "order", "regex": r"ORD-(\d)\d+", "replace": r"ORD-\1…"}])
    rules = rules_of(f" secrets, aws-key ,{file},")
    assert [rule.name for rule in rules] == [*GROUPS["secrets"], "email", "order"]
    assert redacted(file, "ORD-123 of ann@example.org") == "ORD-1… of [email]"


def test_the_page_on_redaction_is_right(tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs" / "redaction.md").read_text()
    assert set(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)) == {*GROUPS, *BUILT_IN}
    [example] = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    rules = [rule for rule in json.loads(example) if "callable" not in rule]
    file = written(tmp_path, rules)
    assert [rule.name for rule in rules_of(file)] == ["email", "order", "phone", "ssn", "password"]
    assert redacted(file, "+41 79 123 45 67, ORD-123456") == "+41…, [order]"


def test_the_replacement_is_the_name_by_default(tmp_path: Path) -> None:
    assert redacted(written(tmp_path, [{"name": "order", "regex": "(?i)ord-[0-9]+"}]), "Ord-7") == "[order]"


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ("{", "not JSON"),
        ({}, "a JSON list of rules"),
        ([1], "rule 0: an object is expected"),
        (["nope"], "no built-in rule 'nope'"),
        ([{"regex": "a"}], "rule 0: it needs a name"),
        ([{"name": "a b", "regex": "a"}], "it needs a name"),
        ([{"name": "mask_errors", "regex": "a"}], "it needs a name"),
        ([{"name": "x"}], "rule 'x': it needs one of regex, path, callable; it has none"),
        ([{"name": "x", "regex": "a", "path": "$.a"}], "it has regex and path"),
        ([{"name": "x", "regex": "a", "flag": "i"}], "'flag' is unknown"),
        ([{"name": "x", "regex": 1}], "'regex' must be a string"),
        ([{"name": "x", "regex": "(a"}], "can't be used: missing"),
        ([{"name": "x", "regex": "a", "replace": r"\1"}], "can't be used: invalid group"),
        ([{"name": "x", "regex": "a*"}], "matches the empty text"),
        ([{"name": "x", "regex": "(a+)+b"}], "the same text can be read in several ways"),
        ([{"name": "x", "path": "a.b"}], "begins with"),
        ([{"name": "x", "path": "$.a[?(@.b)]"}], "can't be read from"),
        ([{"name": "x", "callable": "none-such"}], "no installed package has an entry point 'none-such'"),
        ([{"name": "x", "regex": "a"}, {"name": "x", "regex": "b"}], "two rules named 'x'"),
    ],
)
def test_a_bad_rule_is_named_and_said_why(tmp_path: Path, rules: Any, why: str) -> None:
    with pytest.raises(CallerError, match=r"TURNMILL_REDACT") as caught:
        rules_of(written(tmp_path, rules))
    assert why in str(caught.value)


def test_unknown_names_and_missing_files() -> None:
    with pytest.raises(CallerError, match="there are secrets, api-key"):
        rules_of("emails")
    with pytest.raises(CallerError, match=r"can't read .*none\.json: No such file"):
        rules_of("none.json")


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with functions in the entry point group."""
    info = tmp_path / "site" / "turnmill_test_rules-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: turnmill-test-rules\nVersion: 1.0\n")
    names = "\n".join(f"{name} = turnmill_test_rules:{name}" for name in ("shout", "fails", "number", "constant"))
    (info / "entry_points.txt").write_text(f"[turnmill.redaction]\n{names}\nmissing = turnmill_test_none:x\n")
    (tmp_path / "site" / "turnmill_test_rules.py").write_text(
        "def shout(text): return text.replace('name', 'NAME')\n"
        "def fails(text): return 1 / 0\n"
        "def number(text): return 7\n"
        "constant = 3\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return tmp_path


def test_a_function_of_another_package(plugin: Path) -> None:
    redaction = Redaction(rules_of(written(plugin, [{"name": "mine", "callable": "shout"}])))
    assert redaction.value({"a": ["my name", "other"]}) == {"a": ["my NAME", "other"]}
    assert redaction.counts == {"mine": 1}


@pytest.mark.parametrize("name", ["fails", "number"])
def test_a_function_that_fails_hides_the_text(plugin: Path, name: str) -> None:
    assert redacted(written(plugin, [{"name": "mine", "callable": name}]), {"a": "secret"}) == {"[mine]": "[mine]"}


def test_functions_that_cant_be_used_are_refused_at_start(plugin: Path) -> None:
    with pytest.raises(CallerError, match="turnmill_test_none:x can't be loaded: ModuleNotFoundError"):
        rules_of(written(plugin, [{"name": "mine", "callable": "missing"}]))
    with pytest.raises(CallerError, match="turnmill_test_rules:constant is no function"):
        rules_of(written(plugin, [{"name": "mine", "callable": "constant"}]))
