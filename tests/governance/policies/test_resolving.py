from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from lakebed.governance.policies import Applicable, Attachment, Level, Overridden, Place, Policy, TargetKind, resolve
from lakebed.governance.policies.resolving import position

CATALOG = Place(TargetKind.CATALOG)
NAMESPACE = Place(TargetKind.NAMESPACE, ("a",))
TABLE = Place(TargetKind.TABLE, ("a", "t"))


def a_policy(name: str, kind: str = "compaction", *, inheritable: bool = True, version: int = 0) -> Policy:
    return Policy(
        id=hash(name),
        namespace=("home",),
        name=name,
        type=kind,
        inheritable=inheritable,
        description=None,
        content="{}",
        version=version,
        created_ms=0,
        updated_ms=0,
    )


def at(place: Place, *policies: Policy, **parameters: str) -> Level:
    return Level(place, [Attachment(policy, parameters) for policy in policies])


def names(found: Sequence[Applicable]) -> list[str]:
    return [one.policy.name for one in found]


def test_policy_holds_for_what_is_inside_its_target() -> None:
    p = a_policy("p", version=3)
    [found] = resolve([at(CATALOG), at(NAMESPACE, p, mode="quick"), at(TABLE)])
    assert found == Applicable(p, NAMESPACE, inherited=True, parameters={"mode": "quick"})
    assert found.reason == "policy home.p v3, inherited from namespace a"


def test_nearest_of_a_type_wins_whole_and_says_what_it_overrides() -> None:
    far, near, own = a_policy("far"), a_policy("near", version=1), a_policy("own")
    [found] = resolve([at(CATALOG, far), at(NAMESPACE, near), at(TABLE, own)])
    assert (found.policy, found.inherited) == (own, False)
    assert found.overrides == (Overridden(near, NAMESPACE), Overridden(far, CATALOG))
    assert (
        found.reason
        == "policy home.own v0, attached to table a.t, over home.near v1 of namespace a, home.far v0 of catalog"
    )


def test_policies_that_restrict_all_hold() -> None:
    kind = "lakebed.row-filter"
    far, near, own, other = (a_policy(name, kind) for name in ("far", "near", "own", "other"))
    mask = a_policy("mask", "lakebed.column-mask")
    found = resolve([at(CATALOG, far, mask), at(NAMESPACE, near, far), at(TABLE, own, other)])
    assert names(found) == ["mask", "far", "near", "other", "own"]
    assert [one.inherited for one in found] == [True, True, True, False, False]
    # Attached twice, it holds by the nearer one.
    assert [one.place for one in found if one.policy is far] == [NAMESPACE]


def test_types_do_not_touch_each_other() -> None:
    found = resolve([at(CATALOG, a_policy("e", "expiry")), at(NAMESPACE, a_policy("c")), at(TABLE)])
    assert names(found) == ["c", "e"]
    assert all(not one.overrides for one in found)


def test_not_inheritable_ones_hold_at_the_target_alone_and_all_of_them() -> None:
    above = a_policy("above", "note", inheritable=False)
    own = [a_policy(name, "note", inheritable=False) for name in ("y", "x")]
    found = resolve([at(CATALOG, above), at(NAMESPACE, above), at(TABLE, a_policy("c"), *own)])
    assert names(found) == ["x", "y", "c"]
    assert not any(one.inherited for one in found)


def test_way_ends_at_the_catalog_or_a_namespace_too() -> None:
    p, q = a_policy("p"), a_policy("q", "note", inheritable=False)
    assert [(one.policy, one.inherited) for one in resolve([at(CATALOG, p, q)])] == [(q, False), (p, False)]
    assert [(one.policy, one.inherited) for one in resolve([at(CATALOG, p, q), at(NAMESPACE)])] == [(p, True)]


INHERITABLE = {"compaction": True, "expiry": True, "note": False, "label": False}


@st.composite
def ways(draw: st.DrawFn) -> list[Level]:
    """A way from the catalog down: at each place, at most one policy of a type that is inheritable."""
    depth = draw(st.integers(0, 4))
    places = [CATALOG, *(Place(TargetKind.NAMESPACE, ("n",) * level) for level in range(1, depth + 1))]
    if depth and draw(st.booleans()):
        places.append(Place(draw(st.sampled_from([TargetKind.TABLE, TargetKind.VIEW])), ("n",) * depth + ("t",)))
    count = 0
    way = []
    for place in places:
        attached = []
        for kind, inheritable in INHERITABLE.items():
            for _ in range(draw(st.integers(0, 1 if inheritable else 3))):
                count += 1
                policy = a_policy(f"p{count}", kind, inheritable=inheritable)
                attached.append(Attachment(policy, {"number": str(count)}))
        way.append(Level(place, draw(st.permutations(attached))))
    return way


def by_the_book(way: Sequence[Level]) -> dict[str, tuple[Place, bool, list[str], str]]:
    """The same, type by type and from the target up: name → where, inherited, what is overridden, its parameter."""
    held: dict[str, tuple[Place, bool, list[str], str]] = {}
    target = way[-1]
    for kind, inheritable in INHERITABLE.items():
        if not inheritable:
            for one in target.attached:
                if one.policy.type == kind:
                    held[one.policy.name] = (target.place, False, [], one.parameters["number"])
            continue
        upwards = [(level.place, one) for level in reversed(way) for one in level.attached if one.policy.type == kind]
        if upwards:
            place, one = upwards[0]
            others = [other.policy.name for _, other in upwards[1:]]
            held[one.policy.name] = (place, place is not target.place, others, one.parameters["number"])
    return held


@given(ways())
def test_what_holds_is_what_the_rules_say(way: list[Level]) -> None:
    found = resolve(way)
    assert {
        one.policy.name: (
            one.place,
            one.inherited,
            [other.policy.name for other in one.overrides],
            one.parameters["number"],
        )
        for one in found
    } == by_the_book(way)
    positions = [position(one) for one in found]
    assert positions == sorted(positions)
    assert len(set(positions)) == len(positions)
