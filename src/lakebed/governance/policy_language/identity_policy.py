"""What a policy must be to be attached to a user or a session.

It names only actions and condition keys that exist (`actions`, `condition_keys`) and resources that a request can have.
AWS accepts some documents that are refused here; all that AWS documents as valid is accepted (ADR 44). Policies stored
by earlier releases are not checked again and decide as they did: `unknown_actions` finds what is wrong with them.
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
    """Compile a document that is to be attached to a user or a session. Raises InvalidPolicy with the reason."""
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
    """What is wrong with the actions that a stored document names. Raises InvalidPolicy if it does not parse."""
    named = [action for statement in parse_policy(document).statements for action in statement.written_actions]
    return [problem for action in named if (problem := action_problem(action)) is not None]


def _check_resource(resource: PolicyPattern) -> None:
    """Refuse an ARN of a service of ours in a partition that no resource of this server has."""
    if resource.text == "*":
        return
    _, partition, service, *_ = resource.text.split(":", 3)
    if service in KNOWN_ACTIONS and not PolicyPattern(partition, variables=False).matches(_PARTITION, no_values):
        raise InvalidPolicy(f"resources of this server are in the partition {_PARTITION}. resource={resource.text}")


def _check_conditions(statement: PolicyStatement) -> None:
    for condition in statement.conditions:
        if (problem := key_problem(condition.key)) is not None:
            raise InvalidPolicy(problem)
