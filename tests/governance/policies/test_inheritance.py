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


def test_policy_applies_inside_its_target() -> None:
    p = a_policy("p", version=3)
    [found] = resolve_policies([at(CATALOG), at(NAMESPACE, p, mode="quick"), at(TABLE)])
    assert found == EffectivePolicy(p, NAMESPACE, inherited=True, parameters={"mode": "quick"})
    assert found.reason == "policy home.p v3, inherited from namespace a"


def test_nearest_policy_of_a_type_overrides_the_others() -> None:
    far, near, own = a_policy("far"), a_policy("near", version=1), a_policy("own")
    [found] = resolve_policies([at(CATALOG, far), at(NAMESPACE, near), at(TABLE, own)])
    assert (found.policy, found.inherited) == (own, False)
    assert found.overrides == (ShadowedPolicy(near, NAMESPACE), ShadowedPolicy(far, CATALOG))
    assert (
        found.reason
        == "policy home.own v0, attached to table a.t, over home.near v1 of namespace a, home.far v0 of catalog"
    )


def test_restricting_policies_are_cumulative() -> None:
    kind = "lakebed.row-filter"
    far, near, own, other = (a_policy(name, kind) for name in ("far", "near", "own", "other"))
    mask = a_policy("mask", "lakebed.column-mask")
    found = resolve_policies([at(CATALOG, far, mask), at(NAMESPACE, near, far), at(TABLE, own, other)])
    assert names(found) == ["mask", "far", "near", "other", "own"]
    assert [one.inherited for one in found] == [True, True, True, False, False]
    # Attached twice, the nearer attachment counts.
    assert [one.target for one in found if one.policy is far] == [NAMESPACE]


def test_types_are_independent() -> None:
    found = resolve_policies([at(CATALOG, a_policy("e", "expiry")), at(NAMESPACE, a_policy("c")), at(TABLE)])
    assert names(found) == ["c", "e"]
    assert all(not one.overrides for one in found)


def test_all_not_inheritable_policies_of_the_target_apply() -> None:
    above = a_policy("above", "note", inheritable=False)
    own = [a_policy(name, "note", inheritable=False) for name in ("y", "x")]
    found = resolve_policies([at(CATALOG, above), at(NAMESPACE, above), at(TABLE, a_policy("c"), *own)])
    assert names(found) == ["x", "y", "c"]
    assert not any(one.inherited for one in found)


def test_path_can_end_at_the_catalog_or_a_namespace() -> None:
    p, q = a_policy("p"), a_policy("q", "note", inheritable=False)
    assert [(one.policy, one.inherited) for one in resolve_policies([at(CATALOG, p, q)])] == [(q, False), (p, False)]
    assert [(one.policy, one.inherited) for one in resolve_policies([at(CATALOG, p, q), at(NAMESPACE)])] == [(p, True)]


INHERITABLE = {"compaction": True, "expiry": True, "note": False, "label": False}


@st.composite
def inheritance_paths(draw: st.DrawFn) -> list[InheritanceLevel]:
    """A path from the catalog down, with at most one policy of each inheritable type per level."""
    depth = draw(st.integers(0, 4))
    places = [CATALOG, *(AttachmentTarget(PolicyTargetKind.NAMESPACE, ("n",) * level) for level in range(1, depth + 1))]
    if depth and draw(st.booleans()):
        places.append(
            AttachmentTarget(
                draw(st.sampled_from([PolicyTargetKind.TABLE, PolicyTargetKind.VIEW])), ("n",) * depth + ("t",)
            )
        )
    count = 0
    path = []
    for target in places:
        attached = []
        for kind, inheritable in INHERITABLE.items():
            for _ in range(draw(st.integers(0, 1 if inheritable else 3))):
                count += 1
                policy = a_policy(f"p{count}", kind, inheritable=inheritable)
                attached.append(AttachedPolicy(policy, {"number": str(count)}))
        path.append(InheritanceLevel(target, draw(st.permutations(attached))))
    return path


def expected_effects(path: Sequence[InheritanceLevel]) -> dict[str, tuple[AttachmentTarget, bool, list[str], str]]:
    """The expected result: name → target, inherited, overridden policies, parameter."""
    expected: dict[str, tuple[AttachmentTarget, bool, list[str], str]] = {}
    end = path[-1]
    for kind, inheritable in INHERITABLE.items():
        if not inheritable:
            for one in end.attached:
                if one.policy.type == kind:
                    expected[one.policy.name] = (end.target, False, [], one.parameters["number"])
            continue
        upwards = [(level.target, one) for level in reversed(path) for one in level.attached if one.policy.type == kind]
        if upwards:
            target, one = upwards[0]
            others = [other.policy.name for _, other in upwards[1:]]
            expected[one.policy.name] = (target, target is not end.target, others, one.parameters["number"])
    return expected


@given(inheritance_paths())
def test_resolution_agrees_with_the_rules(path: list[InheritanceLevel]) -> None:
    found = resolve_policies(path)
    assert {
        one.policy.name: (
            one.target,
            one.inherited,
            [other.policy.name for other in one.overrides],
            one.parameters["number"],
        )
        for one in found
    } == expected_effects(path)
    positions = [sort_key(one) for one in found]
    assert positions == sorted(positions)
    assert len(set(positions)) == len(positions)


NS = AttachmentTarget(PolicyTargetKind.NAMESPACE, ("ns",))
NS_TABLE = AttachmentTarget(PolicyTargetKind.TABLE, ("ns", "t"))
PLACES = (CATALOG, NS, NS_TABLE)


def policy(number: int, kind: str = "compact", *, inheritable: bool = True, version: int = 0) -> Policy:
    return Policy(number, ("ops",), f"p{number}", kind, inheritable, None, "{}", version, 0, 0)


def effective(one: Policy, target: AttachmentTarget = NS_TABLE, **parameters: str) -> EffectivePolicy:
    return EffectivePolicy(one, target, inherited=target != NS_TABLE, parameters=parameters)


def test_added_policy_has_a_reason() -> None:
    [effect] = policy_effects([], [effective(policy(1), NS)])
    assert (effect.type, effect.before) == ("compact", None)
    assert effect.why == "policy ops.p1 v0, inherited from namespace ns"


def test_removed_policy_is_replaced_by_an_inherited_one() -> None:
    near, far = effective(policy(1)), effective(policy(2), CATALOG)
    [effect] = policy_effects([near], [far])
    assert (effect.before, effect.after) == (near, far)
    assert effect.why == "policy ops.p2 v0, inherited from catalog"
    [effect] = policy_effects([near], [])
    assert (effect.before, effect.after) == (near, None)
    assert effect.why == "no other policy of compact is attached to it or its parents"


def test_same_policy_from_another_target_is_no_change() -> None:
    assert policy_effects([effective(policy(1), CATALOG)], [effective(policy(1), NS)]) == []


def test_other_parameters_or_versions_are_a_change() -> None:
    assert len(policy_effects([effective(policy(1), a="1")], [effective(policy(1), a="2")])) == 1
    assert len(policy_effects([effective(policy(1))], [effective(policy(1, version=1))])) == 1


def test_not_inheritable_policies_change_independently() -> None:
    one, two, three = (effective(policy(number, "note", inheritable=False)) for number in (1, 2, 3))
    effects = policy_effects([one, two], [two, three])
    assert [(effect.before, effect.after) for effect in effects] == [(one, None), (None, three)]


def test_changes_are_ordered_by_type() -> None:
    after = [effective(policy(1, "z")), effective(policy(2, "a"))]
    assert [effect.type for effect in policy_effects([], after)] == ["a", "z"]


policies = st.builds(
    policy,
    st.integers(1, 4),
    st.sampled_from(["compact", "expire"]),
    inheritable=st.just(True),
)
paths = st.lists(st.lists(policies, max_size=2, unique_by=lambda one: one.type), min_size=3, max_size=3)


def resolved(attached: list[list[Policy]]) -> list[EffectivePolicy]:
    levels = zip(PLACES, attached, strict=True)
    return resolve_policies(
        [InheritanceLevel(target, [AttachedPolicy(one) for one in here]) for target, here in levels]
    )


@given(paths, paths)
def test_changes_are_the_types_with_another_effective_policy(before: object, after: object) -> None:
    old, new = resolved(before), resolved(after)  # type: ignore[arg-type]  # what `paths` draws
    old_ids = {one.policy.type: one.policy.id for one in old}
    new_ids = {one.policy.type: one.policy.id for one in new}
    effects = policy_effects(old, new)
    assert {effect.type for effect in effects} == {
        kind for kind in old_ids.keys() | new_ids.keys() if old_ids.get(kind) != new_ids.get(kind)
    }
    for effect in effects:
        assert (effect.before.policy.id if effect.before else None) == old_ids.get(effect.type)
        assert (effect.after.policy.id if effect.after else None) == new_ids.get(effect.type)


@given(paths)
def test_equal_resolutions_have_no_changes(path: object) -> None:
    found = resolved(path)  # type: ignore[arg-type]  # what `paths` draws
    assert policy_effects(found, found) == []
