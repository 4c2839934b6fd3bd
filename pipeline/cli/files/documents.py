"""`turnmill convert`, `hash`, `validate` and `schema`: thread documents in files, and JSON Schemas."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from pipeline.cli.output import many
from pipeline.dialects.shared_hash import CARRIERS, shared_hash
from pipeline.turns.canonical import turn_hash
from topics import json_text
from topics.catalog import CATALOG
from topics.findings import Finding
from topics.record_schemas import packaged
from topics.thread import VERSION, json_schema
from topics.thread_rules import check
from topics.thread_versions import OLD, downgrade, repeat_user_prompt, upgrade
from turnmill.errors import CallerError, InvalidRecord
from turnmill.limits import LEVELS
from turnmill.wire import deep_json
from turnmill.wire.nesting import text_too_deep

INVALID: Final = 1
UNREADABLE: Final = 2


@click.command("convert", short_help="Convert documents between versions of ThreadProtocol.")
@click.option("--to-version", "version", required=True, type=click.Choice([OLD, VERSION]), help="Version to write.")
@click.option("--repeat-user-prompt", "repeat", is_flag=True, help="Begin each agent turn with the user's prompt.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
def convert(version: str, files: Sequence[str], *, repeat: bool) -> None:
    """Convert thread documents between versions of ThreadProtocol; prints a JSON document a line.

    Each FILE has one document, or one on each line; `-` reads standard input. Version 0.0.3 has no interrupted turns,
    so they are left out. A repeated user prompt in the input is not doubled.
    """
    for source, document in each_object(files):
        try:
            converted = upgrade(document) if version == VERSION else downgrade(document)
            click.echo(json_text.dumps(repeat_user_prompt(converted) if repeat else converted))
        except InvalidRecord as error:
            raise CallerError(f"{source}: {error.detail}; `turnmill validate` says what is wrong") from None


@click.command("hash", short_help="Print the canonical hash of each turn of a document.")
@click.option(
    "--wire", "wires", multiple=True, type=click.Choice(sorted(CARRIERS)), help="Hash only what this wire carries."
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
def hash_(wires: Sequence[str], files: Sequence[str]) -> None:
    """Print the canonical hash of each turn of documents; with --wire, of the content that all these wires carry.

    A JSON object a line: {"source", "turn", "turn_type", "turn_id", "hash"}. A run that was recorded over two wires
    has the same hash in both recordings, if both wires are named.
    """
    for source, document in each_object(files):
        turns = document.get("turns")
        if not isinstance(turns, list):
            raise CallerError(f"{source}: no thread document: `turns` is missing")
        for number, turn in enumerate(turns):
            try:
                digest = shared_hash(turn, *wires) if wires else turn_hash(turn)
            except (AttributeError, KeyError, TypeError) as error:
                why = "`turnmill validate` says what is wrong"
                raise CallerError(f"{source}: turns[{number}] can't be hashed; {why} ({error!r:.80})") from None
            about = {"turn_type": turn.get("turn_type"), "turn_id": turn.get("meta:turn_id"), "hash": digest}
            click.echo(json_text.dumps({"source": source, "turn": number, **about}))


@dataclass(frozen=True, slots=True)
class Report:
    """The findings of a document; `line` is its line in a file of JSON lines."""

    source: str
    line: int | None
    findings: list[Finding]

    @property
    def valid(self) -> bool:
        """True if the document has no errors; warnings are allowed."""
        return not any(finding.severity == "error" for finding in self.findings)


@click.command("validate")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="A JSON object a document: source, line, valid, findings.")
def validate(files: tuple[str, ...], *, as_json: bool) -> None:
    """Check thread documents of ThreadProtocol 0.0.4 or 0.0.3.

    Each FILE has one JSON document, or one on each line; `-` reads standard input. Exit status: 0 all are valid
    (warnings are allowed), 1 there are errors, 2 a file can't be read as JSON.
    """
    reports: list[Report] = []
    status = 0
    for name in files:
        source = click.format_filename(name)
        try:
            for line, document in documents(read(name)):
                report = Report(source, line, check(document))
                reports.append(report)
                _print(report, as_json=as_json)
        except Unreadable as problem:
            status = UNREADABLE
            _print_unreadable(source, problem, as_json=as_json)
    if not as_json:
        severities = [finding.severity for report in reports for finding in report.findings]
        counted = f"{many(severities.count('error'), 'error')}, {many(severities.count('warning'), 'warning')}"
        click.echo(f"{many(len(reports), 'document')}, {sum(report.valid for report in reports)} valid, {counted}")
    if status == 0 and not all(report.valid for report in reports):
        status = INVALID
    if status:
        sys.exit(status)


@click.command("schema", short_help="Print the JSON Schema of a thread document, or of a topic's records.")
@click.argument("topic", type=click.Choice([topic.name for topic in CATALOG]), required=False)
def schema(topic: str | None) -> None:
    """Print the JSON Schema of the records of TOPIC, or of a thread document (ThreadProtocol 0.0.4).

    For dead letters, whose values are arbitrary bytes, it is the schema of their headers.
    """
    if topic is None:
        click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))
        return
    click.echo(packaged(next(entry for entry in CATALOG if entry.name == topic)), nl=False)


def _print(report: Report, *, as_json: bool) -> None:
    if as_json:
        findings = [dataclasses.asdict(finding) for finding in report.findings]
        row = {"source": report.source, "line": report.line, "valid": report.valid, "findings": findings}
        click.echo(json.dumps(row))
        return
    position = position_text(report.source, report.line)
    for finding in report.findings:
        rule = f"rule {finding.rule}" if isinstance(finding.rule, int) else finding.rule
        click.echo(f"{position}: {finding.path or 'document'}: {finding.severity} ({rule}): {finding.message}")


def _print_unreadable(source: str, problem: Unreadable, *, as_json: bool) -> None:
    if as_json:
        row = {"source": source, "line": problem.line or None, "column": problem.column or None}
        click.echo(json.dumps({**row, "valid": False, "error": problem.reason}))
        return
    click.echo(f"{position_text(source, problem.line, problem.column)}: {problem.reason}", err=True)


class Unreadable(Exception):
    """A file is not JSON in UTF-8: the reason, and line and column from 1, or 0 if the place is unknown."""

    def __init__(self, reason: str, line: int = 0, column: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.column = column


def read(name: str) -> bytes:
    """Return the bytes of a file, or of standard input for `-`. Raises Unreadable."""
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise Unreadable(f"can't be read: {error.strerror or error}") from None


def documents(data: bytes) -> Iterator[tuple[int | None, Any]]:
    """Yield (None, document), or (line, document) for each line. Raises Unreadable at the first invalid part."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        raise Unreadable("is not UTF-8", before.count(b"\n") + 1, error.start - before.rfind(b"\n")) from None
    if not text.strip():
        raise Unreadable("is empty: a thread document is expected")
    try:
        yield None, _parsed(text)
    except Unreadable:
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        if len(lines) < 2 or not _is_json(lines[0][1]):  # one broken document, not JSON lines
            raise
    else:
        return
    for number, line in lines:
        try:
            yield number, _parsed(line)
        except Unreadable as problem:
            raise Unreadable(problem.reason, number, problem.column) from None


def _is_json(line: str) -> bool:
    try:
        _parsed(line)
    except Unreadable:
        return False
    return True


def _parsed(text: str) -> Any:
    if text_too_deep(text):
        raise Unreadable(f"is nested too deeply: at most {LEVELS:,} levels are read")
    try:
        return deep_json.loads(text, _not_json)
    except json.JSONDecodeError as error:
        raise Unreadable(f"is not JSON: {error.msg}", error.lineno, error.colno) from None
    except ValueError as error:
        raise Unreadable(f"is not JSON: {error}") from None


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def position_text(source: str, line: int | None, column: int = 0) -> str:
    """Return FILE, FILE:LINE or FILE:LINE:COLUMN, as compilers write it."""
    return ":".join([source, *(str(number) for number in (line, column) if number)])


def each_value(names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yield (place, JSON value) of all files. Raises CallerError if one can't be read."""
    for name in names:
        try:
            for line, value in documents(read(name)):
                yield position_text(name, line), value
        except Unreadable as problem:
            raise CallerError(f"{position_text(name, problem.line, problem.column)}: {problem.reason}") from None


def each_object(names: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place, JSON object) of all files. Raises CallerError if one can't be read, or has another value."""
    for source, value in each_value(names):
        if not isinstance(value, dict):
            raise CallerError(f"{source}: a JSON object is expected, one in the file or on each line")
        yield source, value
