"""Chat Completions through gateways: what LiteLLM 1.110 and Portkey 1.15 write beside the protocol, as they sent it."""

from typing import Any

import pytest

from pipeline.dialects import shown
from pipeline.dialects.history import Origin, thread
from pipeline.dialects.openai_chat.formats import READER, messages
from tests.support.assembled import Assembled
from tests.support.chat_chunks import DONE, calls, chunk, run, status

META = "meta:openai_chat"
ORIGIN = Origin("0b0c4a3e-6a53-4a9e-9d0f-0d8f4c9d1a11", "agent-1", 1_768_903_200_000)
SIGNED = {"google": {"thought_signature": "sig"}}
CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
FRAMES = [
    [{**CALL, "extra_content": SIGNED}],
    [{**CALL, "provider_specific_fields": {"thought_signature": "sig"}}],
    [{**CALL, "function": {**CALL["function"], "thought_signature": "sig"}}],
]


def exported(got: Assembled) -> dict[str, Any]:
    """The answer for its server, which also comes back from a history as it was."""
    (answer,) = got.export("openai-chat")
    again = thread(READER, [{"role": "user", "content": "Go on"}, answer], ORIGIN)
    assert messages(again)[1] == answer
    return answer


@pytest.mark.parametrize("fragments", FRAMES, ids=["google", "litellm", "portkey"])
def test_a_call_keeps_the_signature_of_its_thought(fragments: list[dict[str, Any]]) -> None:
    """Gemini 3 refuses the call without it."""
    got = run(calls(*fragments), chunk({}, "tool_calls"), DONE)
    (call,) = got.parts("response")
    assert (call["args"], call["meta:thought_signature"]) == ({"a": 1}, "sig")
    (given,) = exported(got)["tool_calls"]
    assert given == {key: value for key, value in fragments[0].items() if key != "index"}


def test_a_signature_behind_an_id() -> None:
    """LiteLLM puts it there for clients that drop what they don't know; the id stays as it is."""
    got = run(calls({**CALL, "id": "call_1__thought__sig"}), chunk({}, "tool_calls"))
    (call,) = got.parts("response")
    assert (call["tool_call_id"], call["meta:thought_signature"]) == ("call_1__thought__sig", "sig")


@pytest.mark.parametrize("place", [{"index": 0}, {}], ids=["index", "no-index"])
def test_a_signature_in_a_later_chunk(place: dict[str, Any]) -> None:
    first = {**CALL, "function": {"name": "f", "arguments": '{"a":'}}
    begun = {key: value for key, value in first.items() if key != "index"} | place
    more = {**place, "function": {"arguments": "1}"}}
    got = run(calls(begun), calls(more), calls({**place, "extra_content": SIGNED}), chunk({}, "stop"))
    (call,) = got.parts("response")
    assert (call["args"], call["meta:thought_signature"]) == ({"a": 1}, "sig")


def test_a_signature_of_a_text() -> None:
    got = run(chunk({"content": "Sunny.", "extra_content": SIGNED}), chunk({}, "stop"))
    assert got.parts("response") == [{"part_kind": "text", "content": "Sunny.", "meta:thought_signature": "sig"}]
    assert exported(got)["extra_content"] == SIGNED


def thinking(**block: Any) -> dict[str, Any]:
    """A chunk of LiteLLM, which has each block twice, and its text once more."""
    piece = {"type": "thinking", "thinking": "", **block}
    beside = {"thinking_blocks": [piece]}
    text = block.get("thinking", "")
    return chunk({"content": "", "reasoning_content": text, **beside, "provider_specific_fields": beside})


def test_thinking_blocks() -> None:
    pieces = [
        thinking(thinking="Think ", index=0),
        thinking(thinking="of it.", index=0),
        thinking(signature="s", index=0),
    ]
    got = run(*pieces, chunk({"content": "Hello."}), chunk({}, "stop"))
    thought, text = got.parts("response")
    assert (thought["content"], thought["signature"], text["content"]) == ("Think of it.", "s", "Hello.")
    blocks = [{"type": "thinking", "thinking": "Think of it.", "signature": "s"}]
    assert exported(got) == {"role": "assistant", "content": "Hello.", "thinking_blocks": blocks}
    assert "provider_specific_fields" not in got.messages("response")[0].get(META, {})


def test_several_thinking_blocks_and_a_redacted_one() -> None:
    redacted = {"type": "redacted_thinking", "data": "sealed", "index": 2}
    got = run(
        *(thinking(thinking="One.", index=0), thinking(signature="a", index=0)),
        *(thinking(thinking="Two.", index=1), thinking(signature="b", index=1)),
        chunk({"content": "", "thinking_blocks": [redacted]}),
        chunk({"content": "Hello."}, "stop"),
    )
    thoughts = [(part["content"], part["signature"], part.get("thinking_id")) for part in got.parts("response")[:-1]]
    assert thoughts == [("One.", "a", None), ("Two.", "b", None), ("", "sealed", "redacted_thinking")]
    assert [block["type"] for block in exported(got)["thinking_blocks"]] == [
        "thinking",
        "thinking",
        "redacted_thinking",
    ]


def content_block(index: int, **delta: Any) -> dict[str, Any]:
    text = {"content": delta["text"]} if "text" in delta else {}
    return chunk({**text, "content_blocks": [{"index": index, "delta": delta}]})


def test_content_blocks() -> None:
    image = {"url": "data:image/png;base64,iVBORw0KGgo="}
    events = [
        *(content_block(0, thinking="Think "), content_block(0, thinking="of it."), content_block(0, signature="s")),
        *(
            content_block(1, data="sealed"),
            content_block(2, text="Hello."),
            content_block(3, type="image_url", image_url=image),
        ),
        chunk({}, "end_turn"),
    ]
    got = run(*events)
    thought, sealed, text, picture = got.parts("response")
    assert (thought["content"], thought["signature"], text["content"]) == ("Think of it.", "s", "Hello.")
    assert (sealed["signature"], sealed["thinking_id"]) == ("sealed", "redacted_thinking")
    assert picture["content"]["media_type"] == "image/png"
    assert [piece.text for event in events for piece in shown("openai-chat", event)] == ["Think ", "of it.", "Hello."]
    kinds = [block["type"] for block in exported(got)["content_blocks"]]
    assert kinds == ["thinking", "redacted_thinking", "text"]


def test_content_blocks_of_other_types_stay_beside_the_answer() -> None:
    """Portkey passes on what Anthropic's own tools find, in pieces without a type."""
    cited = {"url": "https://x.test", "title": "X", "cited_text": "It rains."}
    got = run(
        *(content_block(0, id="srvtoolu_1", name="web_search", input={}), content_block(0, partial_json='{"query":')),
        *(
            content_block(0, partial_json='"rain"}'),
            content_block(1, tool_use_id="srvtoolu_1", content=[{"title": "X"}]),
        ),
        *(content_block(2, text="It rains."), content_block(2, citation=cited), content_block(2, citation=cited)),
        chunk({}, "end_turn"),
    )
    assert [part["content"] for part in got.parts("response")] == ["It rains."]
    search, found, text = got.messages("response")[0][META]["content_blocks"]
    assert (search["name"], search["partial_json"]) == ("web_search", '{"query":"rain"}')
    assert found == {"tool_use_id": "srvtoolu_1", "content": [{"title": "X"}]}
    assert (text["text"], text["citations"]) == ("It rains.", [cited, cited])
    assert [message["event_data"]["url"] for message in got.messages("system")] == ["https://x.test", "https://x.test"]


def test_whole_content_blocks() -> None:
    blocks = [{"type": "thinking", "thinking": "Think.", "signature": "s"}, {"type": "text", "text": "Hello."}]
    message = {"role": "assistant", "content": "Hello.", "content_blocks": blocks}
    got = run({"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "end_turn"}]})
    thought, text = got.parts("response")
    assert (thought["content"], thought["signature"], text["content"]) == ("Think.", "s", "Hello.")
    assert exported(got) == message


def test_reasoning_items() -> None:
    item = {
        "id": "rs_1",
        "type": "reasoning",
        "encrypted_content": "enc",
        "summary": [{"type": "summary_text", "text": "T."}],
    }
    got = run(
        chunk({"reasoning_content": "T."}), chunk({"content": "Hi", "reasoning_items": [item]}), chunk({}, "stop")
    )
    thought, _ = got.parts("response")
    assert (thought["content"], thought["signature"], thought["thinking_id"]) == ("T.", "enc", "rs_1")
    assert exported(got)["reasoning_items"] == [item]


def beside(**fields: Any) -> dict[str, Any]:
    return chunk({"content": "", "provider_specific_fields": fields})


def result(number: int) -> dict[str, Any]:
    return {"type": "web_search_tool_result", "tool_use_id": f"srvtoolu_{number}", "content": [{"title": str(number)}]}


def test_each_citation_and_each_result_is_kept() -> None:
    """LiteLLM repeats its list of results with each chunk, and writes each citation alone."""
    cited = [{"url": f"https://x.test/{n}", "title": str(n), "cited_text": "It rains."} for n in (1, 2)]
    got = run(
        *(chunk({"content": "It rains. "}), beside(web_search_results=[result(1)])),
        *(beside(citation=cited[0]), beside(web_search_results=[result(1), result(2)]), beside(citation=cited[1])),
        *(beside(web_search_results=[result(3)]), chunk({}, "stop")),
    )
    kept = got.messages("response")[0][META]["provider_specific_fields"]
    assert kept == {"web_search_results": [result(1), result(2), result(3)], "citations": cited}
    sources = [message["event_data"]["url"] for message in got.messages("system")]
    assert sources == ["https://x.test/1", "https://x.test/2"]


@pytest.mark.parametrize("form", ["call", "beside"])
def test_a_search_of_the_server_is_its_own_call(form: str) -> None:
    """LiteLLM 1.108 writes it as a call, 1.110 beside the answer; for neither the application has a result."""
    function = {"name": "web_search", "arguments": '{"query": "rain"}'}
    search = {"id": "srvtoolu_1", "type": "function", "function": function, "index": 0}
    first = calls(search) if form == "call" else beside(server_tool_calls=[search])
    got = run(first, beside(web_search_results=[result(1)]), chunk({"content": "It rains."}), chunk({}, "stop"), DONE)
    text, call, answer = got.parts("response")
    assert (text["content"], call["part_kind"], call["args"]) == ("It rains.", "builtin-tool-call", {"query": "rain"})
    assert (answer["part_kind"], answer["tool_name"]) == ("builtin-tool-return", "web_search")
    assert (answer["tool_call_id"], answer["content"]) == ("srvtoolu_1", [{"title": "1"}])
    assert (status(got), got.messages("response")[0]["finish_reason"]) == ("complete", "stop")


def test_fragments_that_never_get_a_name_are_no_call() -> None:
    """Gateways write the arguments of a server's search like this."""
    fragments = [{"index": -1, "function": {"arguments": text}} for text in ("", '{"query": "rain"}')]
    got = run(chunk({"content": "It rains."}), *map(calls, fragments), chunk({}, "stop"))
    assert [part["part_kind"] for part in got.parts("response")] == ["text"]
    (response,) = got.messages("response")
    assert response[META] == {"tool_calls": [{"arguments": '{"query": "rain"}'}]}
    assert response["finish_reason"] == "stop"
    (partial,) = run(*map(calls, fragments)).agent_turns[0]["meta:partial"]["messages"]
    assert [part["args"] for part in partial["parts"]] == [{"query": "rain"}]  # its name may have followed


def test_a_cache_beside_the_prompt() -> None:
    """Portkey counts Anthropic's caches in the total alone."""
    caches = {"cache_read_input_tokens": 500, "cache_creation_input_tokens": 70}
    usage = {"prompt_tokens": 100, **caches, "completion_tokens": 42, "total_tokens": 712}
    details = {"prompt_tokens_details": {"cached_tokens": 500}}
    (turn,) = run(chunk({"content": "Hello."}), chunk({}, "stop", usage={**usage, **details})).agent_turns
    assert turn["total_usage"]["input_tokens"] == 670
    assert (turn["total_usage"]["cache_read_tokens"], turn["total_usage"]["cache_write_tokens"]) == (500, 70)
