"""Whatever its own OpenAPI document lets a caller ask for, each answer is one that the document promises."""

from __future__ import annotations

import asyncio

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.gateways import Running

ENDLESS = ("/v1/figures/live", "/v1/threads/{thread_id}/live")  # read by other tests
EXAMPLES = 15  # of each operation
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


def fuzz(gateway: Running) -> int:
    """Call every operation with generated input. -> how many operations there were."""
    schema = schemathesis.openapi.from_url(f"{gateway.url}/openapi.json").exclude(path=list(ENDLESS))
    count = 0
    for found in schema.get_all_operations():
        operation = found.ok()

        @given(case=operation.as_strategy())
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def try_one(case: schemathesis.Case) -> None:
            case.call_and_validate(checks=CHECKS, timeout=30)

        try_one()
        count += 1
    return count


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_no_answer_is_a_surprise(gateway: Running) -> None:
    assert await asyncio.to_thread(fuzz, gateway) >= 10
