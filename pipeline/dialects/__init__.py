"""The wires that agents speak, one folder each, and the registry of them all."""

from __future__ import annotations

from typing import Final

from pipeline.assembly.dialect import Dialect
from pipeline.dialects.agents_sdk.events import AGENTS_SDK
from pipeline.dialects.pi_agent.events import PI_AGENT
from pipeline.dialects.pi_proxy.events import PI_PROXY
from pipeline.dialects.pydantic_ai.events import PYDANTIC_AI
from pipeline.dialects.thread_protocol.events import THREAD_PROTOCOL
from pipeline.dialects.vercel_ai.events import VERCEL_AI

DIALECTS: Final[dict[str, Dialect]] = {
    "agents-sdk": AGENTS_SDK,
    "pi-agent": PI_AGENT,
    "pi-proxy": PI_PROXY,
    "pydantic-ai": PYDANTIC_AI,
    "thread-protocol": THREAD_PROTOCOL,
    "vercel-ai": VERCEL_AI,
}
