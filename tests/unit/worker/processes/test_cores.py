"""How many cores a process may use, by what its cgroups say."""

import os
from pathlib import Path

import pytest

from pipeline.worker.processes.parts import cores

MACHINE = 8


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(MACHINE)))


def found(folder: Path, own: str, files: dict[str, str]) -> int:
    (folder / "own").write_text(own)
    for name, text in files.items():
        file = folder / "cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return cores(folder / "own", folder / "cgroup")


def test_without_cgroups_it_is_what_the_affinity_allows(tmp_path: Path) -> None:
    assert cores(tmp_path / "nothing", tmp_path) == MACHINE


def test_where_there_is_no_affinity_it_is_the_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert cores(tmp_path / "nothing", tmp_path) == 3


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ("max 100000\n", MACHINE),
        ("200000 100000\n", 2),
        ("150000 100000\n", 1),
        ("50000 100000\n", 1),
        ("1600000 100000\n", MACHINE),
        ("", MACHINE),
    ],
)
def test_a_quota_of_version_2(tmp_path: Path, quota: str, expected: int) -> None:
    assert found(tmp_path, "0::/unit.service\n", {"unit.service/cpu.max": quota}) == expected


def test_the_tightest_of_the_groups_around_it_counts(tmp_path: Path) -> None:
    files = {"a/b/cpu.max": "600000 100000\n", "a/cpu.max": "300000 100000\n", "cpu.max": "max 100000\n"}
    assert found(tmp_path, "0::/a/b\n", files) == 3


def test_inside_a_container_the_root_is_its_own_group(tmp_path: Path) -> None:
    assert found(tmp_path, "0::/docker/0123\n", {"cpu.max": "400000 100000\n"}) == 4


@pytest.mark.parametrize(("quota", "expected"), [("250000\n", 2), ("-1\n", MACHINE)])
def test_a_quota_of_version_1(tmp_path: Path, quota: str, expected: int) -> None:
    files = {"cpu/kube/cpu.cfs_quota_us": quota, "cpu/kube/cpu.cfs_period_us": "100000\n"}
    assert found(tmp_path, "5:memory:/other\n4:cpu,cpuacct:/kube\n", files) == expected
