"""Facts about an uploaded run that its stream doesn't hold: from the query, headers, or the body's first event."""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from pipeline.dialects import DIALECTS
from pipeline.dialects.recognition import AUTO
from pipeline.gateway.problems import Problem
from pipeline.gateway.routing import Named
from turnmill.errors import InvalidRecord, expectation
from turnmill.identity import thread_uuid
from turnmill.publish.run_info import RunInfo
from turnmill.wire.envelope import MAX_INTEGER, loads

PREFIX: Final = "turnmill_"

End = Literal["complete", "aborted", "error", "disconnected", "open"]


class Facts(BaseModel, protected_namespaces=()):
    """Facts about a run that its stream doesn't hold, as query parameters."""

    agent_id: Named | None = Field(None, description="By default the agent's name, or `agent`.")
    agent_name: Named | None = Field(None, description="Display name.")
    model_name: Named | None = Field(None, description="If the stream does not name it.")
    provider_name: Named | None = Field(None, description="If the stream does not name it.")
    parent_run_id: Named | None = Field(None, description="The run that started this one, if this is a sub-agent's.")
    parent_thread_id: Named | None = Field(None, description="The thread of the parent run, if it differs.")
    continues: Named | None = Field(None, description="The run that this one follows.")
    replaces: Named | None = Field(None, description="The run that this one is another version of.")
    user: Named | None = Field(None, description="Whose conversation it is; this and the next four are labels.")
    tags: Named | None = Field(None, description="With commas between them.")
    environment: Named | None = Field(None, description="As `production`.")
    project: Named | None = Field(None, description="The project that the run belongs to.")
    branch: Named | None = Field(None, description="The branch of its repository.")
    request: str | None = Field(None, description="JSON: the body that the agent's server was called with.")


class FactHeaders(BaseModel, protected_namespaces=()):
    """Facts about a run as headers, for clients that can't set the query, which takes precedence."""

    turnmill_agent_id: Named | None = Field(None, description="As `agent_id`.")
    turnmill_agent_name: Named | None = Field(None, description="As `agent_name`.")
    turnmill_model_name: Named | None = Field(None, description="As `model_name`.")
    turnmill_provider_name: Named | None = Field(None, description="As `provider_name`.")
    turnmill_parent_run_id: Named | None = Field(None, description="As `parent_run_id`.")
    turnmill_parent_thread_id: Named | None = Field(None, description="As `parent_thread_id`.")
    turnmill_continues: Named | None = Field(None, description="As `continues`.")
    turnmill_replaces: Named | None = Field(None, description="As `replaces`.")
    turnmill_user: Named | None = Field(None, description="As `user`.")
    turnmill_tags: Named | None = Field(None, description="As `tags`.")
    turnmill_environment: Named | None = Field(None, description="As `environment`.")
    turnmill_project: Named | None = Field(None, description="As `project`.")
    turnmill_branch: Named | None = Field(None, description="As `branch`.")
    turnmill_request: str | None = Field(None, description="As `request`.")
    turnmill_from_seq: Annotated[int, Field(ge=0, le=MAX_INTEGER)] | None = Field(None, description="As `from_seq`.")
    traceparent: str | None = Field(None, description="The span that the run is a part of (W3C).")
    content_type: str | None = Field(None, max_length=500, description="Anything but files and forms.")
    content_encoding: str | None = Field(None, max_length=200, description="None but `identity`.")


HEADERS: Final = tuple(name.replace("_", "-") for name in FactHeaders.model_fields if name.startswith(PREFIX))


class UploadQuery(Facts):
    """The query of an upload."""

    dialect: Literal[AUTO, *DIALECTS] = Field(  # type: ignore[valid-type]  # the names of a registry
        description="The protocol of the stream. `auto`: recognised by the first events, which wait until then."
    )
    tenant: Annotated[str, StringConstraints(max_length=200)] | None = Field(
        None, description="The run's tenant; for tokens without a tenant."
    )
    from_seq: Annotated[int, Field(ge=0, le=MAX_INTEGER)] | None = Field(
        None, description="The number of the body's first event: `next_seq` of the previous upload. By default 0."
    )
    end: End | None = Field(
        None,
        description="How the run ended. By default `complete` if the stream has its end, else `disconnected`. "
        "`open`: another upload continues it.",
    )
    info: Literal["query", "first"] = Field(
        "query",
        description="`first`: the body's first event is a JSON object of these parameters, for a large `request`.",
    )


def facts_of(where: UploadQuery, headers: FactHeaders, in_body: dict[str, Any]) -> tuple[Facts, Any]:
    """Return each fact from the query, else the headers, else the body; and the request's JSON. Raises Problem."""
    values: dict[str, Any] = {}
    for name in Facts.model_fields:
        value = getattr(where, name)
        values[name] = value if value is not None else getattr(headers, PREFIX + name)
    request = values["request"]
    if request is not None:
        try:
            request = loads(request.encode("utf-8", "surrogatepass"))
        except InvalidRecord as error:
            raise Problem("bad-request", f"request: {error.detail}; its JSON is expected") from None
    known = {name: value if value is not None else in_body.get(name) for name, value in values.items()}
    try:
        return Facts.model_validate(known | {"request": None}), in_body.get("request") if request is None else request
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise Problem("bad-request", f"the body's first event: {first['loc'][0]}: {expectation(first)}") from None


def info_of(facts: Facts, request: Any, tenant: str | None) -> RunInfo:
    """Return the facts and the request as the envelope's `run`."""
    known = facts.model_dump(exclude={"agent_id"}, exclude_none=True)
    if facts.parent_thread_id is not None:
        known["parent_thread_id"] = thread_uuid(facts.parent_thread_id, tenant)[0]
    return RunInfo.model_validate(known | {"request": request})
