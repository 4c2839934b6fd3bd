"""Which roles run in which process."""

import pytest

from pipeline.settings import Settings
from pipeline.worker.host.roles import ROLES
from pipeline.worker.processes import parts as module
from pipeline.worker.processes.parts import parts, usual_processes

SQLITE = Settings()
POSTGRES = Settings(store="postgresql://localhost/turnmill")
ALL = "assemble,metrics,store,archive"


def dealt(settings: Settings, roles: str, processes: int) -> list[str]:
    found = parts(settings.store_url, [ROLES[name] for name in roles.split(",")], processes)
    return [f"{part.name}: {','.join(role.name for role in part.roles)}" for part in found]


def test_one_process_has_all() -> None:
    assert dealt(POSTGRES, ALL, 1) == [f"worker: {ALL}"]


@pytest.mark.parametrize("settings", [SQLITE, POSTGRES])
def test_two_processes_divide_at_the_turns_topic(settings: Settings) -> None:
    assert dealt(settings, ALL, 2) == ["assemble: assemble,metrics", "store: store,archive"]


def test_more_processes_are_of_both_kinds_with_the_light_roles_in_the_first() -> None:
    assert dealt(POSTGRES, ALL, 5) == [
        "assemble-1: assemble,metrics",
        "assemble-2: assemble",
        "assemble-3: assemble",
        "store-1: store,archive",
        "store-2: store",
    ]


def test_one_process_writes_to_a_sqlite_file() -> None:
    assert dealt(SQLITE, "assemble,store", 4) == [
        "assemble-1: assemble",
        "assemble-2: assemble",
        "assemble-3: assemble",
        "store: store",
    ]
    assert dealt(SQLITE, "store", 4) == ["store: store"]


def test_roles_of_one_kind() -> None:
    assert dealt(POSTGRES, "assemble", 2) == ["assemble-1: assemble", "assemble-2: assemble"]
    assert dealt(POSTGRES, "store,archive", 2) == ["store-1: store,archive", "store-2: store"]


def test_a_light_role_has_one_process() -> None:
    assert dealt(POSTGRES, "metrics", 3) == ["metrics: metrics"]
    assert dealt(POSTGRES, "metrics,archive", 3) == ["metrics: metrics", "archive: archive"]


@pytest.mark.parametrize(("cores", "processes"), [(1, 1), (2, 2), (64, 2)])
def test_by_default_two_where_there_are_two_cores(cores: int, processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cores", lambda: cores)
    assert usual_processes() == processes
