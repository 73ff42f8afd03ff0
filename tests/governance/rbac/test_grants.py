from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.access import Securable
from lakebed.governance.rbac.grants import GrantSet
from lakebed.governance.rbac.privileges import INCLUDES, Privilege
from lakebed.governance.rbac.securables import (
    SERVICE,
    catalog_securable,
    entry_securable,
    namespace_key,
    namespace_securable,
    policy_securable,
)

P = Privilege

keys = st.sampled_from(["service", "catalog 1", "catalog 2", "namespace 1 a", "namespace 1 a1", "entry t", "policy 1"])
privileges = st.sampled_from(list(Privilege))
ways = st.lists(keys, unique=True, max_size=5).map(lambda path: Securable(tuple(path)))


def covers_naively(held: list[tuple[str, Privilege]], way: Securable, asked: list[Privilege]) -> bool:
    """For every privilege, some grant on some object of the way is of it, or of one that brings it along."""
    return bool(asked) and all(
        any(key in way.path and privilege in INCLUDES[granted] for key, granted in held) for privilege in asked
    )


@given(st.lists(st.tuples(keys, privileges), max_size=8), ways, st.lists(privileges, max_size=4))
def test_set_covers_what_a_naive_search_finds(
    held: list[tuple[str, Privilege]], way: Securable, asked: list[Privilege]
) -> None:
    assert GrantSet(held).covers(way, asked) == covers_naively(held, way, asked)


@given(st.lists(st.tuples(keys, privileges), max_size=8), privileges)
def test_carriers_are_those_that_cover_alone(held: list[tuple[str, Privilege]], privilege: Privilege) -> None:
    grants = GrantSet(held)
    alone = {key for key, _ in held if grants.covers(Securable((key,)), [privilege])}
    assert grants.carriers(privilege) == alone


@given(
    st.lists(st.tuples(keys, privileges), max_size=6),
    st.lists(st.tuples(keys, privileges), max_size=6),
    ways,
    st.lists(privileges, min_size=1, max_size=3),
)
def test_more_grants_never_cover_less(
    held: list[tuple[str, Privilege]], more: list[tuple[str, Privilege]], way: Securable, asked: list[Privilege]
) -> None:
    if GrantSet(held).covers(way, asked):
        assert GrantSet(held + more).covers(way, asked)


def test_nothing_is_covered_by_asking_for_nothing() -> None:
    assert not GrantSet([("service", P.SERVICE_MANAGE_ACCESS)]).covers(SERVICE, ())


def test_privileges_may_be_held_on_different_steps_of_the_way() -> None:
    grants = GrantSet([("catalog 1", P.TABLE_LIST), ("entry t", P.TABLE_READ_DATA)])
    way = entry_securable(1, ["a"], "t")
    assert grants.covers(way, (P.TABLE_LIST, P.TABLE_READ_DATA))
    assert not grants.covers(entry_securable(1, ["a"], "u"), (P.TABLE_LIST, P.TABLE_READ_DATA))


def test_grants_flow_down_and_neither_up_nor_sideways() -> None:
    grants = GrantSet([(namespace_key(3, ["ns1"]), P.TABLE_READ_DATA)])
    asked = (P.TABLE_READ_DATA,)
    assert grants.covers(namespace_securable(3, ["ns1"]), asked)
    assert grants.covers(entry_securable(3, ["ns1", "in"], "t"), asked)
    assert not grants.covers(catalog_securable(3), asked)
    # `ns1` is not the beginning of `ns10`: keys are compared whole. Nor is it that of another catalog, or further in.
    assert not grants.covers(namespace_securable(3, ["ns10"]), asked)
    assert not grants.covers(entry_securable(3, ["ns10"], "ns1"), asked)
    assert not grants.covers(namespace_securable(30, ["ns1"]), asked)
    assert not grants.covers(namespace_securable(3, ["out", "ns1"]), asked)


levels = st.lists(st.text(st.sampled_from("ab1. "), min_size=1, max_size=4), min_size=1, max_size=4)


@given(st.integers(1, 20), levels, st.integers(1, 20), levels)
def test_each_namespace_has_a_key_of_its_own(
    catalog: int, one: list[str], other_catalog: int, other: list[str]
) -> None:
    is_same = (catalog, one) == (other_catalog, other)
    assert (namespace_key(catalog, one) == namespace_key(other_catalog, other)) == is_same
    way = namespace_securable(catalog, one).path
    assert way[2:] == tuple(namespace_key(catalog, one[:depth]) for depth in range(1, len(one) + 1))


def test_number_that_is_not_known_holds_nothing() -> None:
    grants = GrantSet([("catalog 1", 5000), ("catalog 1", P.TABLE_LIST)])
    assert grants.covers(catalog_securable(1), (P.TABLE_LIST,))
    assert not grants.covers(catalog_securable(1), (5000,))


def test_repr_tells_how_much_and_not_what() -> None:
    assert repr(GrantSet([("entry secret", P.TABLE_LIST)])) == "GrantSet(of 1 securables)"


def test_ways_are_from_the_service_down() -> None:
    assert SERVICE.path == ("service",)
    assert catalog_securable(3).path == ("service", "catalog 3")
    assert namespace_securable(3, ()) == catalog_securable(3)
    assert namespace_securable(3, ["a", "b"]).path == ("service", "catalog 3", "namespace 3 a", "namespace 3 a\x1fb")
    assert entry_securable(3, ["a"], "x").path == ("service", "catalog 3", "namespace 3 a", "entry x")
    assert policy_securable(3, ["a"], 9).path == ("service", "catalog 3", "namespace 3 a", "policy 9")
