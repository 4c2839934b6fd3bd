"""The wire of docs/adding/wire.md in a gateway of its own: uploaded, followed, and read in its own format."""

import json
from pathlib import Path

from pipeline.settings import Settings
from pipeline.stores.database.store import ThreadStore
from pipeline.stores.turns import write_turns
from tests.support import toy_wire
from tests.support.gateways import client, replayed
from tests.support.turn_records import make_record


async def test_a_gateway_takes_it_and_shows_it(gateway_settings: Settings, tmp_path: Path) -> None:
    program = toy_wire.program(tmp_path / "program")
    async with await ThreadStore.open(gateway_settings.store_url) as store:
        await write_turns(store, [make_record("old")])
    with toy_wire.gateway(gateway_settings, program) as url:
        async with client(url) as http:
            operations = (await http.get("/openapi.json")).json()["paths"]
            assert "toy" in json.dumps(operations["/v1/threads/{thread_id}/runs/{run_id}/stream"])

            sent = await http.post("/v1/threads/chat/runs/r1/stream?dialect=toy", content=toy_wire.STREAM.encode())
            assert (sent.status_code, sent.json()["events"], sent.json()["end"]) == (200, 6, "complete")

            plain = [json.loads(message.data) for message in await replayed(http, "chat", wait="true")]
            assert all("shows" not in said for said in plain)
            shown = [json.loads(message.data) for message in await replayed(http, "chat", shows="true")]
            assert [said.get("shows") for said in shown] == [
                [["text", "Let me "]],
                [["text", "look."]],
                [["tool", "get_weather"]],
                [],
                [["text", "72F."]],
                [],
                None,  # the end
            ]
            assert [{**said, "shows": 0} for said in plain] == [{**said, "shows": 0} for said in shown]

            stored = (await http.get("/v1/threads/old?format=toy")).json()
            assert stored["messages"], "texts of the stored turn"
