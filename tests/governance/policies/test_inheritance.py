from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from lakebed.governance.policies import (
    AttachedPolicy,
    AttachmentTarget,
    EffectivePolicy,
    InheritanceLevel,
    Policy,
    PolicyTargetKind,
    ShadowedPolicy,
    policy_effects,
    resolve_policies,
)
from lakebed.governance.policies.inheritance import sort_key

CATALOG = AttachmentTarget(PolicyTargetKind.CATALOG)
NAMESPACE = AttachmentTarget(PolicyTargetKind.NAMESPACE, ("a",))
TABLE = AttachmentTarget(PolicyTargetKind.TABLE, ("a", "t"))


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


def at(target: AttachmentTarget, *policies: Policy, **parameters: str) -> InheritanceLevel:
    return InheritanceLevel(target, [AttachedPolicy(policy, parameters) for policy in policies])


def names(found: Sequence[EffectivePolicy]) -> list[str]:
    return [one.policy.name for one in found]


def test_policy_holds_for_what_is_inside_its_target() -> None:
    p = a_policy("p", version=3)
    [found] = resolve_policies([at(CATALOG), at(NAMESPACE, p, mode="quick"), at(TABLE)])
    assert found == EffectivePolicy(p, NAMESPACE, inherited=True, parameters={"mode": "quick"})
    assert found.reason == "policy home.p v3, inherited from namespace a"


def test_nearest_of_a_type_wins_whole_and_says_what_it_overrides() -> None:
    far, near, own = a_policy("far"), a_policy("near", version=1), a_policy("own")
    [found] = resolve_policies([at(CATALOG, far), at(NAMESPACE, near), at(TABLE, own)])
    assert (found.policy, found.inherited) == (own, False)
    assert found.overrides == (ShadowedPolicy(near, NAMESPACE), ShadowedPolicy(far, CATALOG))
    assert (
        found.reason
        == "policy home.own v0, attached to table a.t, over home.near v1 of namespace a, home.far v0 of catalog"
    )


def test_policies_that_restrict_all_hold() -> None:
    kind = "lakebed.row-filter"
    far, near, own, other = (a_policy(name, kind) for name in ("far", "near", "own", "other"))
    mask = a_policy("mask", "lakebed.column-mask")
    found = resolve_policies([at(CATALOG, far, mask), at(NAMESPACE, near, far), at(TABLE, own, other)])
    assert names(found) == ["mask", "far", "near", "other", "own"]
    assert [one.inherited for one in found] == [True, True, True, False, False]
    # Attached twice, it holds by the nearer one.
    assert [one.target for one in found if one.policy is far] == [NAMESPACE]


def test_types_do_not_touch_each_other() -> None:
    found = resolve_policies([at(CATALOG, a_policy("e", "expiry")), at(NAMESPACE, a_policy("c")), at(TABLE)])
    assert names(found) == ["c", "e"]
    assert all(not one.overrides for one in found)


def test_not_inheritable_ones_hold_at_the_target_alone_and_all_of_them() -> None:
    above = a_policy("above", "note", inheritable=False)
    own = [a_policy(name, "note", inheritable=False) for name in ("y", "x")]
    found = resolve_policies([at(CATALOG, above), at(NAMESPACE, above), at(TABLE, a_policy("c"), *own)])
    assert names(found) == ["x", "y", "c"]
    assert not any(one.inherited for one in found)


def test_way_ends_at_the_catalog_or_a_namespace_too() -> None:
    p, q = a_policy("p"), a_policy("q", "note", inheritable=False)
    assert [(one.policy, one.inherited) for one in resolve_policies([at(CATALOG, p, q)])] == [(q, False), (p, False)]
    assert [(one.policy, one.inherited) for one in resolve_policies([at(CATALOG, p, q), at(NAMESPACE)])] == [(p, True)]


INHERITABLE = {"compaction": True, "expiry": True, "note": False, "label": False}


@st.composite
def ways(draw: st.DrawFn) -> list[InheritanceLevel]:
    """A way from the catalog down: at each place, at most one policy of a type that is inheritable."""
    depth = draw(st.integers(0, 4))
    places = [CATALOG, *(AttachmentTarget(PolicyTargetKind.NAMESPACE, ("n",) * level) for level in range(1, depth + 1))]
    if depth and draw(st.booleans()):
        places.append(
            AttachmentTarget(
                draw(st.sampled_from([PolicyTargetKind.TABLE, PolicyTargetKind.VIEW])), ("n",) * depth + ("t",)
            )
        )
    count = 0
    way = []
    for target in places:
        attached = []
        for kind, inheritable in INHERITABLE.items():
            for _ in range(draw(st.integers(0, 1 if inheritable else 3))):
                count += 1
                policy = a_policy(f"p{count}", kind, inheritable=inheritable)
                attached.append(AttachedPolicy(policy, {"number": str(count)}))
        way.append(InheritanceLevel(target, draw(st.permutations(attached))))
    return way


def by_the_book(way: Sequence[InheritanceLevel]) -> dict[str, tuple[AttachmentTarget, bool, list[str], str]]:
    """The same, type by type and from the target up: name → where, inherited, what is overridden, its parameter."""
    held: dict[str, tuple[AttachmentTarget, bool, list[str], str]] = {}
    end = way[-1]
    for kind, inheritable in INHERITABLE.items():
        if not inheritable:
            for one in end.attached:
                if one.policy.type == kind:
                    held[one.policy.name] = (end.target, False, [], one.parameters["number"])
            continue
        upwards = [(level.target, one) for level in reversed(way) for one in level.attached if one.policy.type == kind]
        if upwards:
            target, one = upwards[0]
            others = [other.policy.name for _, other in upwards[1:]]
            held[one.policy.name] = (target, target is not end.target, others, one.parameters["number"])
    return held


@given(ways())
def test_what_holds_is_what_the_rules_say(way: list[InheritanceLevel]) -> None:
    found = resolve_policies(way)
    assert {
        one.policy.name: (
            one.target,
            one.inherited,
            [other.policy.name for other in one.overrides],
            one.parameters["number"],
        )
        for one in found
    } == by_the_book(way)
    positions = [sort_key(one) for one in found]
    assert positions == sorted(positions)
    assert len(set(positions)) == len(positions)


NS = AttachmentTarget(PolicyTargetKind.NAMESPACE, ("ns",))
NS_TABLE = AttachmentTarget(PolicyTargetKind.TABLE, ("ns", "t"))
PLACES = (CATALOG, NS, NS_TABLE)


def policy(number: int, kind: str = "compact", *, inheritable: bool = True, version: int = 0) -> Policy:
    return Policy(number, ("ops",), f"p{number}", kind, inheritable, None, "{}", version, 0, 0)


def holding(one: Policy, target: AttachmentTarget = NS_TABLE, **parameters: str) -> EffectivePolicy:
    return EffectivePolicy(one, target, inherited=target != NS_TABLE, parameters=parameters)


def test_policy_where_none_was_is_told_with_why_it_holds() -> None:
    [effect] = policy_effects([], [holding(policy(1), NS)])
    assert (effect.type, effect.before) == ("compact", None)
    assert effect.why == "policy ops.p1 v0, inherited from namespace ns"


def test_policy_that_goes_leaves_nothing_or_the_one_further_up() -> None:
    near, far = holding(policy(1)), holding(policy(2), CATALOG)
    [effect] = policy_effects([near], [far])
    assert (effect.before, effect.after) == (near, far)
    assert effect.why == "policy ops.p2 v0, inherited from catalog"
    [effect] = policy_effects([near], [])
    assert (effect.before, effect.after) == (near, None)
    assert effect.why == "no other policy of compact is attached to it, or to what it is in"


def test_same_policy_from_elsewhere_is_no_effect() -> None:
    assert policy_effects([holding(policy(1), CATALOG)], [holding(policy(1), NS)]) == []


def test_other_parameters_and_other_versions_are() -> None:
    assert len(policy_effects([holding(policy(1), a="1")], [holding(policy(1), a="2")])) == 1
    assert len(policy_effects([holding(policy(1))], [holding(policy(1, version=1))])) == 1


def test_policies_that_are_not_inheritable_come_and_go_each_for_itself() -> None:
    one, two, three = (holding(policy(number, "note", inheritable=False)) for number in (1, 2, 3))
    effects = policy_effects([one, two], [two, three])
    assert [(effect.before, effect.after) for effect in effects] == [(one, None), (None, three)]


def test_types_are_told_in_order() -> None:
    after = [holding(policy(1, "z")), holding(policy(2, "a"))]
    assert [effect.type for effect in policy_effects([], after)] == ["a", "z"]


policies = st.builds(
    policy,
    st.integers(1, 4),
    st.sampled_from(["compact", "expire"]),
    inheritable=st.just(True),
)
paths = st.lists(st.lists(policies, max_size=2, unique_by=lambda one: one.type), min_size=3, max_size=3)


def answers(attached: list[list[Policy]]) -> list[EffectivePolicy]:
    levels = zip(PLACES, attached, strict=True)
    return resolve_policies(
        [InheritanceLevel(target, [AttachedPolicy(one) for one in here]) for target, here in levels]
    )


@given(paths, paths)
def test_effects_are_just_the_types_of_which_another_policy_holds(before: object, after: object) -> None:
    was, now = answers(before), answers(after)  # type: ignore[arg-type]  # what `paths` draws
    held = {one.policy.type: one.policy.id for one in was}
    then = {one.policy.type: one.policy.id for one in now}
    effects = policy_effects(was, now)
    assert {effect.type for effect in effects} == {
        kind for kind in held.keys() | then.keys() if held.get(kind) != then.get(kind)
    }
    for effect in effects:
        assert (effect.before.policy.id if effect.before else None) == held.get(effect.type)
        assert (effect.after.policy.id if effect.after else None) == then.get(effect.type)


@given(paths)
def test_nothing_differs_from_itself(way: object) -> None:
    found = answers(way)  # type: ignore[arg-type]  # what `paths` draws
    assert policy_effects(found, found) == []
