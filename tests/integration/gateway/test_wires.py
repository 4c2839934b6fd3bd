"""Recorded runs of wires through a gateway and a store: upload, live stream, list, document, search, bill, exports."""

import asyncio
import json
import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import httpx
import pytest
from click.testing import CliRunner
from genai_prices import Usage, calc_price

from pipeline.__main__ import cli
from pipeline.assembly.offline import assemble
from pipeline.dialects import DIALECTS, FORMATS
from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.turns import write_turns
from tests.support.gateways import replayed
from tests.support.topic_records import read_all
from topics.catalog import EVENTS
from turnmill.wire.envelope import decode

CORPUS = Path(__file__).parents[2] / "corpus"
SONNET = "anthropic.claude-sonnet-4-5-20250929-v1:0"
PROMPT = [{"role": "user", "content": [{"text": "When is high tide?"}]}]
COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


class Case(NamedTuple):
    """A recording, under the folder of its wire's runs or streams; a model with a price, and whose it is.

    `renamed`: names in the recording, in whose place it gets others. `facts`: of its publisher, in the query of the
    upload. `provider`: as the price list names it; empty: the run tells the price.
    """

    wire: str
    name: str
    model: str | None = None
    provider: str | None = None
    renamed: Mapping[str, str] = MappingProxyType({})
    facts: Mapping[str, str] = MappingProxyType({})


def in_region(region: str) -> Case:
    model = f"{region}{SONNET}"
    asked = {"request": json.dumps({"modelId": model, "messages": PROMPT})}
    return Case("bedrock", "wires/bedrock/tools-2-frames.bin", model, "aws", facts=asked)


def named(wire: str, name: str, model: str, scripted: str, provider: str | None = None) -> Case:
    """A run whose scripted model gets a name with a price."""
    return Case(wire, f"{name}.jsonl", model, provider, {scripted: model})


def told_beside(wire: str, name: str, model: str, provider: str | None = None) -> Case:
    """A stream without the model's name, which the publisher knows."""
    return Case(wire, f"wires/{wire}/{name}", model, provider, facts={"model_name": model})


CASES = [
    *map(in_region, ("us.", "eu.", "global.", "")),
    Case("ollama", "model_runs/ollama/two-rounds.jsonl"),  # a model on one's own machine has no price
    named("cohere", "model_runs/cohere/two-rounds", "command-a-03-2025", "command-own", "cohere"),
    named("mistral", "model_runs/mistral/two-rounds", "mistral-medium-latest", "own-medium", "mistral"),
    named("openai-realtime", "wires/openai-realtime/three-rounds", "gpt-realtime", "own-realtime", "openai"),
    named("gemini-interactions", "model_runs/gemini-interactions/two-rounds", "gemini-2.5-flash", "own-gem"),
    Case(
        "codex",
        "wires/codex/tools.jsonl",
        "gpt-5-codex",
        # the thread's id holds the time when it began, and counts of a thread that is older than the run are a sum
        renamed={"01a21e0a-cc83-7e02-8324-6493f384602b": "a-thread-that-begins-now"},
        facts={"model_name": "gpt-5-codex"},
    ),
    Case("opencode", "wires/opencode/tools.jsonl", provider=""),
    named("gemini-cli", "wires/gemini-cli/tools", "gemini-2.5-flash", "own-gem"),
    Case("openai-agents-js", "wires/openai-agents-js/tool.jsonl", "gpt-5-mini", facts={"end": "complete"}),
    named("mastra", "wires/mastra/tool", "gpt-5-mini", "scripted-1"),
    told_beside("strands", "bedrock-tools.jsonl", f"eu.{SONNET}", "aws"),
    Case("acp", "wires/acp/tools.jsonl", provider=""),
    told_beside("a2a", "rest-v03-tools.sse", "gemini-2.5-flash"),
]


def test_each_wire_that_has_no_suite_of_its_own_here_has_a_case() -> None:
    elsewhere = {"otel", "thread-protocol", "toy"}
    older = {wire for wire in DIALECTS if DIALECTS[wire].formats} | {
        "agents-sdk",
        "claude-code",
        "openai-agents",
        "pi-proxy",
    }
    assert {case.wire for case in CASES} >= DIALECTS.keys() - older - elsewhere


def stream_of(case: Case) -> bytes:
    stream = (CORPUS / case.name).read_bytes()
    for name, other in case.renamed.items():
        stream = stream.replace(f'"{name}"'.encode(), f'"{other}"'.encode())
    return stream


async def uploaded(case: Case, settings: Settings, http: httpx.AsyncClient) -> list[Any]:
    """The records of a run that the gateway has published, assembled and written to its store."""
    sent = await http.post(
        "/v1/threads/chat/runs/r1/stream", params={"dialect": case.wire, **case.facts}, content=stream_of(case)
    )
    assert (sent.status_code, sent.json()["refused"]) == (200, 0), sent.text
    envelopes = [decode(record.value) for record in await read_all(settings, EVENTS)]
    records, refused = assemble(DIALECTS[case.wire], envelopes)
    assert not refused
    async with await ThreadStore.open(settings.store_url) as store:
        await write_turns(store, records)
    return records


def messages_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [message for turn in document["turns"] for message in turn.get("messages", ())]


def parts_of(document: dict[str, Any], *kinds: str) -> list[dict[str, Any]]:
    parts = [part for message in messages_of(document) for part in message.get("parts", ())]
    return [part for part in parts if part["part_kind"] in kinds]


def price(case: Case, response: dict[str, Any]) -> Decimal:
    """What the price list says that a response costs, or what the response says."""
    if case.model is None:
        return Decimal(str(response["usage"]["cost"]))
    usage = Usage(**{name: response["usage"][name] for name in COUNTS if name in response["usage"]})
    at = datetime.fromisoformat(response["timestamp"])
    found = calc_price(usage, case.model, provider_id=case.provider, genai_request_timestamp=at)
    return round(found.total_price, 9)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.wire} {case.model}")
async def test_a_recorded_run_is_followed_listed_read_and_billed(
    case: Case, gateway_settings: Settings, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await uploaded(case, gateway_settings, http)
    document = (await http.get("/v1/threads/chat")).json()
    turns = [turn for turn in document["turns"] if turn["turn_type"] == "agent"]
    assert [turn["completion_status"] for turn in turns] == ["complete"] * len(turns)
    texts = [part["content"] for part in parts_of(document, "text")]
    assert texts

    shown = [json.loads(message.data).get("shows") or () for message in await replayed(http, "chat", shows="true")]
    said = "".join(text for pieces in shown for kind, text in pieces if kind == "text")
    assert all(text in said for text in texts)
    called = [text for pieces in shown for kind, text in pieces if kind == "tool"]
    assert len(called) >= len(parts_of(document, "tool-call")) or case.wire == "a2a"  # data, which nobody is shown

    (listed,) = (await http.get("/v1/threads")).json()["threads"]
    assert (listed["thread_id"], listed["external_id"]) == (document["thread_id"], "chat")
    monkeypatch.setenv("TURNMILL_STORE", gateway_settings.store_url)
    monkeypatch.setenv("TURNMILL_GATEWAY_PORT", "9")
    printed = await asyncio.to_thread(CliRunner().invoke, cli, ["threads", "list"], catch_exceptions=False)
    assert re.search(r"^chat .* complete ", printed.stdout, re.MULTILINE), printed.stdout

    word = max(re.findall(r"[^\W_]+", texts[-1]), key=len)
    found = (await http.get("/v1/search", params={"q": word, "role": "agent"})).json()["results"]
    assert document["thread_id"] in [hit["thread_id"] for hit in found], word

    total = (await http.get("/v1/usage", params={"group_by": "model"})).json()["total"]
    counted = [message for message in messages_of(document) if any((message.get("usage") or {}).values())]
    assert counted
    for name in COUNTS[:2]:
        assert (total[name] or 0) == sum(response["usage"].get(name, 0) for response in counted)
    if case.model is None and case.provider is None:
        assert (total["cost_usd"], total["unpriced"]) == (None, len(counted))
    else:
        assert Decimal(str(total["cost_usd"])) == sum(price(case, response) for response in counted) > 0


@pytest.mark.parametrize("case", CASES[3:], ids=lambda case: case.wire)
async def test_a_recorded_run_is_exported_to_every_format(
    case: Case, gateway_settings: Settings, http: httpx.AsyncClient
) -> None:
    """Each text, call and result is in each of them; of its thoughts those that the model takes back."""
    await uploaded(case, gateway_settings, http)
    document = (await http.get("/v1/threads/chat")).json()
    said = [part["content"] for part in parts_of(document, "text")]
    results = [part["content"] for part in parts_of(document, "tool-return")]
    for form in FORMATS:
        answer = await http.get("/v1/threads/chat", params={"format": form})
        assert answer.status_code == 200, form
        written = list(strings(answer.json()))
        assert [text for text in said if text not in "\n".join(written)] == [], form
        assert {re.sub(r"\W", "_", part["tool_name"]) for part in parts_of(document, "tool-call")} <= {
            re.sub(r"\W", "_", text.removeprefix("tool-")) for text in written
        }, form
        missing = [text for content in results for text in strings(content) if text not in "\n".join(written)]
        assert missing == [], form


def strings(value: Any) -> list[str]:
    """All texts in a value, also those in JSON texts."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return [value, *strings(json.loads(value))]
        except ValueError:
            return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value] if isinstance(value, str) else [text for each in inner for text in strings(each)]
