"""Runs of the real SDKs, recorded there and then: what is assembled is what each SDK made of its own stream.

A scripted server answers, the documented way to publish is taken, and no broker is needed: what can't be sent is in the
spool.
"""

import pytest

from pipeline.dialects import FORMATS
from pipeline.dialects.history import Origin, thread
from tests.corpus.compare_wires import judge
from tests.sdks.python_sdks import problems
from tests.sdks.recordings import assembled, recorded
from tests.sdks.scripted import CASES, QUESTION

SDKS = {
    "openai": "openai_recorder.py",
    "anthropic": "anthropic_recorder.py",
    "openai-agents": "openai_agents_recorder.py",
    "claude-agent-sdk": "claude_agent_recorder.py",
    "google-adk": "google_adk_recorder.py",
    "google-genai": "google_genai_recorder.py",
    "langgraph": "langgraph_recorder.py",
}


def test_what_the_agents_sdk_keeps_of_a_run_is_imported_and_goes_on() -> None:
    form, exports = FORMATS["openai-responses"], {}
    assert form.reader is not None
    for run_id, (truth, records) in recorded("openai-agents", SDKS["openai-agents"]).items():
        if not truth["failed"]:
            document = thread(form.reader, truth["history"], Origin(records[0]["thread_id"], "weather", 0))
            judge(document, {**truth, "tokens": None})
            assert document["turns"][0]["parts"] == [{"part_kind": "user-prompt", "content": QUESTION}]
            exports[run_id] = form.write(document)
            assert "__fake_id__" not in str(exports[run_id]), "no server knows it"
    assert exports
    assert problems("openai-agents", "openai_agents_loader.py", exports) == {}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sdk", SDKS)
def test_what_is_assembled_is_what_the_sdk_made(sdk: str, case: str) -> None:
    runs = [found for run_id, found in recorded(sdk, SDKS[sdk]).items() if run_id.endswith(f": {case}")]
    assert runs
    for truth, records in runs:
        assembled(truth, records)
