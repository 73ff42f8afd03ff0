"""The AWS policy language: JSON documents compiled to statements.

Versions 2012-10-17 and 2008-10-17 (which has no variables). Compilation is pure and cached by the document's bytes.
Further rules depend on the kind of policy: `identity_policy` for users and sessions, `bucket_policy` for buckets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NoReturn

from lakebed.core.access import Principal
from lakebed.core.errors import InvalidPolicy
from lakebed.core.json.syntax_errors import describe_json_error

from .conditions import Condition, parse_condition
from .principal_element import GrantScope, PrincipalElement, parse_principal_element
from .wildcards import ConditionValues, PolicyPattern, PolicyVariable, any_matches

MAX_POLICY_BYTES: Final = 20 * 1024
"""S3's limit for a bucket policy; applied to every document."""

_VERSIONS: Final = ("2012-10-17", "2008-10-17")
_DOCUMENT_ELEMENTS: Final = frozenset({"Version", "Id", "Statement"})
_STATEMENT_ELEMENTS: Final = frozenset(
    {
        "Sid",
        "Effect",
        "Principal",
        "NotPrincipal",
        "Action",
        "NotAction",
        "Resource",
        "NotResource",
        "Condition",
    }
)


@dataclass(frozen=True, slots=True)
class PolicyStatement:
    """A compiled statement."""

    sid: str
    allows: bool
    actions: tuple[PolicyPattern, ...]
    """Lower case: actions are case-insensitive."""
    resources: tuple[PolicyPattern, ...]
    conditions: tuple[Condition, ...] = ()
    principal: PrincipalElement | None = None
    excludes_principal: bool = False
    """Written as NotPrincipal; likewise the two below."""
    excludes_actions: bool = False
    excludes_resources: bool = False
    written_actions: tuple[str, ...] = ()
    """The actions as written, for errors."""
    required_variables: tuple[PolicyVariable, ...] = ()
    """Variables in negated elements. An unresolved variable matches nothing, so its negation matches everything. That
    is safe for a Deny but not for an Allow."""

    def applies(self, action: str, resource: str, values: ConditionValues) -> bool:
        """Whether it applies to this action (in lower case) on this resource. The principal is not considered."""
        if any_matches(self.actions, action, values) is self.excludes_actions:
            return False
        if any_matches(self.resources, resource, values) is self.excludes_resources:
            return False
        if (
            self.required_variables
            and self.allows
            and any(one.resolve(values) is None for one in self.required_variables)
        ):
            return False
        for condition in self.conditions:  # noqa: SIM110 - hot path: a generator expression is slower
            if not condition.holds(values):
                return False
        return True

    def could_apply(self, action: str, resource: str, values: ConditionValues) -> bool:
        """Whether it applies to some request with this action. Conditions and unknown values may match.

        An empty `resource` is unknown.
        """
        if any_matches(self.actions, action, values) is self.excludes_actions:
            return False
        if not resource or any(pattern.variables for pattern in self.resources):
            return True
        return any_matches(self.resources, resource, values) is not self.excludes_resources

    def denies(self, caller: Principal) -> bool:
        """Whether this Deny statement of a resource policy matches the caller."""
        if self.principal is None:
            return False
        return not self.principal.exempts(caller) if self.excludes_principal else self.principal.denies(caller)

    def grant(self, caller: Principal) -> GrantScope:
        """How this Allow statement of a resource policy matches the caller."""
        # Allow with NotPrincipal is refused when a policy is put; a stored one would grant nothing.
        return GrantScope.NONE if self.principal is None or self.excludes_principal else self.principal.grant(caller)


@dataclass(frozen=True, slots=True)
class CompiledPolicy:
    """A compiled policy."""

    version: str
    id: str
    denials: tuple[PolicyStatement, ...]
    grants: tuple[PolicyStatement, ...]

    @property
    def statements(self) -> tuple[PolicyStatement, ...]:
        """All statements, denies first."""
        return self.denials + self.grants


@lru_cache(maxsize=2048)
def parse_policy(document: bytes) -> CompiledPolicy:
    """Compile a document, cached by its bytes. Raises InvalidPolicy with the reason."""
    if len(document) > MAX_POLICY_BYTES:
        raise InvalidPolicy(f"policy is too large. size={len(document)} maximum={MAX_POLICY_BYTES}")
    top = _load(document)
    if not isinstance(top, dict):
        raise InvalidPolicy("policy must be a JSON object")
    _refuse_unknown(top, _DOCUMENT_ELEMENTS, "policy")
    # As in AWS, the default is the older version.
    version = _text(top.get("Version", "2008-10-17"), "Version")
    if version not in _VERSIONS:
        raise InvalidPolicy(f"unknown policy version. version={version}")
    written = top.get("Statement")
    if isinstance(written, dict):
        written = [written]
    if not isinstance(written, list) or not written:
        raise InvalidPolicy("policy must have at least one Statement")
    statements = [_parse_statement(one, variables=version == "2012-10-17") for one in written]
    return CompiledPolicy(
        version,
        _text(top.get("Id", ""), "Id"),
        denials=tuple(statement for statement in statements if not statement.allows),
        grants=tuple(statement for statement in statements if statement.allows),
    )


def _load(document: bytes) -> object:
    try:
        return json.loads(document.decode(), object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidPolicy(f"policy is not valid JSON: {describe_json_error(document)}") from error


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    # JSON leaves open which of repeated names counts: a reviewer and this server could read different policies.
    named = dict(pairs)
    if len(named) != len(pairs):
        repeated = next(name for number, (name, _) in enumerate(pairs) if name in dict(pairs[:number]))
        raise InvalidPolicy(f"policy repeats a name within one object. name={repeated[:80]}")
    return named


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidPolicy(f"policy contains a value that is not JSON. value={name}")


def _refuse_unknown(element: Mapping[str, object], known: frozenset[str], where: str) -> None:
    for name in element:
        if name not in known:
            raise InvalidPolicy(f"unknown element in {where}. element={name}")


def _parse_statement(written: object, *, variables: bool) -> PolicyStatement:
    if not isinstance(written, dict):
        raise InvalidPolicy("statement must be a JSON object")
    _refuse_unknown(written, _STATEMENT_ELEMENTS, "statement")
    effect = written.get("Effect")
    if effect not in ("Allow", "Deny"):
        raise InvalidPolicy("statement must have an Effect, Allow or Deny")
    principal_name = _either(written, "Principal", "NotPrincipal", required=False)
    action_name = _either(written, "Action", "NotAction")
    resource_name = _either(written, "Resource", "NotResource")
    written_actions = tuple(_texts(written[action_name], action_name))
    resources = tuple(
        _parse_resource(text, variables=variables) for text in _texts(written[resource_name], resource_name)
    )
    conditions = _parse_conditions(written.get("Condition", {}), variables=variables)
    negated = [pattern for condition in conditions if condition.negated for pattern in condition.patterns]
    if resource_name == "NotResource":
        negated += resources
    return PolicyStatement(
        sid=_text(written.get("Sid", ""), "Sid"),
        allows=effect == "Allow",
        actions=tuple(_parse_action(text) for text in written_actions),
        resources=resources,
        conditions=conditions,
        principal=parse_principal_element(written[principal_name]) if principal_name else None,
        excludes_principal=principal_name == "NotPrincipal",
        excludes_actions=action_name == "NotAction",
        excludes_resources=resource_name == "NotResource",
        written_actions=written_actions,
        required_variables=tuple(variable for pattern in negated for variable in pattern.variables),
    )


def _either(written: Mapping[str, object], plain: str, negated: str, *, required: bool = True) -> str:
    """Which of the two elements is present; empty if neither is and `required` is false."""
    if plain in written and negated in written:
        raise InvalidPolicy(f"statement must not have both {plain} and {negated}")
    if plain in written:
        return plain
    if negated in written:
        return negated
    if required:
        raise InvalidPolicy(f"statement must have {plain} or {negated}")
    return ""


def _parse_action(text: str) -> PolicyPattern:
    service, colon, name = text.partition(":")
    if text != "*" and not (colon and service and name):
        raise InvalidPolicy(f"action must read service:name. action={text}")
    return PolicyPattern(text.lower(), variables=False)


def _parse_resource(text: str, *, variables: bool) -> PolicyPattern:
    if text != "*" and not (text.startswith("arn:") and text.count(":") >= 5):
        raise InvalidPolicy(f'resource must be "*" or an ARN. resource={text}')
    return PolicyPattern(text, variables=variables)


def _parse_conditions(written: object, *, variables: bool) -> tuple[Condition, ...]:
    if not isinstance(written, dict):
        raise InvalidPolicy("condition must be a JSON object")
    conditions: list[Condition] = []
    for operator, keys in written.items():
        if not isinstance(keys, dict) or not keys:
            raise InvalidPolicy(f"condition operator must hold keys and values. operator={operator}")
        for key, values in keys.items():
            operands = tuple(_operand(value, key) for value in (values if isinstance(values, list) else [values]))
            if not operands:
                raise InvalidPolicy(f"condition key has no values. key={key}")
            conditions.append(parse_condition(operator, key, operands, variables=variables))
    return tuple(conditions)


def _operand(value: object, key: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return _text(value, key)


def _texts(written: object, element: str) -> list[str]:
    texts = written if isinstance(written, list) else [written]
    if not texts:
        raise InvalidPolicy(f"{element} must not be empty")
    return [_text(text, element) for text in texts]


def _text(value: object, element: str) -> str:
    if not isinstance(value, str):
        raise InvalidPolicy(f"{element} must be a string")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidPolicy(f"{element} contains an unpaired surrogate") from None
    return value
