"""The real Pydantic AI loads our messages and goes on with them, in each supported release and from each wire."""

from functools import cache

import pytest

from pipeline.dialects.pydantic_ai.formats import messages
from tests.sdks.python_sdks import PYDANTIC_AI, problems
from tests.sdks.threads import STREAMS, all_threads, of_wire


@cache
def found(release: str) -> dict[str, str]:
    histories = {
        f"{dialect}: {name}": messages(thread, for_version=release)
        for dialect in STREAMS
        for name, thread in all_threads(dialect)
    }
    return problems(f"pydantic-ai-{release}", "pydantic_ai_loader.py", histories)


@pytest.mark.parametrize("dialect", STREAMS)
@pytest.mark.parametrize("release", PYDANTIC_AI)
def test_the_release_loads_every_run_and_goes_on(release: str, dialect: str) -> None:
    assert of_wire(dialect, found(release)) == {}
