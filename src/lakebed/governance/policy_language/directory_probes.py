"""Chooses sample keys that decide whether a caller holds a right to a whole directory. Pure.

The authorizer decides one key at a time, and a directory has unlimited keys. Policies distinguish keys only by resource
patterns. Two kinds of keys represent all of them, as far as policy documents decide:

- Keys of a character that no pattern names, of every length that matters. What a pattern of wildcards alone does not
  match, no other key of that length has to match.
- Keys that match one pattern and as few others as possible, for each pattern that reaches into the directory. Each `*`
  stands for nothing in one of them, and for unnamed characters in others.

Not represented are keys that two statements with `NotResource` allow only together. Conditions on tags are evaluated as
for an untagged object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from lakebed.core.access import Principal, ResourceRules

from .document import parse_policy
from .wildcards import ConditionValues, PolicyPattern, Wildcard

UNNAMED: Final = "\ue000"
"""A character that no policy names: it is for private use."""
_LONG: Final = 64
"""Longer than any run of `?` in a policy that means something."""


def probe_arns(directory: str, principal: Principal, rules: ResourceRules, values: ConditionValues) -> list[str]:
    """ARNs of keys in `directory`, the ARN of a directory with its final slash, to check. Raises InvalidPolicy."""
    patterns = [
        pattern
        for document in _documents(principal, rules)
        for statement in parse_policy(document).statements
        for pattern in statement.resources
    ]
    least = max((pattern.text.count(Wildcard.ONE.value) for pattern in patterns), default=0)
    found = dict.fromkeys(f"{directory}{UNNAMED * length}" for length in (*range(min(least, _LONG) + 2), _LONG))
    for pattern in patterns:
        found |= dict.fromkeys(matching_arns(pattern, directory, values))
    return list(found)


def matching_arns(pattern: PolicyPattern, directory: str, values: ConditionValues) -> Iterator[str]:
    """Texts that begin with `directory` and match the pattern; none if it matches no such text."""
    elements = pattern.elements(values)
    if elements is None:
        return
    places = _after_stars({0}, elements)
    for character in directory:
        reached: set[int] = set()
        for place in places:
            element = elements[place] if place < len(elements) else None
            if element is Wildcard.ANY:
                reached.add(place)
            elif element is Wildcard.ONE or element == character:
                reached.add(place + 1)
        places = _after_stars(reached, elements)
    for place in sorted(places):
        rest = elements[place:]
        for filling in ("", UNNAMED, UNNAMED * _LONG):
            parts = (filling if one is Wildcard.ANY else UNNAMED if isinstance(one, Wildcard) else one for one in rest)
            yield directory + "".join(parts)


def _after_stars(places: set[int], elements: tuple[str | Wildcard, ...]) -> set[int]:
    """With the places that are reached because `*` may stand for nothing."""
    reached = set(places)
    for place in places:
        while place < len(elements) and elements[place] is Wildcard.ANY:
            place += 1
            reached.add(place)
    return reached


def _documents(principal: Principal, rules: ResourceRules) -> Iterable[bytes]:
    session = principal.session
    of_the_session = () if session is None else (*session.policies, *session.outer_policies)
    of_the_resource = () if rules.policy is None else (rules.policy,)
    return (*of_the_resource, *principal.policies, *of_the_session)
