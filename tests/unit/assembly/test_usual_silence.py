from pipeline.assembly.usual_silence import MAX_RUNS, MIN_MS, MIN_RUNS, SEEN_BYTES, UsualSilence
from turnmill.remembered import ENTRY_BYTES, SCOPE_BYTES

AGENT = ("acme", "weather")


def test_nothing_is_usual_before_enough_runs_were_seen() -> None:
    usual = UsualSilence()
    for _ in range(MIN_RUNS - 1):
        usual.add(AGENT, 60_000)
    assert usual.of(AGENT) is None
    usual.add(AGENT, 60_000)
    assert usual.of(AGENT) == 120_000
    assert usual.of(("globex", "weather")) is None, "another tenant's agent of the same id"


def test_an_agent_that_is_never_silent_has_the_floor() -> None:
    usual = UsualSilence()
    for _ in range(MIN_RUNS):
        usual.add(AGENT, 20)
    assert usual.of(AGENT) == MIN_MS


def test_a_few_long_silences_do_not_make_them_usual_and_old_runs_are_forgotten() -> None:
    usual = UsualSilence()
    for n in range(MAX_RUNS):
        usual.add(AGENT, 3_000_000 if n % 25 == 0 else 8_000)
    assert usual.of(AGENT) == 16_000
    for _ in range(MAX_RUNS):
        usual.add(AGENT, 50_000)
    assert usual.of(AGENT) == 100_000


def test_the_agent_whose_run_ended_longest_ago_is_forgotten_first() -> None:
    usual = UsualSilence()
    usual._seen.size = 2 * (SEEN_BYTES + ENTRY_BYTES) + SCOPE_BYTES + 200
    for agent in ("a", "b", "a", "c"):
        for _ in range(MIN_RUNS):
            usual.add((None, agent), 20)
    assert [usual.of((None, agent)) for agent in "abc"] == [MIN_MS, None, MIN_MS]
