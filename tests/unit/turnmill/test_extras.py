"""The command that installs an extra, by what pip notes of where a package came from (PEP 610)."""

import json
from importlib import metadata
from types import SimpleNamespace

import pytest

from turnmill.extras import HTTP, install


@pytest.mark.parametrize(
    ("came", "extra", "command"),
    [
        (None, "worker", "pip install 'turnmill[worker]'"),
        ({"url": "file:///dist/turnmill.whl", "archive_info": {}}, "worker", "pip install 'turnmill[worker]'"),
        ({"url": "file:///my%20work", "dir_info": {}}, "worker", "pip install '/my work[worker]' '/my work/pipeline'"),
        ({"url": "file:///work", "dir_info": {"editable": True}}, HTTP, "pip install '/work[http]'"),
    ],
)
def test_an_extra_comes_from_where_the_package_came(
    monkeypatch: pytest.MonkeyPatch, came: object, extra: str, command: str
) -> None:
    noted = None if came is None else json.dumps(came)
    monkeypatch.setattr(metadata, "distribution", lambda _: SimpleNamespace(read_text=lambda _: noted))
    assert install(extra) == command
