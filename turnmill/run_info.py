"""What is known about a run beside its stream: the `run` object of the envelope."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class RunInfo(BaseModel):
    """What is known about a run beside its stream; in the run's first record. Unknown keys are kept."""

    model_config = ConfigDict(extra="allow", frozen=True, protected_namespaces=())

    agent_name: str | None = None
    model_name: str | None = None
    provider_name: str | None = None
    parent_run_id: str | None = None
    parent_thread_id: str | None = None
    continues: str | None = None  # the run that this one follows
    replaces: str | None = None  # the run that this one is another version of
    started_at: str | int | None = None
    request: Any = None
    external_id: str | None = None
    traceparent: str | None = None
