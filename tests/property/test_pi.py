"""pi streams: records in any form give the same turns, and the messages come back as they were."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS
from tests.corpus.compare_pi import kept
from tests.property.pi_streams import agent_events, proxied, runs
from tests.property.records import deliveries, envelope
from tests.support.assembled import assembled
from topics.thread_rules import check
from topics.turn_record import encode


def errors(document):
    return [finding for finding in check(document) if finding.severity == "error"]


def records(dialect, envelopes):
    found, refused = assemble(DIALECTS[dialect], envelopes)
    assert not refused
    return [encode(record) for record in found]


@given(st.data())
def test_messages_of_an_agent_come_back_as_they_were(data):
    said = data.draw(runs())
    got = assembled("pi-agent", data.draw(agent_events(said)), ts=0, step=0)
    assert got.export("pi-agent") == kept([message for messages in said for message in messages])
    cut_off = [messages[-1]["stopReason"] in ("error", "aborted") for messages in said]
    assert [turn["completion_status"] == "interrupted" for turn in got.agent_turns] == cut_off
    assert not got.refused
    assert not errors(got.document)


@given(st.data())
def test_both_wires_of_an_agent_say_the_same(data):
    said = data.draw(runs())
    one, other = (assembled("pi-agent", data.draw(agent_events(said))) for _ in range(2))
    assert [record["hash"] for record in one.records] == [record["hash"] for record in other.records]


@given(st.data())
@settings(max_examples=60)
def test_any_delivery_of_an_agents_events_gives_the_same_records(data):
    events = data.draw(agent_events(data.draw(runs())))
    whole = records("pi-agent", [envelope("pi-agent", events, 0)])
    assert records("pi-agent", data.draw(deliveries("pi-agent", events))) == whole


@given(st.data())
def test_a_proxied_message_is_what_its_client_has(data):
    events, message = data.draw(proxied())
    got = assembled("pi-proxy", events)
    (answer,) = got.export("pi-agent")
    assert {key: answer[key] for key in message} == message
    assert not got.refused
    assert not errors(got.document)


@given(st.data())
@settings(max_examples=60)
def test_any_delivery_of_a_proxied_message_gives_the_same_records(data):
    events, _ = data.draw(proxied())
    run = {"request": {"model": "m", "context": {"messages": [{"role": "user", "content": "Hi", "timestamp": 1}]}}}
    whole = records("pi-proxy", [envelope("pi-proxy", events, 0, run)])
    assert records("pi-proxy", data.draw(deliveries("pi-proxy", events, run))) == whole


@given(st.data())
@settings(max_examples=60)
def test_a_stream_that_breaks_off_anywhere_keeps_only_complete_cycles(data):
    events = data.draw(agent_events(data.draw(runs())))
    got = assembled("pi-agent", events[: data.draw(st.integers(0, len(events)))])
    assert not errors(got.document)


@given(st.data())
@settings(max_examples=60)
def test_a_proxied_message_with_a_hole_is_none(data):
    events, _ = data.draw(proxied())
    lost = data.draw(st.integers(0, len(events) - 1))
    rest = [envelope("pi-proxy", [event], seq) for seq, event in enumerate(events) if seq != lost]
    found, _ = assemble(DIALECTS["pi-proxy"], rest or [envelope("pi-proxy", [], 1)])
    assert [record["status"] for record in found] == ["interrupted"]
    assert found[0]["turn"]["messages"] == []


@given(st.data())
@settings(max_examples=60)
def test_the_end_of_an_agent_makes_up_for_lost_messages(data):
    said = data.draw(runs())
    events = data.draw(agent_events(said))
    lost = data.draw(st.integers(0, len(events) - 2))
    if events[lost]["type"] == "agent_end":
        lost += 1
    rest = [envelope("pi-agent", [event], seq) for seq, event in enumerate(events) if seq != lost]
    found, _ = assemble(DIALECTS["pi-agent"], rest)
    whole, _ = assemble(DIALECTS["pi-agent"], [envelope("pi-agent", events, 0)])
    assert [record["hash"] for record in found] == [record["hash"] for record in whole]
