from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.assembly.limits import Limits
from pipeline.assembly.offline import assemble
from pipeline.assembly.partition import Partition
from pipeline.assembly.records import StoredRecord
from pipeline.dialects import DIALECTS
from pipeline.turns.canonical import turn_hash
from pipeline.turns.error_mask import GENERIC
from pipeline.turns.path_rules import PathRule, parse
from pipeline.turns.redaction import Redaction, TextRule
from pipeline.worker.assemble.redaction_rules import rules_of
from topics.telemetry import TelemetryRecord
from topics.thread_rules import check

KEY = "AKIAIOSFODNN7EXAMPLE"
MAIL = "ann@example.org"
THREAD = "11111111-1111-4111-8111-111111111111"
BASE = {"v": 1, "thread_id": THREAD, "run_id": "r1", "agent_id": "a1", "ts": 1_768_928_342_002, "dialect": "vercel-ai"}


def secrets() -> Redaction:
    return Redaction(rules_of("aws-key,email"))


def events(cut: int = 1) -> list[dict[str, Any]]:
    """A run whose every text holds a key, in deltas of `cut` characters."""
    said = f"the key is {KEY}, mind it"
    deltas = [said[at : at + cut] for at in range(0, len(said), cut)]
    args = orjson.dumps({"q": [{"deep": KEY}], KEY: 1}).decode()
    return [
        {"type": "start", "messageMetadata": {"note": KEY}},
        {"type": "start-step"},
        {"type": "reasoning-start", "id": "r"},
        *({"type": "reasoning-delta", "id": "r", "delta": delta} for delta in deltas),
        {"type": "reasoning-end", "id": "r"},
        {"type": "text-start", "id": "t"},
        *({"type": "text-delta", "id": "t", "delta": delta} for delta in deltas),
        {"type": "text-end", "id": "t"},
        {"type": "tool-input-start", "toolCallId": "c1", "toolName": "find"},
        *({"type": "tool-input-delta", "toolCallId": "c1", "inputTextDelta": args[at : at + cut]}
          for at in range(0, len(args), cut)),
        {"type": "tool-input-available", "toolCallId": "c1", "toolName": "find", "input": orjson.loads(args)},
        {"type": "tool-output-available", "toolCallId": "c1", "output": {"rows": [[f"x {KEY}"]]}},
        {"type": "data-app-note", "data": {"text": KEY}},
        {"type": "data-sys-usage", "data": {"input_tokens": 12, "note": KEY}},
        {"type": "finish-step"},
        {"type": "error", "errorText": f"refused {KEY}"},
        {"type": "finish"},
    ]  # fmt: skip


def envelope(cut: int = 1, **more: Any) -> dict[str, Any]:
    prompt = {"role": "user", "parts": [{"type": "text", "text": f"mine is {KEY}"}]}
    run = {"request": {"messages": [prompt]}}
    return {**BASE, "seq": 0, "events": events(cut), "run": run, "end": "error", **more}


def closed(redaction: Redaction, *records: dict[str, Any]) -> Partition:
    core = Partition(DIALECTS, Limits(keep_telemetry=True), 0, redaction.record)
    core.feed([StoredRecord(orjson.dumps(record), n, record["ts"]) for n, record in enumerate(records)])
    return core


@pytest.mark.parametrize("cut", [1, 2, 7, 1000])
def test_a_secret_split_over_deltas_is_nowhere_in_what_goes_out(cut: int) -> None:
    redaction = secrets()
    core = closed(redaction, envelope(cut))
    assert core.out.dead == []
    user, agent = core.out.turns
    out = orjson.dumps(core.out.turns).decode()
    assert KEY not in out
    assert user["turn"] is not None
    assert user["turn"]["parts"][0]["content"] == "mine is [aws-key]"
    assert agent["turn"] is not None
    parts = [part for message in agent["turn"]["messages"] for part in message.get("parts", ())]
    assert [part["content"] for part in parts if part["part_kind"] in ("text", "thinking")] == [
        "the key is [aws-key], mind it"
    ] * 2
    [call] = [part for part in parts if part["part_kind"] == "tool-call"]
    assert call["args"] == {"q": [{"deep": "[aws-key]"}], "[aws-key]": 1}
    [answer] = [part for part in parts if part["part_kind"] == "tool-return"]
    assert answer["content"] == {"rows": [["x [aws-key]"]]}
    assert agent["turn"]["interruption"]["detail"] == "refused [aws-key]"
    assert out.count("[aws-key]") == sum(redaction.counts.values())
    for record in (user, agent):
        assert record["hash"] == turn_hash(record["turn"] or {})


def test_what_makes_a_turn_a_turn_stays() -> None:
    """A rule that finds every text leaves a valid document, whose calls and results belong together."""
    redaction = Redaction([*rules_of("email"), PathRule("all", parse("$..*"), "[x]")])
    core = closed(redaction, envelope(end="complete"))
    assert core.out.dead == []
    turns = [record["turn"] for record in core.out.turns]
    agents = {"a1": {"agent_id": "a1", "agent_name": "A", "created_at": "2026-01-20T10:00:00Z"}}
    times = {"created_at": "2026-01-20T10:00:00Z", "updated_at": "2026-01-20T10:00:00Z"}
    document = {"version": "0.0.4", "thread_id": THREAD, **times, "agents": agents, "turns": turns}
    assert [str(finding) for finding in check(document) if finding.severity == "error"] == []
    assert turns[0] is not None
    assert turns[0]["parts"][0]["content"] == "[x]"


def test_a_path_takes_whole_values() -> None:
    redaction = Redaction([PathRule("args", parse("$.messages[*].parts[*].args.q"), "[gone]")])
    core = closed(redaction, envelope())
    found = [
        part["args"]
        for message in (core.out.turns[-1]["turn"] or {})["messages"]
        for part in message.get("parts", ())
        if part["part_kind"] == "tool-call"
    ]
    assert found == [{"q": "[gone]", KEY: 1}]
    assert redaction.counts == {"args": 1}


def test_a_path_reaches_what_stands_beside_counts() -> None:
    """Found by an attack: `password` in the data of data-sys-usage passed a `$..password` rule into the turn."""
    redaction = Redaction(
        [PathRule("password", parse("$..password"), "[x]"), PathRule("n", parse("$..input_tokens"), "")]
    )
    usage = {"input_tokens": 12, "password": "hunter2", "raw": [{"password": 5}]}
    message = {"message_type": "response", "timestamp": "2026-01-20T10:00:00Z", "agent_id": "a", "parts": []}
    found = redaction.turn({"turn_type": "agent", "messages": [{**message, "usage": usage}], "total_usage": usage})
    hidden = {"input_tokens": 12, "password": "[x]", "raw": [{"password": "[x]"}]}
    assert found["messages"][0]["usage"] == hidden
    assert found["total_usage"] == hidden


def test_a_path_to_a_file_leaves_a_file() -> None:
    content = {"kind": "binary", "data": "aGk=", "media_type": "image/png"}
    turn = {"turn_type": "agent", "messages": [{"parts": [{"part_kind": "file", "content": content}]}]}
    redaction = Redaction([PathRule("files", parse("$.messages[*].parts[*].content"), "[file]")])
    empty = {"kind": "binary", "data": "", "media_type": "text/plain", "identifier": "[file]"}
    assert redaction.turn(turn)["messages"][0]["parts"][0]["content"] == empty


def test_numbers_and_names_are_texts_too() -> None:
    redaction = Redaction(rules_of("credit-card,email"))
    value = {"card": 4111111111111111, "n": 7, "yes": True, "x": {MAIL: 1, "bob@example.org": 2}}
    found = redaction.value(value)
    assert found == {"card": "[credit-card]", "n": 7, "yes": True, "x": {"[email]": 1, "[email] 2": 2}}
    assert redaction.counts == {"credit-card": 1, "email": 2}


def test_base64_and_ids_are_not_looked_at() -> None:
    redaction = secrets()
    content = [{"kind": "binary", "data": MAIL, "media_type": "image/png", "identifier": MAIL}]
    turn = {
        "turn_type": "user",
        "meta:run_id": MAIL,
        "parts": [{"part_kind": "user-prompt", "content": content}, {"part_kind": "text", "id": MAIL, "content": "x"}],
    }
    assert redaction.turn(turn) is turn


def test_facts_about_the_thread_and_telemetry() -> None:
    redaction = secrets()
    [record], _ = assemble(DIALECTS["thread-protocol"], [{
        **BASE, "dialect": "thread-protocol", "seq": 0, "end": "complete",
        "events": [{"type": "thread-metadata", "data": {"title": f"about {MAIL}", "metadata": {"app.x": MAIL}}}],
    }])  # fmt: skip
    found = redaction.record(record)
    assert MAIL not in orjson.dumps(found).decode()
    telemetry: TelemetryRecord = {**BASE, "seq": 0, "type": "data-sys-log", "data": {"said": MAIL, "n": 3}}  # type: ignore[typeddict-item]
    assert redaction.telemetry(telemetry)["data"] == {"said": "[email]", "n": 3}
    plain: TelemetryRecord = {**telemetry, "data": {"n": 3}}
    assert redaction.telemetry(plain) is plain


def test_telemetry_that_a_function_makes_no_json_is_refused_while_its_raw_record_is_known() -> None:
    redaction = Redaction([TextRule("broken", lambda text: ({text}, 1))])  # type: ignore[arg-type,return-value]  # a user's
    telemetry: TelemetryRecord = {**BASE, "seq": 0, "type": "data-sys-log", "data": {"said": MAIL}}  # type: ignore[typeddict-item]
    with pytest.raises(TypeError):
        redaction.telemetry(telemetry)


def test_paths_and_the_mask_reach_telemetry() -> None:
    """Found by the review: a `$..password` rule let `password: hunter2` of a data-sys event pass."""
    rules = [
        PathRule("password", parse("$..password"), "[password]"),
        PathRule("token", parse("$.messages[*].event_data.token"), "[token]"),
    ]
    redaction = Redaction(rules, mask_errors=True)
    data = {"password": "hunter2", "token": "t", "deep": [{"password": 5}], "n": 3}
    telemetry: TelemetryRecord = {**BASE, "seq": 0, "type": "data-sys-log", "data": data}  # type: ignore[typeddict-item]
    expected = {"password": "[password]", "token": "[token]", "deep": [{"password": "[password]"}], "n": 3}
    assert redaction.telemetry(telemetry)["data"] == expected
    error: TelemetryRecord = {**telemetry, "type": "data-sys-error", "data": {"text": "no route to db-7", "code": "E7"}}
    assert redaction.telemetry(error)["data"] == {"text": GENERIC, "code": "E7"}
    assert redaction.counts == {"password": 2, "token": 1, "mask_errors": 1}
    plain: TelemetryRecord = {**telemetry, "data": {"n": 3}}
    assert redaction.telemetry(plain) is plain


@pytest.mark.parametrize("depth", [400, 1000])
def test_depth_hides_nothing_and_is_counted_once(depth: int) -> None:
    """Found by the review: 400 levels of telemetry raised, and took the results of a batch with them."""
    value: Any = {"password": 1, "by": MAIL}
    for _ in range(depth):
        value = [value]
    rules = [*rules_of("email"), PathRule("password", parse("$..password"), "[password]")]
    redaction = Redaction(rules, mask_errors=True)
    telemetry: TelemetryRecord = {**BASE, "seq": 0, "type": "data-sys-log", "data": [MAIL, value]}  # type: ignore[typeddict-item]
    found = redaction.telemetry(telemetry)["data"][1]
    for _ in range(depth):
        [found] = found
    assert found == {"password": "[password]", "by": "[email]"}
    assert redaction.counts == {"email": 2, "password": 1}


def test_every_rule_reaches_the_facts_of_a_thread() -> None:
    why = "no route to db-7"
    facts: dict[str, Any] = {
        "thread": {"external_id": MAIL, "title": "about hunter2", "metadata": {"password": "hunter2", "last": why}},
        "agents": [{"agent_id": MAIL, "agent_name": MAIL, "meta:notes": {"password": 1, "by": MAIL}}],
        "links": [{"thread_id": THREAD, "relation": "referenced", "metadata": {"password": 1, "by": MAIL}}],
    }
    rules = [
        *rules_of("email"),
        PathRule("password", parse("$..password"), "[password]"),
        PathRule("title", parse("$.title"), "[title]"),
        PathRule("ids", parse("$..agent_id"), "[id]"),
    ]
    turn = {"turn_type": "agent", "messages": [], "interruption": {"reason": "error", "detail": why}}
    record: Any = {**BASE, "turn": turn, "hash": None, "status": "interrupted", "revision": 0, **facts}
    found = Redaction(rules, mask_errors=True).record(record)
    hidden = {"password": "[password]", "by": "[email]"}
    assert {key: found[key] for key in facts} == {
        "thread": {"external_id": MAIL, "title": "[title]", "metadata": {"password": "[password]", "last": GENERIC}},
        "agents": [{"agent_id": MAIL, "agent_name": MAIL, "meta:notes": hidden}],
        "links": [{"thread_id": THREAD, "relation": "referenced", "metadata": hidden}],
    }
    everything = Redaction([PathRule("all", parse("$..*"), "[x]")]).record(record)
    assert everything["agents"][0]["agent_id"] == MAIL
    assert everything["links"][0] == {"thread_id": THREAD, "relation": "[x]", "metadata": {"redacted": "[x]"}}
    assert everything["thread"] == {"external_id": MAIL, "title": "[x]", "metadata": {"redacted": "[x]"}}


def test_no_hash_of_a_text_that_is_redacted_is_kept() -> None:
    """Who knows what a key looks like could find it by its hash."""
    body = {"messages": [{"role": "user", "parts": [{"type": "text", "text": f"{said} {KEY}"}]} for said in ("1", "2")]}
    body["messages"].insert(1, {"role": "assistant", "parts": [{"type": "text", "text": KEY}]})
    envelope = {**BASE, "seq": 0, "events": events(9), "run": {"request": body}, "end": "complete"}

    def place(redaction: Redaction | None) -> dict[str, Any]:
        polish, words = (None, str) if redaction is None else (redaction.record, redaction.words)
        partition = Partition(DIALECTS, Limits(), 0, polish, redacted=words)
        partition.feed([StoredRecord(orjson.dumps(envelope), 0, BASE["ts"])])
        return partition.out.turns[0]["lineage"]

    plain, redacted = place(None), place(secrets())
    for message in body["messages"]:
        message["parts"][0]["text"] = secrets().words(message["parts"][0]["text"])
    assert {plain[key] == redacted[key] for key in ("earlier", "words", "answer")} == {False}
    assert place(None) == redacted
    by_path = Redaction([PathRule("words", parse("$..content"), "out")])
    assert place(by_path)["answer"] == place(Redaction([TextRule("all", lambda text: ("out", 1))]))["answer"]


def test_a_text_that_is_redacted_is_compared_as_it_is_stored() -> None:
    part = {"part_kind": "text", "content": f"the key is {KEY}"}
    stored = secrets().turn({"turn_type": "agent", "messages": [{"message_type": "response", "parts": [part]}]})
    assert secrets().words(part["content"]) == stored["messages"][0]["parts"][0]["content"] != part["content"]


def test_masked_errors() -> None:
    redaction = Redaction([], mask_errors=True)
    core = closed(redaction, envelope())
    turn = core.out.turns[-1]["turn"] or {}
    assert turn["interruption"]["detail"] == GENERIC
    assert "refused" not in orjson.dumps(turn).decode()
    assert redaction.counts == {"mask_errors": 2}


def test_a_rule_that_fails_costs_its_turn_and_no_other() -> None:
    def broken(text: str) -> tuple[str, int]:
        if "boom" in text:
            raise RuntimeError("no")
        return text, 0

    class Broken(Redaction):
        def _text(self, text: str) -> str:
            return broken(text)[0]

    redaction = Broken(rules_of("email"))
    bad = envelope(run_id="r2", end="complete")
    bad["events"] = [{"type": "text-start", "id": "1"}, {"type": "text-delta", "id": "1", "delta": "boom"},
                     {"type": "text-end", "id": "1"}, {"type": "finish"}]  # fmt: skip
    core = closed(redaction, bad, envelope(run_id="r3"))
    assert {record["run_id"] for record in core.out.turns} == {"r3"}
    assert {letter.reason for letter in core.out.dead} == {"invalid_event"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.just(KEY),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(json_values)
def test_redaction_is_idempotent_and_changes_nothing_else(value: Any) -> None:
    redaction = secrets()
    once = redaction.value(value)
    assert (once is value) is (redaction.counts == {})
    assert KEY not in repr(once)
    assert redaction.value(once) is once
