"""The redaction rules of TURNMILL_REDACT: built-in ones by name, files of rules, functions of other packages."""

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final

from pipeline.turns.ambiguity import ambiguous
from pipeline.turns.path_rules import PathRule, parse
from pipeline.turns.redaction import MASK, TextRule
from pipeline.turns.text_rules import BUILT_IN, GROUPS, Pattern
from turnmill.errors import CallerError, InvalidRecord
from turnmill.wire.envelope import loads

log = logging.getLogger(__name__)

GROUP: Final = "turnmill.redaction"  # group of entry points: functions from text to text
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,59}")
KINDS: Final = ("regex", "path", "callable")
EXAMPLE: Final = '{"name": "order", "regex": "ORD-[0-9]+"}'

Rule = TextRule | PathRule


def rules_of(redact: str) -> list[Rule]:
    """Return the rules of a text such as `secrets,email,rules.json`. Raises CallerError that names the bad rule."""
    rules: dict[str, Rule] = {}
    for item in filter(None, (item.strip() for item in redact.split(","))):
        item_rules = _from_file(Path(item)) if item.endswith(".json") or "/" in item else _built_in(item)
        for rule in item_rules:
            if rule.name in rules and rules[rule.name] != rule:
                raise CallerError(f"TURNMILL_REDACT: there are two rules named {rule.name!r}: rename one")
            rules[rule.name] = rule
    return list(rules.values())


def _built_in(name: str) -> list[Rule]:
    names = GROUPS.get(name, (name,))
    unknown = [name for name in names if name not in BUILT_IN]
    if unknown:
        known = ", ".join([*GROUPS, *BUILT_IN])
        raise CallerError(f"TURNMILL_REDACT: no built-in rule {name!r}: there are {known}; a file ends with .json")
    return [BUILT_IN_RULES[name] for name in names]


def _from_file(path: Path) -> Iterator[Rule]:
    try:
        rules = loads(path.read_bytes())
    except OSError as error:
        raise CallerError(f"TURNMILL_REDACT: can't read {path}: {error.strerror}") from None
    except InvalidRecord as error:
        raise CallerError(f"TURNMILL_REDACT: {path}: {error.detail}") from None
    if not isinstance(rules, list):
        raise CallerError(f"TURNMILL_REDACT: {path}: a JSON list of rules is expected, such as [{EXAMPLE}]")
    for number, raw in enumerate(rules):
        if isinstance(raw, str):
            yield from _built_in(raw)
            continue
        try:
            yield _rule(raw)
        except ValueError as error:
            name = raw.get("name") if isinstance(raw, dict) else None
            raise CallerError(f"TURNMILL_REDACT: {path}: rule {name or number!r}: {error}") from None


def _rule(raw: Any) -> Rule:
    """Return a rule of a file. Raises ValueError."""
    if not isinstance(raw, dict):
        raise ValueError(f"an object is expected, such as {EXAMPLE}, or a built-in rule's name")  # noqa: TRY004  # as all
    unknown = sorted(raw.keys() - {"name", "replace", *KINDS})
    if unknown:
        raise ValueError(f"{unknown[0]!r} is unknown; a rule has name, replace, and one of {', '.join(KINDS)}")
    wrong = [key for key, value in raw.items() if not isinstance(value, str)]
    if wrong:
        raise ValueError(f"{wrong[0]!r} must be a string")
    name = raw.get("name", "")
    if not NAME.fullmatch(name) or name == MASK:
        raise ValueError("it needs a name of letters, digits, '_', '.' and '-', at most 60")
    kinds = [kind for kind in KINDS if kind in raw]
    if len(kinds) != 1:
        raise ValueError(f"it needs one of {', '.join(KINDS)}; it has {' and '.join(kinds) or 'none'}")
    replace = raw.get("replace", f"[{name}]")
    if kinds == ["path"]:
        return PathRule(name, parse(raw["path"]), replace)
    if kinds == ["callable"]:
        return TextRule(name, _guarded(name, _loaded(raw["callable"]), replace))
    return _text_rule(name, (_pattern(raw["regex"], replace),))


def _pattern(regex: str, replace: str) -> Pattern:
    try:
        pattern = re.compile(regex)
        pattern.sub(replace, "")  # raises an error if `replace` refers to a missing group
    except (re.error, IndexError, OverflowError, RecursionError) as error:
        raise ValueError(f"the regular expression can't be used: {error}") from None
    if pattern.search(""):
        raise ValueError("the regular expression matches the empty text, so everywhere: let it need a character")
    if ambiguous(regex):
        raise ValueError(
            "the regular expression has a repetition in which the same text can be read in several ways, as (a+)+ has: "
            "some texts would take it years. Let one thing repeat, bound it ({1,8}), or make it possessive (a++)"
        )
    return Pattern(pattern, replace)


def _text_rule(name: str, patterns: tuple[Pattern, ...]) -> TextRule:
    def apply(text: str) -> tuple[str, int]:
        count = 0
        for pattern in patterns:
            text, replaced = pattern.apply(text)
            count += replaced
        return text, count

    return TextRule(name, patterns[0].apply if len(patterns) == 1 else apply)


BUILT_IN_RULES: Final[Mapping[str, Rule]] = {name: _text_rule(name, patterns) for name, patterns in BUILT_IN.items()}


def _loaded(name: str) -> Callable[[str], str]:
    points = {point.name: point for point in reversed(entry_points(group=GROUP))}
    if name not in points:
        known = ", ".join(sorted(points)) or "none"
        raise ValueError(f"no installed package has an entry point {name!r} in the group {GROUP}; there are: {known}")
    try:
        function = points[name].load()
    except Exception as error:  # a foreign package may raise anything while it is imported
        raise ValueError(f"{points[name].value} can't be loaded: {type(error).__name__}: {error}") from None
    if not callable(function):
        raise ValueError(f"{points[name].value} is no function")  # noqa: TRY004  # a bad rule, whatever its type
    return function  # type: ignore[no-any-return]  # what it returns is checked at each call


def _guarded(name: str, function: Callable[[str], str], replace: str) -> Callable[[str], tuple[str, int]]:
    """Wrap a function: if it fails, the text is hidden, so that nothing slips through, and the turn goes on."""

    def apply(text: str) -> tuple[str, int]:
        try:
            redacted = function(text)
            if not isinstance(redacted, str):
                raise TypeError(f"it returned {type(redacted).__name__}")
        except Exception as error:  # as above
            log.warning("redaction rule %s failed, the whole text is replaced: %s", name, type(error).__name__)
            return replace, 1
        return redacted, int(redacted != text)

    return apply
