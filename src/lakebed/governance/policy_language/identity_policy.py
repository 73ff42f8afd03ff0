"""Validation of policies of users and sessions.

They may name only known actions and condition keys (`actions`, `condition_keys`) and possible resources. AWS accepts
some documents that are refused here; every document that AWS documents as valid is accepted (ADR 44). Policies stored
by earlier releases are not validated again; `unknown_actions` reports their problems.
"""

from __future__ import annotations

from typing import Final

from lakebed.core.errors import InvalidPolicy

from .actions import KNOWN_ACTIONS, action_problem
from .condition_keys import key_problem
from .document import CompiledPolicy, PolicyStatement, parse_policy
from .wildcards import PolicyPattern, no_values

_PARTITION: Final = "aws"


def check_identity_policy(document: bytes) -> CompiledPolicy:
    """Compile and validate a policy of a user or a session. Raises InvalidPolicy with the reason."""
    policy = parse_policy(document)
    sids: set[str] = set()
    for statement in policy.statements:
        if statement.principal is not None:
            raise InvalidPolicy("an identity policy must not name a Principal")
        if statement.sid and statement.sid in sids:
            raise InvalidPolicy(f"statement ids must be unique. sid={statement.sid}")
        sids.add(statement.sid)
        for action in statement.written_actions:
            if (problem := action_problem(action)) is not None:
                raise InvalidPolicy(problem)
        for resource in statement.resources:
            _check_resource(resource)
        _check_conditions(statement)
    return policy


def unknown_actions(document: bytes) -> list[str]:
    """Problems with the actions in a stored document. Raises InvalidPolicy if it does not parse."""
    named = [action for statement in parse_policy(document).statements for action in statement.written_actions]
    return [problem for action in named if (problem := action_problem(action)) is not None]


def _check_resource(resource: PolicyPattern) -> None:
    """Refuse an ARN of a known service in a partition that this server does not have."""
    if resource.text == "*":
        return
    _, partition, service, *_ = resource.text.split(":", 3)
    if service in KNOWN_ACTIONS and not PolicyPattern(partition, variables=False).matches(_PARTITION, no_values):
        raise InvalidPolicy(f"resources of this server are in the partition {_PARTITION}. resource={resource.text}")


def _check_conditions(statement: PolicyStatement) -> None:
    for condition in statement.conditions:
        if (problem := key_problem(condition.key)) is not None:
            raise InvalidPolicy(problem)
