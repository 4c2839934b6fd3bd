"""Releases of Python SDKs from PyPI, each beside this package in an environment of its own under .cache/sdks."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from pipeline.devbroker.file_lock import locked
from tests.support.places import ROOT

HERE: Final = Path(__file__).parent
PINNED: Final = re.compile(r"==.*")
PROVIDERS: Final = ("openai==3.57.0", "anthropic==2.14.0", "mistralai==3.7.0", "google-genai==3.6.1")
SDKS: Final = {
    "anthropic": ("anthropic==2.14.0",),
    "celery": ("celery==5.7.0", "httpx==0.28.1"),
    "claude-agent-sdk": ("claude-agent-sdk==0.2.189",),
    "confluent-kafka": ("confluent-kafka==2.16.1",),
    "continuing": ("anthropic==2.14.0", "google-genai==3.6.1"),
    "google-adk": ("google-adk==2.13.0",),
    "google-genai": ("google-genai==3.6.1",),
    "langchain": ("langchain==1.5.2", "langgraph==1.2.24", "langchain-core==1.8.3"),
    "langgraph": ("langgraph==1.2.24", "langchain-core==1.8.3", "langchain-openai==1.7.4"),
    "litellm": ("litellm==1.110.2",),
    "openai": ("openai==3.57.0",),
    "openai-agents": ("openai-agents==0.24.0", "openai==3.57.0"),
    "openai-and-pydantic-ai": ("pydantic-ai-slim[openai]==2.68.0",),
    "otel-openinference": (
        *("openai==3.57.0", "openinference-instrumentation-openai==0.1.66"),
        *("opentelemetry-sdk==1.45.2", "opentelemetry-exporter-otlp-proto-http==1.45.2"),
    ),
    "otel-pydantic-ai": (
        *("pydantic-ai-slim[openai]==2.68.0", "opentelemetry-sdk==1.45.2"),
        "opentelemetry-exporter-otlp-proto-http==1.45.2",
    ),
    "providers": PROVIDERS,
    "providers-over-http": (*PROVIDERS, "httpx==0.28.1"),  # which these SDKs themselves no longer bring
    "model-wires": ("boto3==1.44.8", "ollama==0.6.3", "cohere==7.3.1", "mistralai==3.7.0", "google-genai==3.6.1"),
    "strands": ("strands-agents[openai]==1.62.0",),
    "pydantic-ai-2.68.0": ("pydantic-ai-slim[ag-ui,openai,ui]==2.68.0", "fastapi==0.165.0", "uvicorn==0.54.0"),
    "pydantic-ai-1.107.10": ("pydantic-ai-slim[ui]==1.107.10",),
    # It imports a module that later releases of OpenTelemetry no longer have.
    "pydantic-ai-1.20.0": ("pydantic-ai-slim[ui]==1.20.0", "opentelemetry-api<1.39"),
}
PYDANTIC_AI: Final = tuple(name.removeprefix("pydantic-ai-") for name in SDKS if name.startswith("pydantic-ai-"))


@cache
def environment(sdk: str, *, newest: bool = False) -> Path:
    """The Python that has this SDK and this package; installed with uv where what it needs has changed.

    `newest`: the releases of today instead of those in SDKS.
    """
    home = ROOT / ".cache" / "sdks" / (f"newest-{sdk}" if newest else sdk)
    wanted = [PINNED.sub("", name) if newest else name for name in SDKS[sdk]]
    with locked(home.with_name(f"{home.name}.lock")):
        return _installed(home, ["--editable", str(ROOT), *wanted], str(datetime.now(UTC).date()) if newest else None)


def _installed(home: Path, wanted: list[str], day: str | None) -> Path:
    """Install what is wanted, unless that was done; `day`: anew on each day."""
    python, done = home / "bin" / "python", home / "installed.json"
    told = [*wanted, day] if day else wanted
    if not done.exists() or json.loads(done.read_text()) != told:
        uv = shutil.which("uv")
        assert uv is not None, "uv is needed to install the SDKs: https://docs.astral.sh/uv/"
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", "3.11", home], check=True)
        subprocess.run([uv, "pip", "install", "--quiet", "--upgrade", "--python", python, *wanted], check=True)
        done.write_text(json.dumps(told))
    return python


def run(
    sdk: str, program: str, *arguments: str | Path, variables: dict[str, str] | None = None, newest: bool = False
) -> Any:
    """Run a program of tests/sdks in an SDK's environment -> its last line, as JSON."""
    told = {**os.environ, "PYTHONPATH": str(ROOT), **(variables or {})}
    command = [environment(sdk, newest=newest), HERE / program, *arguments]
    done = subprocess.run(command, env=told, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@contextmanager
def server(command: Sequence[str | Path], port: int, variables: Mapping[str, str]) -> Iterator[None]:
    """A server that answers inside of `with`. It stops on SIGTERM."""
    process = subprocess.Popen(command, env={**os.environ, **variables})
    try:
        for _ in range(1_800):
            assert process.poll() is None, f"{command} has ended"
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        yield
        process.terminate()
        assert process.wait(60) in (0, -signal.SIGTERM)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def problems(sdk: str, loader: str, histories: dict[str, Any], *arguments: str) -> dict[str, str]:
    """What a loader has against histories, by their names."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "histories.json"
        file.write_text(json.dumps(histories))
        found = run(sdk, loader, file, *arguments)
    assert found.keys() == histories.keys()
    return {name: problem for name, problem in found.items() if problem}
