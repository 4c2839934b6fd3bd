"""GET /v1/usage: the report of the store, bounded to the caller's tenant."""

import csv
import io
from typing import Any

import httpx
import pytest

from pipeline.stores.database.store import ThreadStore
from pipeline.stores.turns import write_turns
from pipeline.stores.usage.query import usage_report
from pipeline.stores.usage.report import UsageQuery
from tests.support.gateways import Running, Tokens, client
from tests.support.turn_records import make_record


@pytest.fixture
async def filled(gateway_settings: Any) -> UsageQuery:
    """Turns of two tenants and of nobody."""
    async with await ThreadStore.open(gateway_settings.store_url) as store:
        await write_turns(
            store,
            [
                make_record(f"chat{n}", f"r{n}", seconds=n * 900, tokens=n, model=f"m{n % 3}", **tenant)
                for n in range(30)
                for tenant in ([{"tenant": f"t{n % 2}"}] if n % 5 else [{}])
            ],
        )
    return UsageQuery(("model", "tenant"), "day")


async def test_json_and_csv(filled: UsageQuery, gateway_settings: Any, http: httpx.AsyncClient) -> None:
    async with await ThreadStore.open(gateway_settings.store_url) as store:
        expected = (await usage_report(store, filled)).document()
    asked = {"group_by": "model,tenant", "bucket": "day"}
    answer = await http.get("/v1/usage", params=asked)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == expected
    assert answer.json()["total"]["turns"] == 30
    repeated = await http.get("/v1/usage", params=[("group_by", "model"), ("group_by", "tenant"), ("bucket", "day")])
    assert repeated.json() == expected
    printed = await http.get("/v1/usage", params={**asked, "format": "csv", "limit": 2})
    lines = list(csv.DictReader(io.StringIO(printed.text)))
    assert printed.headers["content-type"].startswith("text/csv")
    assert sum(int(line["requests"]) for line in lines) == 30
    assert lines[-1]["model"] == "other"


async def test_filters_and_times(filled: UsageQuery, http: httpx.AsyncClient) -> None:
    asked = [("model", "m1"), ("model", "m2"), ("tenant", "t1"), ("from", "2026-01-20T14:00"), ("tz", "Europe/Berlin")]
    answer = (await http.get("/v1/usage", params=asked)).json()
    numbers = [n for n in range(30) if n % 5 and n % 3 and n % 2 and n * 900 >= 3 * 3600]
    assert answer["total"]["input_tokens"] == sum(numbers)
    assert answer["from"] == "2026-01-20T14:00:00+01:00"


async def test_calls_beside_the_answer_and_in_a_tier(gateway_settings: Any, http: httpx.AsyncClient) -> None:
    """The day's price of gpt-5 is $1.25 for a million tokens of input; the package has none for the tier flex."""
    one = make_record("chat", "r1")
    (response,) = one["turn"]["messages"]
    response |= {"model_name": "gpt-5", "provider_name": "openai"}
    answer, beside, flex = {"input_tokens": 8}, {"input_tokens": 4_000}, {"input_tokens": 2, "service_tier": "flex"}
    one["turn"]["messages"] = [
        {**response, "usage": answer},
        {**response, "usage": beside, "meta:purpose": "compaction"},
        {**response, "usage": flex},
    ]
    async with await ThreadStore.open(gateway_settings.store_url) as store:
        await write_turns(store, [one])
    for asked, tokens, dollars in (
        ({"purpose": "compaction"}, 4_000, 0.005),
        ({"purpose": "", "service_tier": ""}, 8, 0.00001),
        ({"service_tier": "flex"}, 2, None),
    ):
        total = (await http.get("/v1/usage", params=asked)).json()["total"]
        assert (total["input_tokens"], total["cost_usd"], total["output_tokens"]) == (tokens, dollars, None)
    report = (await http.get("/v1/usage", params={"group_by": "purpose"})).json()
    assert [(row["purpose"], row["input_tokens"]) for row in report["rows"]] == [("compaction", 4_000), ("", 10)]
    assert (report["unpriced"], report["unpriced_reasons"]) == ({"gpt-5": 1}, {"none for service tier flex": 1})
    found = (await http.get(f"/v1/threads/{one['thread_id']}/usage")).json()
    (turn,) = found["turns"].values()
    steps = [(step["purpose"], step["cost_kind"], step["unpriced"]) for step in turn["steps"]]
    computed = "computed"
    assert steps == [(None, computed, None), ("compaction", computed, None), (None, None, "none for service tier flex")]
    assert (found["total"]["cost_usd"], found["total"]["output_tokens"]) == (0.00501, None)


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"group_by": "colour"}, 400),
        ({"bucket": "year"}, 422),
        ({"tz": "Mars/Base"}, 400),
        ({"from": "soon"}, 400),
        ({"from": "2026-01-02", "to": "2026-01-01"}, 400),
        ({"limit": "0"}, 422),
        ({"order": "colour"}, 422),
        ({"format": "xml"}, 422),
        ({"bucket": "minute", "group_by": "thread", "limit": "1000"}, 400),
    ],
)
async def test_what_can_not_be_asked(
    filled: UsageQuery, http: httpx.AsyncClient, asked: dict[str, str], status: int
) -> None:
    answer = await http.get("/v1/usage", params=asked)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.json()["detail"]


async def test_a_tenant_sees_its_own_usage_only(filled: UsageQuery, guarded: Running, tokens: Tokens) -> None:
    async with await ThreadStore.open(guarded.settings.store_url) as store:
        await write_turns(store, [make_record("acme's", "x", tokens=777, tenant="acme", model="secret-model")])
        await write_turns(store, [make_record("globex's", "y", tokens=555, tenant="globex")])
    async with client(guarded.url, tokens.acme) as http:
        assert (await http.get("/v1/usage")).json()["total"]["input_tokens"] == 777
        assert (await http.get("/v1/usage", params={"tenant": "acme"})).json()["total"]["input_tokens"] == 777
        assert (await http.get("/v1/usage", params={"tenant": "globex"})).status_code == 403
    async with client(guarded.url, tokens.globex) as http:
        asked = {"group_by": "tenant,model,thread,agent", "model": "secret-model"}
        answer = await http.get("/v1/usage", params=asked)
        assert (answer.json()["rows"], answer.json()["unpriced"]) == ([], {})
    async with client(guarded.url, tokens.operator) as http:
        assert (await http.get("/v1/usage")).json()["total"]["turns"] == 32
    async with client(guarded.url) as http:
        assert (await http.get("/v1/usage")).status_code == 401
