"""Who administers: the caller of a management operation, and the question that comes before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from lakebed.core.access import Principal, Securable

from .operations import OPERATIONS
from .securables import SERVICE

EVERYTHING: Final = "*"
"""The resource of operations on users and roles, as policies name it."""


class AuthorizeOperation(Protocol):
    """Puts a question to the one authorizer, with what else is known of the request."""

    async def __call__(self, action: str, resource: str, securable: Securable, privileges: tuple[int, ...]) -> None:
        """Return if allowed; raise AccessDenied otherwise."""
        ...


@dataclass(frozen=True, slots=True)
class Administrator:
    """Who asks for an operation of the management API. Use cases hold nothing else of the request."""

    principal: Principal
    ask: AuthorizeOperation

    async def check(
        self,
        operation: str,
        securable: Securable = SERVICE,
        *,
        resource: str = EVERYTHING,
        secondary: Securable = SERVICE,
    ) -> None:
        """Return if the caller may do the operation, by its id in `OPERATIONS`. Raises AccessDenied.

        Policies call it `lakebed:` and the id in upper camel case: `lakebed:CreatePrincipalRole`.
        """
        needs = OPERATIONS[operation]
        action = action_name(operation)
        await self.ask(action, resource, securable, needs.target)
        if needs.secondary:
            await self.ask(action, resource, secondary, needs.secondary)


def action_name(operation: str) -> str:
    """What policies call an operation."""
    word = operation.partition(" ")[0]
    return f"lakebed:{word[0].upper()}{word[1:]}"
