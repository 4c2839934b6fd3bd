"""A run's labels are in each of its records, redacted, and in the thread's document."""

import re
from typing import Any

from pipeline.assembly.builder import Builder
from pipeline.assembly.finish import finish
from pipeline.assembly.parts import Context
from pipeline.turns.redaction import Redaction, TextRule
from pipeline.turns.thread_document import thread_document
from topics.turn_record import LABELS

THREAD = "6f1d6f5e-6f0a-4c0b-9d51-7d3a2b0c4e11"


def finished(info: dict[str, Any], request: Any = None) -> list[Any]:
    context = Context(THREAD, "r", "a", "toy")
    assert context.learn(info) == []
    context.request = request
    builder = Builder(context, 1000)
    builder.user_turn([{"part_kind": "user-prompt", "content": "hi"}])
    return finish(builder, "complete", events=1)


def test_each_record_of_a_run_has_its_labels_and_the_document_too() -> None:
    records = finished({"tags": ["beta"], "branch": "main", "external_id": "chat"}, {"user": "ada"})
    labels = {"user": "ada", "branch": "main", "tags": ["beta"]}
    assert [record["thread"][LABELS] for record in records] == [labels, labels]
    assert records[-1]["thread"]["external_id"] == "chat"
    assert thread_document(THREAD, records)[LABELS] == labels


def test_a_run_without_labels_has_no_field_for_them() -> None:
    assert [record.get("thread") for record in finished({})] == [None, None]


def test_the_folder_of_a_coding_agent_is_its_project() -> None:
    info = {"thread": {"metadata": {"cwd": "/home/ann/shop", "git_branch": "fix"}}}
    assert finished(info)[0]["thread"][LABELS] == {"project": "shop", "branch": "fix"}


def test_labels_of_another_type_are_left_out_and_told() -> None:
    context = Context(THREAD, "r", "a", "toy")
    assert context.learn({"user": 7, "tags": "beta", "branch": "main"}) == ["user", "tags"]


def test_labels_are_redacted_as_other_text() -> None:
    mail = re.compile(r"\S+@\S+")
    redaction = Redaction([TextRule("mail", lambda text: mail.subn("[mail]", text))])
    [record, _] = finished({"user": "ada@example.com", "tags": ["to:bob@example.com"]})
    assert redaction.record(record)["thread"][LABELS] == {"user": "[mail]", "tags": ["[mail]"]}
