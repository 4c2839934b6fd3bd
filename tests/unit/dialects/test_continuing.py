"""What models' servers refuse is in no export: odd names, calls without results, blocks of other wires."""

from typing import Any

import pytest

from pipeline.dialects import FORMATS
from pipeline.dialects.exports import Names, call_id, paired, tool_name

Fields = dict[str, Any]
NAMES = Names("role", "assistant", "tool", "tool_call_id", ("tool_calls",), ("content",))
ASKED = {"turn_type": "user", "parts": [{"part_kind": "user-prompt", "content": "Well?"}]}
BIG = 2**70


def call(identity: str, name: str = "f", **args: Any) -> Fields:
    return {"part_kind": "tool-call", "tool_name": name, "tool_call_id": identity, "args": args}


def result(identity: str, content: Any = "done", **more: Any) -> Fields:
    named = {"part_kind": "tool-return", "tool_name": "f", "tool_call_id": identity}
    return {**named, "status": "success", "content": content, **more}


def export(form: str, *messages: list[Fields], asked: bool = True, **told: Any) -> list[Fields]:
    """Parts of responses and requests in turn -> messages, with something that the user said behind them."""
    kinds = ("response", "request")
    said = [{"message_type": kinds[n % 2], "parts": parts, **told} for n, parts in enumerate(messages)]
    turns = [{"turn_type": "agent", "meta:turn_id": "t", "messages": said}, *([ASKED] if asked else [])]
    return FORMATS[form].write({"turns": turns})


@pytest.mark.parametrize(
    ("said", "name"), [("mcp.server/x y", "mcp_server_x_y"), ("эхо", "___"), ("", "unnamed"), ("a-b_C1", "a-b_C1")]
)
def test_names_that_servers_take(said: str, name: str) -> None:
    assert tool_name(said) == name
    (called, *_) = export("openai-chat", [call("1", said)], [result("1")])
    assert called["tool_calls"][0]["function"]["name"] == name
    assert export("openai-responses", [call("1", said)], [result("1")])[0]["name"] == name
    assert export("anthropic", [call("1", said)], [result("1")])[0]["content"][0]["name"] == name


def test_ids_that_servers_take() -> None:
    assert (call_id("e-1:0"), call_id("")) == ("e-1_0", "call")
    called, answered, _ = [message["content"] for message in export("anthropic", [call("e:1")], [result("e:1")])] + [0]
    assert (called[0]["id"], answered[0]["tool_use_id"]) == ("e_1", "e_1")
    called, answered, _ = export("openai-chat", [call("")], [result("")])
    assert called["tool_calls"][0]["id"] == answered["tool_call_id"] == "call"
    called, answered, _ = export("openai-responses", [call("")], [result("")])
    assert called["call_id"] == answered["call_id"] == "call"


@pytest.mark.parametrize("form", ["langchain", "ag-ui"])
def test_calls_and_results_without_each_other_are_left_out(form: str) -> None:
    said = export(form, [call("1"), call("2")], [result("0"), result("2")])
    assert "'id': '1'" not in str(said)
    assert [message.get("role", message.get("type")) for message in said][1:] in (["tool", "human"], ["tool", "user"])
    open_ones = export(form, [call("1"), call("2")], [result("2")], asked=False)
    assert "'id': '1'" in str(open_ones)
    assert "'id': '1'" in str(export(form, [call("1")], asked=False))


def test_calls_of_one_id_get_their_results_in_turn() -> None:
    calls = [{"id": "1", "n": 1}, {"id": "1", "n": 2}, {"id": "1", "n": 3}]
    results = [{"role": "tool", "tool_call_id": "1", "content": text} for text in "ab"]
    user = {"role": "user", "content": "And?"}
    found = paired([{"role": "assistant", "content": None, "tool_calls": calls}, *results, user], NAMES)
    assert found == [{"role": "assistant", "content": None, "tool_calls": calls[:2]}, *results, user]


def test_integers_that_no_checkpoint_holds_are_doubles() -> None:
    (message, *_) = export("langchain", [call("1", n=BIG, all=[BIG**20, 2**63])], [result("1")])
    assert message["tool_calls"][0]["args"] == {"n": float(BIG), "all": [str(BIG**20), 2**63]}


def test_what_only_an_output_message_holds() -> None:
    source = [{"type": "url_citation", "url": "https://a", "title": "A", "start_index": 0, "end_index": 1}]
    plain: Fields = {"part_kind": "text", "content": "Yes."}
    cited = {**plain, "meta:openai_responses": {"annotations": source, "phase": "final_answer"}}
    bare, full, _ = export("openai-responses", [plain, cited])
    assert bare == {"role": "assistant", "content": "Yes."}
    assert (full["type"], full["status"], full["phase"]) == ("message", "completed", "final_answer")
    assert full["id"].startswith("msg_")
    assert full["content"] == [{"type": "output_text", "text": "Yes.", "annotations": source}]


def test_a_patch_says_whether_it_was_applied() -> None:
    patch = {"meta:openai_responses": {"type": "apply_patch_call_output"}}
    called = {**call("1"), "meta:openai_responses": {"type": "apply_patch_call"}}
    for status, told in (("success", "completed"), ("error", "failed")):
        said = export("openai-responses", [called], [result("1", status=status, **patch)])
        assert said[1] == {"type": "apply_patch_call_output", "call_id": "1", "status": told, "output": "done"}


def test_blocks_go_back_to_where_they_came_from_alone() -> None:
    hologram = {"part_kind": "custom:hologram", "block": {"type": "hologram"}}
    compaction = {"part_kind": "custom:compaction", "block": {"type": "compaction", "content": "So far."}}
    listing = {"type": "mcp_list_tools", "server_label": "s", "tools": []}
    parts = [{"part_kind": "text", "content": "x"}, hologram, compaction]
    assert len(export("openai-responses", parts)) == 2
    assert [block["type"] for block in export("anthropic", parts)[0]["content"]] == ["text"]
    own = export("anthropic", parts, provider_name="anthropic")
    assert [block["type"] for block in own[0]["content"]] == ["text", "hologram", "compaction"]
    assert export("openai-responses", [{"part_kind": "custom:mcp_list_tools", "block": listing}])[0] == listing


def test_pictures_of_another_wire_in_a_result_are_its_text() -> None:
    source = {"type": "data", "value": "AAAA", "mimeType": "image/png"}
    picture = {"type": "image", "source": source}
    own = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    for content, is_text in (([picture], True), ([own], False)):
        (_, answered) = export("anthropic", [call("1")], [result("1", content)])
        assert isinstance(answered["content"][0]["content"], str) == is_text


def test_a_user_who_said_nothing_is_left_out() -> None:
    asked = {"turn_type": "user", "parts": [{"part_kind": "user-prompt", "content": []}]}
    assert FORMATS["openai-responses"].write({"turns": [asked]}) == []
