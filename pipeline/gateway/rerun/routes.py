"""Asking a model again over HTTP, with the caller's key, which is neither kept nor logged.

Only the operator decides where requests go: to the known providers, or to another address that this gateway's
environment sets for one of them. Callers can't name an address.
"""

import os
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header
from pydantic import BaseModel, Field, SecretStr

from pipeline.gateway.access.security import Again, alternatives
from pipeline.gateway.budgets.memory import TheBudgets, used_up
from pipeline.gateway.problems import Problem, bounded_answer, documented
from pipeline.gateway.proxy.client import session
from pipeline.gateway.rerun.calling import Changes, Pair, answer_of, assembled, call, chosen, publish
from pipeline.gateway.routing import Named, ThreadId, Whose
from pipeline.gateway.state import Service, TheGateway, TheSlots, provided, unknown_thread
from pipeline.observability.audit import about, audit
from pipeline.policies.pools import RERUNS
from pipeline.policies.slots import Slots
from pipeline.stores.threads.reading import read_thread
from turnmill.capture.providers import BASES, PROVIDERS

ACTION: Final = "thread.rerun"
PROMPT_CHARACTERS: Final = 1_000_000

router = APIRouter(prefix="/v1/threads", tags=["threads"])


class RerunRequest(BaseModel, extra="forbid"):
    """Which answer to ask for again, and the changes to its request."""

    turn: Annotated[Named | None, Field(description="Id of the turn or its run; by default the newest answer.")] = None
    model: Annotated[Named | None, Field(description="Another model of the same provider.")] = None
    system: Annotated[str | None, Field(max_length=PROMPT_CHARACTERS, description="Another system prompt.")] = None
    tools: Annotated[list[Any] | None, Field(description="Other tools, as the API takes them.")] = None
    values: Annotated[dict[str, Any], Field(description="Other parameters; null removes one.")] = {}
    publish: Annotated[bool, Field(description="Store a complete answer as another version.")] = True


class Reruns(Service):
    """The slots in which answers are asked for again."""

    def __init__(self) -> None:
        self.slots = Slots(RERUNS.size)


@router.post(
    "/{thread_id}/rerun",
    summary="Ask its model again",
    openapi_extra=alternatives("publish", "control"),
    responses=documented("bad-request", "unknown-thread", "conflict", "budget-used-up"),
)
async def rerun(
    gateway: TheGateway,
    slots: TheSlots,
    reruns: Annotated[Reruns, provided(Reruns)],
    budgets: TheBudgets,
    principal: Again,
    thread_id: ThreadId,
    wanted: RerunRequest,
    secret: Annotated[
        SecretStr, Header(alias="Turnmill-Provider-Key", max_length=2_000, description="Your key of the provider.")
    ],
    tenant: Whose = None,
) -> Pair:
    """Send the request of a stored answer again, with changes; return both answers. Needs the scope `read`, too."""
    if "read" not in principal.scopes:
        raise Problem("forbidden", "the token lacks the scope 'read': the answer that was there is shown, too")
    bounded = principal.bounded(tenant)
    key = await gateway.find(thread_id, bounded)
    store = await gateway.store()
    changes = Changes(wanted.model, wanted.system, wanted.tools, wanted.values, None)
    servers = [PROVIDERS[name] for name in BASES]
    keys = {name: secret.get_secret_value() for server in servers for name in server.keys}
    addresses = {server.variable: os.environ.get(server.variable, "") for server in servers}
    async with slots.reads.taken(bounded):
        document = await read_thread(store, key)
        if document is None:
            raise unknown_thread(thread_id)
        most = gateway.settings.gateway_response_bytes
        with bounded_answer("`turnmill rerun` has no such bound"):
            answer = await chosen(store, gateway.contents, key, document, wanted.turn, changes, keys | addresses, most)
    if answer is None:
        raise Problem("bad-request", "no such answer says what its model was asked (docs/requests.md)")
    await budgets.known()
    enforced = budgets.counting(key.tenant, answer.record["agent_id"], [answer.request.model], enforced=True)
    verdict = budgets.verdict(key.tenant, enforced)
    if not verdict.allowed:
        raise used_up(verdict)
    audit.info("asking %s again, by %r", key.text, principal.name, extra=about(key, ACTION))
    async with reruns.slots.taken(bounded), session(trust_env=True) as http:
        heard = await call(http, answer.request)
    record = assembled(heard, answer.request, answer.record)
    is_stored = wanted.publish and record["status"] == "complete"
    if is_stored:
        await publish(await gateway.publisher(), heard, answer.request, key, answer.record)
    before, after = (answer_of(each, gateway.settings.price_list) for each in (answer.record, record))
    return Pair(key.thread_id, answer.record["turn_id"], heard.run_id if is_stored else None, before, after)
