"""What `turnmill` offers, to programs and to type checkers, and what its import loads."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import turnmill

SOURCE = Path(turnmill.__file__)
NAMES = [
    "AdkPlugin",
    "Answer",
    "BrokerError",
    "CallerError",
    "ClientSettings",
    "InvalidRecord",
    "Notice",
    "Notices",
    "PublishStreams",
    "PublishedRun",
    "Publisher",
    "Reason",
    "Report",
    "RunIdentity",
    "RunInfo",
    "RunStopped",
    "Steer",
    "StreamRequest",
    "SyncNotices",
    "SyncPublisher",
    "SyncRun",
    "SyncTurns",
    "Turn",
    "TurnmillError",
    "Turns",
    "ag_ui_events",
    "agent_events",
    "answer_id",
    "answers",
    "async_client",
    "claude_client",
    "claude_query",
    "client",
    "feedback",
    "flush",
    "langchain_handler",
    "load_settings",
    "openai_agents_processor",
    "published_response",
    "resumption",
    "transport",
]
PYDANTIC_MODELS = {"ClientSettings", "RunInfo"}
LOADED_LATER = {"aiokafka", "pydantic", "pipeline", "topics"}
LOADED = f"import sys; print(*sorted({LOADED_LATER!r} & sys.modules.keys()))"


def python(program: str) -> str:
    """-> what a new process prints."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_public_names() -> None:
    assert turnmill.__all__ == dir(turnmill) == NAMES
    for name in NAMES:
        assert getattr(turnmill, name).__name__ == name
    with pytest.raises(AttributeError, match="module 'turnmill' has no attribute 'Sender'"):
        _ = turnmill.Sender  # type: ignore[attr-defined]


def test_type_checkers_see_the_same_names() -> None:
    branches = [node for node in ast.parse(SOURCE.read_text()).body if isinstance(node, ast.If)]
    imports = [node for branch in branches for node in branch.body if isinstance(node, ast.ImportFrom)]
    assert {name.asname: node.module for node in imports for name in node.names} == turnmill.PUBLIC
    assert all(name.name == name.asname for node in imports for name in node.names), "not re-exported else"
    assert SOURCE.with_name("py.typed").exists()


def test_the_public_names_load_no_kafka_client_and_no_pydantic() -> None:
    names = ", ".join(name for name in NAMES if name not in PYDANTIC_MODELS)
    assert python(f"import turnmill; from turnmill import {names}, errors; {LOADED}") == ""


def test_nothing_of_the_client_loads_the_pipeline() -> None:
    paths = [path.relative_to(SOURCE.parents[1]).with_suffix("") for path in sorted(SOURCE.parent.rglob("*.py"))]
    modules = [".".join(path.parts).removesuffix(".__init__") for path in paths]
    assert "turnmill.kafka.producer" in modules
    assert python(f"import {', '.join(modules)}; {LOADED}") == "aiokafka pydantic"
