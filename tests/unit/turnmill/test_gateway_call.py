"""Which library calls a gateway."""

import sys

import httpx
import httpx2
import pytest

from turnmill.errors import CallerError
from turnmill.gateway_call import library


def test_httpx2_is_used_where_httpx_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert library() is httpx
    monkeypatch.setitem(sys.modules, "httpx", None)
    assert library() is httpx2
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(CallerError, match="TURNMILL_PUBLISH_URL needs httpx"):
        library()
