"""Workers of this version and of an older one take partitions from each other during an update."""

from __future__ import annotations

import pytest

from tests.chaos.versions import OLDER, NoHistory, git, understood


def test_an_older_version_that_knows_no_tenants_understands_the_state_topic_and_is_understood() -> None:
    try:
        if b"true" in git("rev-parse", "--is-shallow-repository"):
            pytest.skip("the history was not fetched")
    except NoHistory as why:
        pytest.skip(str(why))
    assert b"tenant" not in git("show", f"{OLDER}:topics/state.py")
    assert understood(OLDER)
