"""Validation of bucket policies, and whether a policy makes a bucket public."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from lakebed.core.errors import InvalidPolicy

from .actions import KNOWN_ACTIONS, nearest_name
from .condition_keys import ADDRESS_KEYS, actions_with_key
from .conditions import Condition, Quantifier, parse_network
from .document import CompiledPolicy, PolicyStatement, parse_policy
from .resource_actions import BUCKET_ACTIONS, OBJECT_ACTIONS, TABLE_ACTIONS, TABLE_BUCKET_ACTIONS
from .wildcards import PolicyPattern, no_values

_ARN_PREFIX: Final = "arn:aws:s3:::"
_TABLES_ARN_PREFIX: Final = "arn:aws:s3tables:"


@dataclass(frozen=True, slots=True)
class _ResourceKind:
    """A kind of resource: the bucket as S3 bucket, or as table bucket. With the actions on it."""

    service: str
    arn: str
    """Of the bucket."""
    arn_prefix: str
    own_actions: frozenset[str]
    """In lower case, as the next."""
    inner_actions: frozenset[str]
    """On objects or tables in the bucket."""

    @property
    def actions(self) -> frozenset[str]:
        return self.own_actions | self.inner_actions

    def owns(self, resource: PolicyPattern) -> bool:
        """Whether a resource pattern matches this bucket or names in it."""
        if not resource.text.startswith(self.arn_prefix):
            return False
        bucket, _ = self._split(resource)
        # A variable cannot match the bucket: the policy is for this bucket only.
        return PolicyPattern(bucket, variables=False).matches(self.arn, no_values)

    def reached(self, resource: PolicyPattern) -> frozenset[str]:
        """The actions on what an owned resource pattern can match."""
        bucket, has_more = self._split(resource)
        if has_more:
            return self.inner_actions
        return self.actions if "*" in bucket else self.own_actions

    def _split(self, resource: PolicyPattern) -> tuple[str, bool]:
        """The bucket's part of a pattern, and whether there is more. A table bucket's own ARN has a slash."""
        parts = resource.text.split("/")
        names = self.arn.count("/") + 1
        return "/".join(parts[:names]), len(parts) > names


_OBJECT_ACTIONS: Final = frozenset(name.lower() for name in OBJECT_ACTIONS)
_BUCKET_ACTIONS: Final = frozenset(name.lower() for name in BUCKET_ACTIONS)
_TABLE_ACTIONS: Final = frozenset(name.lower() for name in TABLE_ACTIONS)
_TABLE_BUCKET_ACTIONS: Final = frozenset(name.lower() for name in TABLE_BUCKET_ACTIONS)


@lru_cache(maxsize=256)
def check_bucket_policy(document: bytes, bucket: str, table_bucket: str = "") -> CompiledPolicy:
    """Compile and validate a policy of `bucket`, cached by the arguments. Raises InvalidPolicy with the reason.

    `table_bucket` is the bucket's ARN in S3 Tables, if it holds tables: the policy may then name them too.
    """
    policy = parse_policy(document)
    kinds = [_ResourceKind("s3", f"{_ARN_PREFIX}{bucket}", _ARN_PREFIX, _BUCKET_ACTIONS, _OBJECT_ACTIONS)]
    if table_bucket:
        kinds.append(_ResourceKind("s3tables", table_bucket, _TABLES_ARN_PREFIX, _TABLE_BUCKET_ACTIONS, _TABLE_ACTIONS))
    for statement in policy.statements:
        _check_principal(statement)
        _check_actions(statement, kinds)
        _check_resources(statement, bucket, kinds)
        _check_conditions(statement, kinds)
        _check_fit(statement, kinds)
    return policy


def _check_principal(statement: PolicyStatement) -> None:
    if statement.principal is None:
        raise InvalidPolicy(f"a bucket policy's statement must name a Principal. sid={statement.sid}")
    if statement.allows and statement.excludes_principal:
        # It would grant to everyone but a few, anonymous callers included: never intended.
        raise InvalidPolicy(f"allow with NotPrincipal is not allowed. sid={statement.sid}")


def _check_actions(statement: PolicyStatement, kinds: Sequence[_ResourceKind]) -> None:
    services = tuple(f"{kind.service}:" for kind in kinds)
    for action, written in zip(statement.actions, statement.written_actions, strict=True):
        if not action.text.startswith(services) and action.text != "*":
            named = " or ".join(kind.service for kind in kinds)
            raise InvalidPolicy(f"a bucket policy's action must be one of {named}. action={written}")
        if not any(_any_match(action, kind.actions) for kind in kinds):
            raise InvalidPolicy(f'unknown action "{written}"{nearest_name(written, _spellings(kinds))}')


def _spellings(kinds: Sequence[_ResourceKind]) -> Iterable[str]:
    """The actions of these kinds as AWS writes them."""
    return (name for kind in kinds for name in KNOWN_ACTIONS[kind.service] if name.lower() in kind.actions)


def _check_resources(statement: PolicyStatement, bucket: str, kinds: Sequence[_ResourceKind]) -> None:
    for resource in statement.resources:
        if not any(kind.owns(resource) for kind in kinds):
            raise InvalidPolicy(f"resource is not of this bucket. resource={resource.text} bucket={bucket}")


def _check_conditions(statement: PolicyStatement, kinds: Sequence[_ResourceKind]) -> None:
    known = frozenset[str]().union(*(kind.actions for kind in kinds))
    for condition in statement.conditions:
        able = (actions_with_key(condition.key) or frozenset()) & known
        if not able:
            raise InvalidPolicy(f"unknown condition key. key={condition.key}")
        if condition.key in ADDRESS_KEYS:
            for operand in condition.operands:
                parse_network(operand)
        if statement.excludes_actions:
            continue
        for action in statement.actions:
            # One matching action is enough for a wildcard: `s3:*` is valid with every key.
            if not _any_match(action, able):
                raise InvalidPolicy(
                    f"condition key does not apply to the action. key={condition.key} action={action.text}"
                )


def _check_fit(statement: PolicyStatement, kinds: Sequence[_ResourceKind]) -> None:
    """Refuse actions on resources of another kind. Checked last, as in S3: errors of conditions come first."""
    if statement.excludes_actions or statement.excludes_resources:
        return
    reached: set[str] = set()
    for kind in kinds:
        for resource in filter(kind.owns, statement.resources):
            reached |= kind.reached(resource)
    for action in statement.actions:
        if not _any_match(action, reached):
            raise InvalidPolicy(f"action does not apply to any resource in statement. action={action.text}")


def _any_match(pattern: PolicyPattern, names: Iterable[str]) -> bool:
    return any(pattern.matches(name, no_values) for name in names)


_LIMITING_KEYS: Final = frozenset(
    {
        "aws:principalaccount",
        "aws:principalarn",
        "aws:principalorgid",
        "aws:sourceaccount",
        "aws:sourcearn",
        "aws:sourceip",
        "aws:sourceowner",
        "aws:sourcevpc",
        "aws:sourcevpce",
        "aws:userid",
        "s3:dataaccesspointaccount",
        "s3:dataaccesspointarn",
    }
)
"""Keys whose fixed values restrict a grant to everyone, so that it is not public."""

_LIMITING_OPERATORS: Final = frozenset({"StringEquals", "StringEqualsIgnoreCase", "StringLike", "ArnEquals", "ArnLike"})

_WIDEST_V4: Final = 8
_WIDEST_V6: Final = 32


@lru_cache(maxsize=1024)
def is_public(document: bytes) -> bool:
    """Whether the policy has a public grant, by S3's definition: no fixed principal and no fixed limiting condition.

    Denies are not considered: a grant to everyone with exceptions is still public.
    """
    return any(_is_public_grant(statement) for statement in parse_policy(document).grants)


def _is_public_grant(statement: PolicyStatement) -> bool:
    principal = statement.principal
    if principal is None:
        return False
    if not (principal.everyone or statement.excludes_principal):
        return False
    return not any(_limits(condition) for condition in statement.conditions)


def _limits(condition: Condition) -> bool:
    # …IfExists and ForAllValues hold for requests without the key, so they restrict nothing.
    if condition.key not in _LIMITING_KEYS or condition.if_exists or condition.quantifier is Quantifier.ALL:
        return False
    if condition.key == "aws:sourceip":
        return condition.operator == "IpAddress" and all(_is_narrow(block) for block in condition.operands)
    if condition.operator not in _LIMITING_OPERATORS:
        return False
    return all(pattern.is_fixed for pattern in condition.patterns)


def _is_narrow(block: str) -> bool:
    """Whether an address block is too small to count as public."""
    network = ipaddress.ip_network(block, strict=False)
    return network.prefixlen >= (_WIDEST_V4 if network.version == 4 else _WIDEST_V6)
