from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakebed.governance.policies import Applicable, Attachment, Level, Place, Policy, TargetKind, effects_of, resolve

CATALOG = Place(TargetKind.CATALOG)
NAMESPACE = Place(TargetKind.NAMESPACE, ("ns",))
TABLE = Place(TargetKind.TABLE, ("ns", "t"))
PLACES = (CATALOG, NAMESPACE, TABLE)


def policy(number: int, kind: str = "compact", *, inheritable: bool = True, version: int = 0) -> Policy:
    return Policy(number, ("ops",), f"p{number}", kind, inheritable, None, "{}", version, 0, 0)


def holding(one: Policy, place: Place = TABLE, **parameters: str) -> Applicable:
    return Applicable(one, place, inherited=place != TABLE, parameters=parameters)


def test_policy_where_none_was_is_told_with_why_it_holds() -> None:
    [effect] = effects_of([], [holding(policy(1), NAMESPACE)])
    assert (effect.type, effect.before) == ("compact", None)
    assert effect.why == "policy ops.p1 v0, inherited from namespace ns"


def test_policy_that_goes_leaves_nothing_or_the_one_further_up() -> None:
    near, far = holding(policy(1)), holding(policy(2), CATALOG)
    [effect] = effects_of([near], [far])
    assert (effect.before, effect.after) == (near, far)
    assert effect.why == "policy ops.p2 v0, inherited from catalog"
    [effect] = effects_of([near], [])
    assert (effect.before, effect.after) == (near, None)
    assert effect.why == "no other policy of compact is attached to it, or to what it is in"


def test_same_policy_from_elsewhere_is_no_effect() -> None:
    assert effects_of([holding(policy(1), CATALOG)], [holding(policy(1), NAMESPACE)]) == []


def test_other_parameters_and_other_versions_are() -> None:
    assert len(effects_of([holding(policy(1), a="1")], [holding(policy(1), a="2")])) == 1
    assert len(effects_of([holding(policy(1))], [holding(policy(1, version=1))])) == 1


def test_policies_that_are_not_inheritable_come_and_go_each_for_itself() -> None:
    one, two, three = (holding(policy(number, "note", inheritable=False)) for number in (1, 2, 3))
    effects = effects_of([one, two], [two, three])
    assert [(effect.before, effect.after) for effect in effects] == [(one, None), (None, three)]


def test_types_are_told_in_order() -> None:
    after = [holding(policy(1, "z")), holding(policy(2, "a"))]
    assert [effect.type for effect in effects_of([], after)] == ["a", "z"]


policies = st.builds(
    policy,
    st.integers(1, 4),
    st.sampled_from(["compact", "expire"]),
    inheritable=st.just(True),
)
ways = st.lists(st.lists(policies, max_size=2, unique_by=lambda one: one.type), min_size=3, max_size=3)


def answers(attached: list[list[Policy]]) -> list[Applicable]:
    levels = zip(PLACES, attached, strict=True)
    return resolve([Level(place, [Attachment(one) for one in here]) for place, here in levels])


@given(ways, ways)
def test_effects_are_just_the_types_of_which_another_policy_holds(before: object, after: object) -> None:
    was, now = answers(before), answers(after)  # type: ignore[arg-type]  # what `ways` draws
    held = {one.policy.type: one.policy.id for one in was}
    then = {one.policy.type: one.policy.id for one in now}
    effects = effects_of(was, now)
    assert {effect.type for effect in effects} == {
        kind for kind in held.keys() | then.keys() if held.get(kind) != then.get(kind)
    }
    for effect in effects:
        assert (effect.before.policy.id if effect.before else None) == held.get(effect.type)
        assert (effect.after.policy.id if effect.after else None) == then.get(effect.type)


@given(ways)
def test_nothing_differs_from_itself(way: object) -> None:
    found = answers(way)  # type: ignore[arg-type]  # what `ways` draws
    assert effects_of(found, found) == []
