"""A real Prometheus that scrapes workers and gateways, as those of a release."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from pipeline.devbroker.ports import free_ports
from tests.chart.tools import BIN
from tests.support.waiting import PATIENCE

NAMESPACE: Final = "agents"
RELEASE: Final = "t"
SCRAPE: Final = "2s"  # an answer that takes longer is none


class Prometheus:
    """Its HTTP API."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def query(self, expression: str) -> list[dict[str, Any]]:
        """-> samples now: {"metric": labels, "value": [time, text]}. AssertionError where it can't be evaluated."""
        answer = (await self.client.get("/api/v1/query", params={"query": expression})).json()
        assert answer["status"] == "success", f"{answer.get('error')}: {expression}"
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result

    async def values(self, label: str, matching: str) -> list[str]:
        """What a label has, as Grafana's `label_values` asks."""
        answer = await self.client.get(f"/api/v1/label/{label}/values", params={"match[]": matching})
        found: list[str] = answer.json()["data"]
        return found

    async def until(self, expression: str, within: float = PATIENCE) -> None:
        """Wait until it gives samples."""
        async with asyncio.timeout(within):
            while not await self.query(expression):
                await asyncio.sleep(0.5)


@asynccontextmanager
async def running(folder: Path, targets: Mapping[str, str], rules: Mapping[str, Any]) -> AsyncIterator[Prometheus]:
    """`targets`: component of the release -> host:port; `rules`: the spec of a PrometheusRule."""
    (address,) = (f"127.0.0.1:{port}" for port in free_ports(1))
    (folder / "rules.yaml").write_text(yaml.safe_dump(dict(rules)))
    config = {
        "global": {"scrape_interval": SCRAPE, "evaluation_interval": SCRAPE},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [_scraped(component, target) for component, target in targets.items()],
    }
    (folder / "prometheus.json").write_text(json.dumps(config))
    process = _started(folder, address)
    try:
        async with httpx.AsyncClient(base_url=f"http://{address}", timeout=PATIENCE, trust_env=False) as client:
            await _ready(client, process, folder)
            yield Prometheus(client)
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _started(folder: Path, address: str) -> subprocess.Popen[bytes]:
    options = ["--config.file=prometheus.json", "--storage.tsdb.path=data", f"--web.listen-address={address}"]
    with (folder / "prometheus.log").open("wb") as log:
        return subprocess.Popen([str(BIN / "prometheus"), *options], cwd=folder, stdout=log, stderr=log)


def _scraped(component: str, target: str) -> dict[str, Any]:
    """With the labels that the chart's PodMonitor and ServiceMonitor give, and the operator."""
    labels = {"namespace": NAMESPACE, "release": RELEASE, "component": component}
    return {"job_name": component, "static_configs": [{"targets": [target], "labels": labels}]}


async def _ready(client: httpx.AsyncClient, process: subprocess.Popen[bytes], folder: Path) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            assert process.poll() is None, (folder / "prometheus.log").read_text()[-3000:]
            try:
                if (await client.get("/-/ready")).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.2)


def samples(found: Sequence[Mapping[str, Any]]) -> list[float]:
    """The numbers of samples."""
    return [float(sample["value"][1]) for sample in found]
