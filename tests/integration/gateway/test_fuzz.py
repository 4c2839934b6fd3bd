"""Whatever its own OpenAPI document lets a caller ask for, each answer is one that the document promises.

None of the requests holds the event loop for longer than LOOP seconds of computing, or takes more memory than MEMORY.
"""

import asyncio
import gc
import re
from pathlib import Path

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.support.endpoints import endless_paths
from tests.support.gateways import Running
from tests.support.loop_time import longest_callback

LOOP = 0.2
MEMORY = 256 * 1024 * 1024


def fuzz(gateway: Running) -> int:
    """Call every operation with generated input. -> how many operations there were."""
    import schemathesis  # a second of imports, which each process that collects tests would pay
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    @schemathesis.serializer("application/x-ndjson")
    def lines(_: schemathesis.SerializationContext, value: str) -> bytes:
        """A body of JSON lines is generated as any text."""
        return value.encode("utf-8", "replace")

    held = [not_a_server_error, checks.status_code_conformance, checks.content_type_conformance]
    held.append(checks.response_schema_conformance)
    schema = schemathesis.openapi.from_url(f"{gateway.url}/openapi.json").exclude(path=list(endless_paths()))
    examples = settings.default.max_examples * 15 // 100 if settings.default is not None else 15
    count = 0
    for found in schema.get_all_operations():
        operation = found.ok()

        @given(case=operation.as_strategy())
        @settings(
            max_examples=examples,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def try_one(case: schemathesis.Case) -> None:
            case.call_and_validate(checks=held, timeout=30)

        try_one()
        count += 1
    return count


def peak() -> int:
    """The most memory that this process has had since the last `forget_peak`, in bytes."""
    (line,) = re.findall(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(line) * 1024


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_no_answer_is_a_surprise(gateway: Running, http: httpx.AsyncClient) -> None:
    assert (await http.get("/readyz")).status_code == 200  # connected once, as a probe does
    assert (await http.get("/openapi.json")).status_code == 200
    gc.collect()
    gc.freeze()  # all that the tests have imported would be walked in some callback; a gateway has none of it
    forget_peak()
    before = peak()
    try:
        with longest_callback() as longest:
            assert await asyncio.to_thread(fuzz, gateway) >= 10
    finally:
        gc.unfreeze()
    assert longest.seconds < LOOP, f"{longest.seconds:.2f} s in {longest.callback}"
    assert peak() - before < MEMORY, f"{peak() - before >> 20} MiB"
