"""The rules pass promtool's check; each alert fires when it should, and is silent when it should be."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.chart.render import CHART, manifests, of_kind
from tests.chart.tools import BIN, ROOT

RUNBOOKS: Final = ROOT / "docs" / "operations" / "runbooks.md"
VALUES: Final = {"monitoring": {"rules": {"enabled": True, "costPerHour": 50}}}
IN: Final = 'namespace="agents",release="t"'
READ: Final = f'turnmill_records_read_total{{{IN},instance="a",topic="turnmill.events"}}'
LAG: Final = f'turnmill_lag_records{{{IN},instance="a",role="assemble",topic="turnmill.events",partition="0"}}'
STORE_LAG: Final = f'turnmill_lag_records{{{IN},instance="a",role="store",topic="turnmill.turns",partition="0"}}'
PROGRESS: Final = f'turnmill_last_progress_timestamp_seconds{{{IN},role="assemble",instance="a"}}'
CHECKPOINT: Final = f'turnmill_last_checkpoint_timestamp_seconds{{{IN},instance="a",role="assemble"}}'
LETTERS: Final = f'turnmill_dead_letters_total{{{IN},instance="a",reason="late_event"}}'
OTHER_LETTERS: Final = LETTERS.replace('"a"', '"b"')
PRODUCED: Final = f'turnmill_turns_produced_total{{{IN},status="complete",reason="none"}}'
STORED: Final = f"turnmill_store_rows_total{{{IN}}}"
FAILED: Final = f"turnmill_store_failures_total{{{IN}}}"
BATCHES: Final = f"turnmill_store_batches_total{{{IN}}}"
CONTENT: Final = f"turnmill_content_failures_total{{{IN}}}"
ARCHIVE: Final = f"turnmill_archive_failures_total{{{IN}}}"
GOOD: Final = f'turnmill_agent_turns_total{{{IN},model="m",status="complete",reason="none"}}'
BAD: Final = f'turnmill_agent_turns_total{{{IN},model="m",status="interrupted",reason="error"}}'
CANCELLED: Final = f'turnmill_agent_turns_total{{{IN},model="m",status="interrupted",reason="user_cancelled"}}'
COST: Final = f'turnmill_cost_last_hour_usd{{{IN},instance="a"}}'
REBALANCES: Final = f"turnmill_rebalances_total{{{IN}}}"
OK: Final = f'turnmill_gateway_requests_total{{{IN},status="200"}}'
HANGING: Final = f"turnmill_gateway_silent_runs{{{IN}}}"
BROKEN: Final = f'turnmill_gateway_requests_total{{{IN},status="503"}}'

# Series a minute apart; at minute 85 it fires, or does not.
FIRES: Final[dict[str, list[dict[str, str]]]] = {
    "TurnmillLagGrowing": [{LAG: "0+500x90"}],
    "TurnmillNoProgress": [
        {LAG: "10x90", PROGRESS: "60x90"},
        {LAG: "10x90", PROGRESS: "60x90", PROGRESS.replace('"a"', '"b"'): "0+60x90"},  # one of two workers
        {  # one of two processes of a worker
            LAG.replace("}", ',process="one"}'): "10x90",
            LAG.replace('"0"}', '"1",process="two"}'): "0x90",
            PROGRESS.replace("}", ',process="one"}'): "60x90",
            PROGRESS.replace("}", ',process="two"}'): "0+60x90",
        },
    ],
    "TurnmillNoWorkers": [{LAG: "10x90"}, {PROGRESS.replace('"t"', '"another"'): "0+60x90"}],
    "TurnmillCheckpointOld": [{CHECKPOINT: "60x90", READ: "0+60x90"}],
    "TurnmillDeadLetters": [
        {LETTERS: "0x80 1x10"},
        {LETTERS: "_x80 1x10"},
        {OTHER_LETTERS: "3x90", LETTERS: "_x80 1x10"},  # a worker that was not there before
    ],
    "TurnmillLedgerOutOfBalance": [{PRODUCED: "0+100x90", STORED: "0+90x90", STORE_LAG: "0x90"}],
    "TurnmillStoreFailing": [{FAILED: "0+5x90", BATCHES: "7x90"}, {FAILED: "0+5x90"}],
    "TurnmillContentStoreFailing": [{CONTENT: "0+1x90"}],
    "TurnmillArchiveFailing": [{ARCHIVE: "0+1x90"}],
    "TurnmillModelErrors": [{GOOD: "0+10x90", BAD: "0+5x90"}],
    "TurnmillCostHigh": [
        {COST: "0+1x90"},
        {COST: "60x84 0x6", COST.replace('"a"', '"b"'): "_x84 60x6"},  # the partitions went to another worker
    ],
    "TurnmillRebalancing": [{REBALANCES: "0+2x90", PROGRESS: "0+60x90"}],
    "TurnmillRunsSilent": [{HANGING: "0x70 2x20"}],
    "TurnmillGatewayErrors": [{OK: "0+100x90", BROKEN: "0+10x90"}],
}
SILENT: Final[dict[str, list[dict[str, str]]]] = {
    "TurnmillLagGrowing": [{LAG: "90000-500x90"}, {LAG: "0+10x90"}],
    "TurnmillNoProgress": [{LAG: "0x90", PROGRESS: "60x90"}, {LAG: "10x90", PROGRESS: "0+60x90"}],
    "TurnmillNoWorkers": [{PROGRESS: "0+60x90"}],
    "TurnmillCheckpointOld": [
        {CHECKPOINT: "0+60x90", READ: "0+60x90"},
        {CHECKPOINT: "60x90", READ: "5x90"},
        {CHECKPOINT: "60x90", READ: "5x90", READ.replace('"a"', '"b"'): "0+60x90"},  # another worker has the records
        {CHECKPOINT: "60x81 4920x9", READ: "5x81 6x9"},  # a record after a long silence, and its checkpoint
    ],
    "TurnmillDeadLetters": [{LETTERS: "5x90"}, {LETTERS: "5x50", OTHER_LETTERS: "2x90"}],
    "TurnmillLedgerOutOfBalance": [
        {PRODUCED: "0+100x90", STORED: "0+100x90", STORE_LAG: "0x90"},
        {PRODUCED: "0+100x90", STORED: "0+90x90", STORE_LAG: "0+10x90"},
    ],
    "TurnmillStoreFailing": [{FAILED: "0+5x90", BATCHES: "0+1x90"}, {FAILED: "5x90"}],
    "TurnmillContentStoreFailing": [{CONTENT: "3x90"}],
    "TurnmillArchiveFailing": [{ARCHIVE: "3x90"}],
    "TurnmillModelErrors": [{GOOD: "0+10x90", BAD: "0+1x90"}, {GOOD: "0+10x90", CANCELLED: "0+9x90"}],
    "TurnmillCostHigh": [{COST: "0+0.5x90"}, {COST: "60x80 10x10"}],
    "TurnmillRebalancing": [
        {REBALANCES: "3x90", PROGRESS: "0+60x90"},
        {REBALANCES: "0x70 1+5x10 52x10", PROGRESS: "0+60x90"},  # a rolling update
    ],
    "TurnmillRunsSilent": [{HANGING: "0x90"}, {HANGING: "0x83 2x7"}, {HANGING: "2x80 0x10"}],
    "TurnmillGatewayErrors": [{OK: "0+100x90", BROKEN: "0+1x90"}],
}


def rules() -> dict[str, Any]:
    spec: dict[str, Any] = of_kind(manifests("plain", VALUES), "PrometheusRule")[0]["spec"]
    return spec


def promtool(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BIN / "promtool"), *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )


def test_promtool_accepts_the_rules(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules()))
    run = promtool("check", "rules", "--lint=all", "--lint-fatal", "rules.yaml", folder=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr


def alerts() -> dict[str, Any]:
    return {rule["alert"]: rule for group in rules()["groups"] for rule in group["rules"] if "alert" in rule}


def test_the_chart_has_every_alert_of_the_file() -> None:
    assert len(alerts()) == (CHART / "files" / "alerts.yaml").read_text().count("- alert:")


def test_every_alert_has_its_runbook() -> None:
    sections = re.findall(r"^## (Turnmill\w+)$", RUNBOOKS.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(sections) == sorted(alerts())
    for name, alert in alerts().items():
        page, anchor = alert["annotations"]["runbook_url"].split("#")
        assert page.endswith("/" + RUNBOOKS.relative_to(ROOT).as_posix())
        assert anchor == name.lower()


def test_checkpoints_may_wait_for_what_is_spilled_late() -> None:
    found = of_kind(manifests("plain", VALUES, {"settings": {"spill_after": 600}}), "PrometheusRule")[0]["spec"]
    (alert,) = (r for g in found["groups"] for r in g["rules"] if r.get("alert") == "TurnmillCheckpointOld")
    assert "> 690 and on" in alert["expr"]
    assert "> 120 and on" in alerts()["TurnmillCheckpointOld"]["expr"]


@pytest.mark.parametrize("name", FIRES)
@pytest.mark.parametrize("fires", [True, False], ids=["fires", "silent"])
def test_an_alert(name: str, *, fires: bool, tmp_path: Path) -> None:
    """`exp_alerts` of promtool would want every label and text: ask for the series that Prometheus makes of alerts."""
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules()))
    fired = f'count(ALERTS{{alertname="{name}",alertstate="firing"}}) > 0 or vector(0)'
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": series, "values": values} for series, values in case.items()],
            "promql_expr_test": [
                {
                    "expr": f"({fired}) > bool 0",
                    "eval_time": "85m",
                    "exp_samples": [{"labels": "{}", "value": int(fires)}],
                }
            ],
        }
        for case in (FIRES if fires else SILENT)[name]
    ]
    (tmp_path / "test.yaml").write_text(
        json.dumps({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests})
    )
    run = promtool("test", "rules", "test.yaml", folder=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
