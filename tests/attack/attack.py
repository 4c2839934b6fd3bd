"""What an attack is: what somebody tries, what it may not achieve, and what says whether it did."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.attack.stage import Stage


@dataclass(frozen=True, slots=True)
class Attack:
    """`run` raises AssertionError where the attack achieves what it may not. `settings`: of the stage that it needs;
    `short`: cheap enough for every change.
    """

    name: str
    tries: str
    may_not: str
    run: Callable[[Stage], Awaitable[None]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    short: bool = False
