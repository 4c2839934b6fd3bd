"""Which threads were deleted, as live figures ask for it."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.errors import StoreError
from pipeline.gateway import connections
from pipeline.gateway.connections import Erased


class Store:
    def __init__(self) -> None:
        self.gone = {"b"}
        self.asked: list[list[str]] = []
        self.away = False

    async def erased(self, thread_ids: list[str]) -> set[str]:
        self.asked.append(list(thread_ids))
        if self.away:
            raise StoreError("away", transient=True)
        return self.gone & set(thread_ids)


async def test_each_thread_is_asked_for_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()

    async def opened() -> Any:
        return store

    erased = Erased(opened)
    assert await erased.among(["a", "b"]) == {"b"}
    assert await erased.among(["a", "b", "c"]) == {"b"}
    assert store.asked == [["a", "b"], ["c"]]
    monkeypatch.setattr(connections, "ERASED_HOLDS", 0.0)
    store.gone.add("a")
    assert await erased.among(["a", "b", "c"]) == {"a", "b"}, "who is deleted stays so, others may be by now"
    assert store.asked[2] == ["a", "c"]
    store.away = True
    assert await erased.among(["a", "b", "c"]) == {"a", "b"}
