"""The facts about a run beside its stream: the `run` object of the envelope."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints

from turnmill.limits import NAMED_CHARACTERS

Named = Annotated[str, StringConstraints(max_length=NAMED_CHARACTERS)]


def _listed(value: Any) -> Any:
    return value.split(",") if isinstance(value, str) else value


class RunInfo(BaseModel):
    """The facts about a run beside its stream, in the run's first record. Unknown keys are kept."""

    model_config = ConfigDict(extra="allow", frozen=True, protected_namespaces=())

    agent_name: Named | None = None
    model_name: Named | None = None
    provider_name: Named | None = None
    parent_run_id: Named | None = None
    parent_thread_id: Named | None = None
    continues: Named | None = None  # the run that this one follows
    replaces: Named | None = None  # the run of which this one is another version
    started_at: str | int | float | None = None
    request: Any = None
    external_id: Named | None = None
    traceparent: Any = None  # anything but a trace context is left out
    thread: dict[str, Any] | None = None  # facts about its thread: `title`, `metadata`
    user: Named | None = None  # this and the next ones: labels, by which lists and reports filter and group
    tags: Annotated[list[Named], BeforeValidator(_listed)] | None = None  # also as `beta,eu`
    environment: Named | None = None
    project: Named | None = None
    branch: Named | None = None
    imported: Any = None  # true: published after the fact, so that webhooks, budgets and live figures ignore it
