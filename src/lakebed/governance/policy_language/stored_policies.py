"""Finds actions in stored user policies that no request can have, for a warning when the server starts.

Releases before the check accepted any action. What they stored keeps loading and decides as it did: to refuse it would
turn a working policy off, and to guess the meant action would change who may do what. Only its author can correct it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from lakebed.core.errors import InvalidPolicy
from lakebed.meta.seam import Reader

from .identity_policy import unknown_actions

_PAGE: Final = 500
_INLINE_POLICIES: Final = (
    "SELECT principal, name, document FROM principal_policies WHERE kind = 'inline'"
    " AND (principal > ? OR (principal = ? AND name > ?)) ORDER BY principal, name LIMIT ?"
)


class StoredPolicyProblem(NamedTuple):
    """What is wrong with a user's policy."""

    principal: str
    policy: str
    problem: str


async def stored_policy_problems(reader: Reader) -> AsyncIterator[StoredPolicyProblem]:
    """Each unknown action of each user's own policies, by user. One read per 500 policies."""
    principal, policy = "", ""
    while True:
        rows = await reader.rows(_INLINE_POLICIES, principal, principal, policy, _PAGE)
        for principal, policy, document in rows:
            for problem in _problems(document):
                yield StoredPolicyProblem(principal, policy, problem)
        if len(rows) < _PAGE:
            return


def _problems(document: bytes) -> list[str]:
    try:
        return unknown_actions(document)
    except InvalidPolicy as error:
        return [f"policy does not parse: {error}"]
