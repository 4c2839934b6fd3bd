"""How much of a pool each tenant may hold."""

from hypothesis import given
from hypothesis import strategies as st

from turnmill.shares import LEAVES, Room, Shares

Takes = st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), st.integers(1, 40), st.booleans()), max_size=200)


def test_one_tenant_alone_has_three_quarters() -> None:
    room = Room(100)
    assert sum(room.take("evil", 1) for _ in range(100)) == 75
    assert sum(room.take("acme", 1) for _ in range(100)) == 18
    assert room.take(None, 7)


def test_what_is_given_back_can_be_taken_again() -> None:
    room = Room(4)
    assert [room.take("evil", 1) for _ in range(4)] == [True, True, True, False]
    room.give("evil", 1)
    assert room.take("evil", 1)


@given(Takes)
def test_the_pool_is_never_exceeded_and_whoever_holds_much_leaves_some(
    takes: list[tuple[str | None, int, bool]],
) -> None:
    room, held = Room(100), dict[str | None, int]()
    for tenant, amount, back in takes:
        if back and held.get(tenant, 0) >= amount:
            room.give(tenant, amount)
            held[tenant] -= amount
            continue
        before = held.get(tenant, 0)
        if room.take(tenant, amount):
            held[tenant] = before + amount
            free = 100 - sum(held.values())
            assert free >= 0
            assert not before or held[tenant] <= LEAVES * free
        assert room.shares.total == sum(held.values())


def test_who_holds_most_is_found_within_a_factor_of_two() -> None:
    shares = Shares()
    for tenant, amount in (("a", 3), ("b", 100), ("c", 40)):
        shares.add(tenant, amount)
    assert shares.most() == "b"
    shares.add("b", -100)
    assert shares.most() == "c"
