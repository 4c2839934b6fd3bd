"""Every attack, those that need the same stage behind each other."""

from typing import Final

from tests.attack import (
    accounts,
    bulk,
    clocks,
    commanding,
    cost,
    doors,
    erasing,
    every_door,
    holding,
    identity,
    local,
    machine,
    names,
    poison,
    programs,
    proxying,
    rerunning,
    restoring,
    shares,
    signing_in,
    unpacked,
    webhooks,
)
from tests.attack.attack import Attack

ATTACKS: Final[tuple[Attack, ...]] = (
    *identity.ATTACKS,
    *holding.ATTACKS,
    *doors.ATTACKS,
    *every_door.ATTACKS,
    *names.ATTACKS,
    *poison.ATTACKS,
    *bulk.ATTACKS,
    *commanding.ATTACKS,
    *webhooks.ATTACKS,
    *erasing.ATTACKS,
    *proxying.ATTACKS,
    *unpacked.ATTACKS,
    *shares.ATTACKS,
    *cost.ATTACKS,
    *rerunning.ATTACKS,
    *signing_in.ATTACKS,
    *local.ATTACKS,
    *restoring.ATTACKS,
    *programs.ATTACKS,
    *clocks.ATTACKS,
    *accounts.ATTACKS,
    *machine.ATTACKS,
)
