"""The guides of docs/adding do what they say: their code is run, their lists of places are compared with the code."""

import ast
import io
import logging
import re
import sys
import tokenize
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pipeline.assembly.records import StoredRecord
from pipeline.kafka.topic_plan import plan, wanted
from pipeline.observability import metrics as m
from pipeline.observability.metrics import Metric, Metrics
from pipeline.settings import Settings
from pipeline.worker.host import roles
from pipeline.worker.host.roles import Role
from tests.support.turn_records import make_record
from topics import catalog, turn_record
from topics.catalog import Topic

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "adding"
DATABASES = re.compile("sqlite|postgres|asyncpg", re.IGNORECASE)


def blocks(guide: str) -> list[str]:
    """The blocks of Python in a guide, without the indent of the list that they are in."""
    text = (GUIDES / guide).read_text(encoding="utf-8")
    found = re.findall(r"^( *)```python\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    return ["".join(line[len(indent) :] for line in code.splitlines(keepends=True)) for indent, code in found]


def run(code: str, module: ModuleType, **names: Any) -> dict[str, Any]:
    """Run a block as if it stood in a module -> the names that it assigns."""
    scope = {**vars(module), **names}
    exec(code, scope)
    targets = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)]
    return {node.id: scope[node.id] for node in targets if isinstance(node.ctx, ast.Store)}


def names_a_database(file: Path) -> bool:
    """Whether its code does, docstrings and comments aside."""
    before = None
    for token in tokenize.generate_tokens(io.StringIO(file.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.COMMENT:
            continue
        opens = before is None or before in (tokenize.INDENT, tokenize.NEWLINE, tokenize.NL)
        before = token.type
        docstring = token.type == tokenize.STRING and opens
        if token.type in (tokenize.NAME, tokenize.STRING) and not docstring and DATABASES.search(token.string):
            return True
    return False


def test_the_metric_is_counted_under_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    declared, counted = blocks("metric.md")
    (made,) = run(declared, m).values()
    assert isinstance(made, Metric)
    assert made.name.endswith("_total") == (made.kind == "counter")
    monkeypatch.setattr(m, "TABLE", (*m.TABLE, made))
    metrics = Metrics()
    monkeypatch.setattr(m, "EMPTY_TURNS", made, raising=False)
    run(counted, m, m=m, metrics=metrics)
    assert metrics.registry.get_sample_value(made.name, {"dialect": "vercel-ai"}) == 1
    with pytest.raises(ValueError, match="has the labels"):
        metrics.add(made)
    assert made.name in [row[0] for row in m.table()]


def test_the_topic_would_be_created_as_it_is_declared() -> None:
    (declared,) = blocks("topic.md")
    (made,) = run(declared, catalog).values()
    assert isinstance(made, Topic)
    (change,) = plan(wanted([made], "acme", 12, 3, 3, {}), {}, grow=False)
    assert (change.action, change.topic) == ("create", "acme.reviews")
    assert made.config()["retention.ms"] == str(7 * catalog.DAY_MS)


async def test_the_role_does_its_work(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    code, row = blocks("role.md")
    module = ModuleType("pipeline.worker.sinks.alarm")
    exec(code, module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    role = eval(row, dict(vars(roles)))
    assert isinstance(role, Role)
    sink = role.work(Settings(), Metrics(), None)  # type: ignore[arg-type]  # it writes nothing to Kafka
    records = [
        StoredRecord(turn_record.encode(make_record(run=run, status=status)), offset, 0)
        for offset, (run, status) in enumerate([("r1", "complete"), ("r2", "interrupted")])
    ]
    await sink.assign({0: 0})
    with caplog.at_level(logging.WARNING):
        await sink.handle(0, [*records, StoredRecord(b"no turn", 2, 0)])
        await sink.mine.writing  # type: ignore[attr-defined]  # of the guide's own class
    assert len(caplog.messages) == 1
    assert "broke off" in caplog.messages[0]
    assert sink.floor(0) == 3


def test_the_places_where_databases_differ_are_all_named() -> None:
    text = (GUIDES / "store.md").read_text(encoding="utf-8")
    found = {
        str(file.relative_to(ROOT))
        for file in (ROOT / "pipeline").rglob("*.py")
        if "bench" not in file.relative_to(ROOT).as_posix() and names_a_database(file)
    }
    named = set(re.findall(r"`(pipeline/[\w./]+)`", text.partition("## Another object storage")[0]))
    missing = {file for file in found if file not in named and f"{Path(file).parent}/" not in named}
    assert missing == set()
