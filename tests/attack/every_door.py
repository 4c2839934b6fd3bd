"""Each endpoint of the OpenAPI document, with no session, a lesser role, another tenant's, and another site's page."""

import json
from dataclasses import replace
from typing import Final

from pydantic import SecretStr

from pipeline.gateway.access.token_table import made_token, new_secret
from pipeline.policies.sign_in import SCOPES
from pipeline.stores.accounts.tokens import Session, begin_session
from pipeline.stores.database.store import ThreadStore
from tests.attack.attack import Attack
from tests.attack.stage import Stage
from tests.support.endpoints import let_in, operations
from tests.support.gateways import client
from turnmill.clock import now_ms

ORIGIN: Final = "http://127.0.0.1:1"
FEWEST: Final = 30  # endpoints that there are at least
HOUR_MS: Final = 3_600_000


async def every_door(stage: Stage) -> None:
    """On a gateway where people sign in; the session of a viewer is made in the store, as a sign-in does."""
    secret = new_secret()
    made = made_token(secret, "eve", SCOPES["viewer"], "acme", by="an attack", expires_at=now_ms() + HOUR_MS)
    session = Session("provider", "eve", None, "viewer", HOUR_MS)
    async with await ThreadStore.open(stage.settings.store_url) as store:
        await begin_session(store, replace(made, session=session), None, now_ms())
    rules = [{"role": "viewer", "claim": "sub", "value": "eve", "tenant": "acme"}]
    signing_in = {
        "gateway_url": ORIGIN,
        "gateway_oidc": SecretStr(ORIGIN),
        "gateway_oidc_client_id": "x",
        "gateway_oidc_client_secret": SecretStr("x" * 32),
        "gateway_oidc_roles": json.dumps(rules),
    }
    async with stage.another_gateway(**signing_in) as url, client(url) as nobody, client(url) as viewer:
        viewer.cookies.set("turnmill", secret)
        assert (await viewer.get("/v1/threads")).status_code == 200
        document = (await nobody.get("/openapi.json")).json()
        found = [wrong for one in operations(document) for wrong in await let_in(one, nobody, viewer, ORIGIN)]
        assert not found, "\n".join(found)
        assert len(list(operations(document))) >= FEWEST
        swapped = await nobody.get("/v1/threads", headers={"Authorization": f"Bearer {secret}"})
        assert swapped.status_code == 401, "a cookie's secret is no bearer token"


ATTACKS: Final = (
    Attack(
        "every door",
        "each endpoint without a session, with a lesser role, for another tenant, from another site's page",
        "be answered",
        every_door,
        short=True,
    ),
)
