"""Recorded runs of pi-agent-core against the messages that it made of them itself."""

import json
from pathlib import Path

import pytest

from pipeline.dialects import DIALECTS
from tests.corpus.compare_pi import essence, kept
from tests.support.assembled import Assembled, assembled
from topics.thread_rules import check
from turnmill.wire.framing import decode

HERE = Path(__file__).parent
RUNS = sorted((HERE / "pi-agent").glob("*/*.meta.json"))
BODIES = sorted((HERE / "pi-proxy").glob("*.proxy.meta.json"))

# The client read the bytes of these two while it already had its result, which it goes on to change: the same bytes
# half a second later leave it alone (*_later). ThreadProtocol discards a part without its end.
NOT_AS_THE_CLIENT = {
    "px_done_sentinel": ["sentinel"],
    "px_events_after_done": ["final"],
    "px_missing_text_end": [],
    "px_missing_toolcall_end": [],
}


def load(path: Path):
    return json.loads(path.read_text(encoding="utf-8", errors="surrogatepass"))


def read(dialect: str, path: Path, **rest) -> Assembled:
    items = decode(path.read_bytes(), DIALECTS[dialect].wire)
    return assembled(dialect, [item.event for item in items if item.event is not None], ts=0, step=0, **rest)


@pytest.mark.parametrize("wire", ["agent_events.jsonl", "agent_events.compact.jsonl"])
@pytest.mark.parametrize("path", RUNS, ids=lambda path: f"{path.parent.name}/{path.name.split('.')[0]}")
def test_a_run_comes_back_field_by_field(path, wire):
    meta = load(path)
    name = path.name.removesuffix(".meta.json")
    truth = kept(load(path.with_name(f"{name}.messages.json")))[meta["initial_message_count"] :]
    got = read("pi-agent", path.with_name(f"{name}.{wire}"))
    complete = meta["runs"][-1]["last_stop_reason"] not in ("error", "aborted")
    assert got.export("pi-agent") == truth
    assert got.agent_turns[-1]["completion_status"] == ("complete" if complete else "interrupted")
    assert len(got.agent_turns) == len(meta["runs"])
    assert not got.refused
    assert not check(got.document)


@pytest.mark.parametrize("path", BODIES, ids=lambda path: path.name.split(".")[0])
def test_a_proxied_response_is_what_the_client_made_of_it(path):
    name = path.name.removesuffix(".proxy.meta.json")
    truth = load(path.with_name(f"{name}.proxy.message.json"))
    got = read("pi-proxy", path.with_name(f"{name}.proxy.sse"), run={"request": load(path)["request_body"]})
    answers = [essence(message) for message in got.export("pi-agent") if message["role"] == "assistant"]
    assert not check(got.document)
    if name in NOT_AS_THE_CLIENT:
        assert [answer["content"] for answer in answers] == [NOT_AS_THE_CLIENT[name]]
    elif truth is None or truth["stopReason"] in ("error", "aborted"):
        assert answers == []
        assert got.agent_turns[0]["completion_status"] == "interrupted"
    else:
        assert answers == [essence(truth)]
        assert got.agent_turns[0]["completion_status"] == "complete"
