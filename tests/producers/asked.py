"""What Turnmill asks of a broker, read off its own requests: `python -m tests.producers.asked` writes it into the docs.

An agent, a worker, a gateway and the commands do all that they do, each with a proxy before the broker that notes what
passes. tests/producers/test_brokers.py compares, and takes away what is asked for.
"""

import asyncio
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import SecretStr

from docs.generate import markdown
from pipeline.cli.services.checks import WITHOUT
from pipeline.settings import Settings
from tests.producers.broker_proxy import API_VERSIONS, HEARTBEAT, NAMES, BrokerProxy, decoded, proxied, speaks
from tests.support.commands import turnmill
from tests.support.gateways import client, replayed, running, sse, talk
from tests.support.places import ROOT
from tests.support.topic_records import configure, publish
from tests.support.waiting import PATIENCE, until
from tests.support.workers import WorkerProcess, wait_until_stored
from topics.catalog import EVENTS, TURNS
from turnmill import Publisher
from turnmill.kafka.refusal import NEEDED

PAGE: Final = ROOT / "docs" / "operations" / "brokers.md"
THREAD: Final = "7d1a0a3e-0f0c-4c34-9a37-0c3d1be2b1a5"
WHO: Final = {"AGENT": "agents", "WORKER": "workers", "GATEWAY": "gateways", "COMMANDS": "commands"}
COMMANDS: Final = (
    "topics describe",
    "doctor --ledger",
    "dlq list",
    "dlq redrive --reason undecodable",
    "replay",
    "runs",
    "topics apply --grow",
)
# What each API is for, and with what: where settings matter they are read off the requests.
FOR: Final = {
    0: "records, each batch with all in-sync replicas' confirmation and a producer's id",
    1: "reading, without a fetch session, uncommitted records too",
    2: "the first and the last offset, and the offset of a time",
    3: "who leads which partition; creates no topic, before agents and workers write to it",
    8: "positions of groups", 9: "positions of groups, all of a group at once",
    10: "who keeps a group's positions",
    11: "groups of the classic protocol", 12: "groups", 13: "leaving a group at once", 14: "groups",
    15: "whether a worker runs that has read nothing yet",
    18: "what the broker offers, once for each connection",
    19: "missing topics", 22: "a producer's id, without transactions",
    32: "the topics' settings", 33: "the topics' settings", 37: "more partitions",
}  # fmt: skip


SEEN: Final = {  # fields of requests that brokers of other makes may have to know
    0: ("transactional_id", "required_acks"),
    1: ("isolation_level", "session_id"),
    11: ("protocol_type", "session_timeout", "rebalance_timeout", "group_instance_id"),
    19: (),
    22: ("transactional_id",),
}


def settings_of(folder: Path, address: str, **more: Any) -> Settings:
    """-> settings of a pipeline behind a proxy."""
    given = {
        "home": folder, "brokers": address, "partitions": 2, "topic_prefix": "asked", "gateway_port": 0,
        "store": f"sqlite:///{folder}/store.db", "webhooks": SecretStr("[]"), "idle_timeout": 1.0, "gateway_rate": 0.0,
    }  # fmt: skip
    return Settings(**{**given, **more})


def all_settings(folder: Path, proxies: Mapping[str, BrokerProxy]) -> dict[str, Settings]:
    return {who: settings_of(folder, proxies[who].address) for who in WHO}


async def command(settings: Settings, line: str) -> tuple[int, str]:
    """-> the exit status of a command, and what it says."""
    done = await turnmill(settings, *line.split())
    return done.returncode, done.stdout + done.stderr


async def published(settings: Settings, thread: str = THREAD) -> None:
    """Publish a run as an agent does."""
    async with (
        Publisher(settings) as publisher,
        publisher.run(thread_id=thread, agent_id="a", dialect="vercel-ai") as run,
    ):
        for event in talk(20):
            await run.send(event)


async def _beats(proxy: BrokerProxy) -> bool:
    return any(key == HEARTBEAT for key, _ in proxy.asked)


async def worked(folder: Path, proxies: Mapping[str, BrokerProxy]) -> None:
    """Have all parts of Turnmill do what they do, each through its proxy."""
    settings = all_settings(folder, proxies)
    assert (await command(settings["COMMANDS"], "topics apply"))[0] == 0
    one = WorkerProcess(settings["WORKER"], roles="assemble,metrics,store,feedback,notices").start()
    try:
        async with running(settings["GATEWAY"]) as serving, client(serving.url) as http:
            async with (
                Publisher(settings["AGENT"]) as publisher,
                publisher.run(thread_id=THREAD, agent_id="a", dialect="vercel-ai") as run,
            ):
                for event in talk(20):
                    await run.send(event)
                stop = await http.post(f"/v1/threads/{THREAD}/runs/{run.run_id}/stop")
                assert stop.status_code == 202, stop.text
                await asyncio.wait_for(run.stopped.wait(), PATIENCE)
            sent = await http.post("/v1/threads/uploaded/runs/r/stream?dialect=vercel-ai", content=sse(talk(5)))
            assert sent.status_code < 300, sent.text
            given = await http.post("/v1/threads/uploaded/feedback", json={"name": "liked", "value": 1})
            assert given.status_code < 300, given.text
            assert await replayed(http, "uploaded")
        await publish(settings["AGENT"], EVENTS, [(b"k", b"no envelope")])
        await wait_until_stored(settings["COMMANDS"], 2, [one])
        await until(partial(_beats, proxies["WORKER"]), one.text)
        assert await asyncio.to_thread(one.stop) == 0, one.text()  # the proxies are in this loop
    finally:
        one.end()
    await configure(settings["COMMANDS"], TURNS, {"retention.ms": "1000000"})
    more = settings["COMMANDS"].model_copy(update={"partitions": 3})
    for line in COMMANDS:
        status, said = await command(more, line)
        assert status == 0, said


def table(proxies: Mapping[str, BrokerProxy]) -> str:
    """-> the table of APIs: name and key, the version asked for, those that can be, who asks, what for."""
    rows = []
    for key in sorted({key for proxy in proxies.values() for key, _ in proxy.asked}):
        versions = sorted({version for proxy in proxies.values() for other, version in proxy.asked if other == key})
        low, high = speaks(key)
        who = ", ".join(them for name, them in WHO.items() if any(other == key for other, _ in proxies[name].asked))
        without = "Turnmill can't work" if key in NEEDED or key == API_VERSIONS else WITHOUT[key].partition(": ")[2]
        asked = ", ".join(map(str, versions))
        rows.append(
            (f"{NAMES[key]} ({key})", asked, f"{low}–{high}" if low < high else str(low), who, FOR[key], without)
        )
    return markdown(("API", "version", "spoken", "asked by", "for", "without it"), rows)


def settings_table(proxies: Mapping[str, BrokerProxy]) -> str:
    """-> what requests demand, read off those that were sent."""
    found: dict[str, set[str]] = defaultdict(set)
    for proxy in proxies.values():
        for (key, version), frames in proxy.bodies.items():
            for frame in frames if key in SEEN else ():
                sent = decoded(key, version, frame)
                for field in SEEN[key]:
                    found[f"{NAMES[key]}: `{field}`"].add("none" if sent[field] is None else str(sent[field]))
                if NAMES[key] == "CreateTopics":
                    for topic in sent["create_topic_requests"]:
                        for setting in topic["configs"]:
                            found[f"topics: `{setting['config_key']}`"].add(f"`{setting['config_value']}`")
                if NAMES[key] == "JoinGroup":
                    found["JoinGroup: `protocol_name`"].update(
                        each["protocol_name"] for each in sent["group_protocols"]
                    )
    return markdown(("in", "values"), ((what, ", ".join(sorted(values))) for what, values in sorted(found.items())))


async def made() -> dict[str, str]:
    """-> the tables, by their names on the page."""
    with tempfile.TemporaryDirectory(prefix="turnmill-asked-") as name:
        folder = Path(name)
        async with proxied(folder / "broker", list(WHO)) as (_, proxies):
            await worked(folder, proxies)
    return {"asked": table(proxies), "demands": settings_table(proxies)}


def written(tables: Mapping[str, str]) -> str:
    """-> the page with these tables."""
    text = PAGE.read_text()
    for name, each in tables.items():
        before, begin, rest = text.partition(f"<!-- recorded: {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        assert end, f"{PAGE} has no room for {name}"
        text = before + begin + each + end + after
    return text


if __name__ == "__main__":
    PAGE.write_text(written(asyncio.run(made())))
