"""Chooses sample keys that decide whether a caller has a permission on a whole directory. Pure.

The authorizer decides one key at a time, and a directory has unlimited keys. Policies distinguish keys only by resource
patterns, so two kinds of keys represent all of them:

- Keys of a character that no pattern contains, in every relevant length. If a pattern of wildcards does not match one
  of them, it need not match other keys of that length.
- For each pattern that matches in the directory, keys that match it and few others. Each `*` is empty in one of them,
  and filled with that character in others.

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
"""A private-use character, which no policy contains."""
_LONG: Final = 64
"""Longer than any plausible run of `?`."""


def probe_arns(directory: str, principal: Principal, rules: ResourceRules, values: ConditionValues) -> list[str]:
    """ARNs of keys to check. `directory` is an ARN with a final slash. Raises InvalidPolicy."""
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
    """Texts that begin with `directory` and match the pattern, if any."""
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
    """The positions reachable when each `*` matches nothing."""
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
