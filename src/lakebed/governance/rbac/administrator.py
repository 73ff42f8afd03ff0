"""The caller of a management operation, and the authorization of the operation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from lakebed.core.access import Principal, Securable

from .operations import OPERATIONS
from .securables import SERVICE

EVERYTHING: Final = "*"
"""The resource of operations on principals and roles in policies."""


class AuthorizeOperation(Protocol):
    """Calls the authorizer with the context of the request."""

    async def __call__(self, action: str, resource: str, securable: Securable, privileges: tuple[int, ...]) -> None:
        """Return if allowed; raise AccessDenied otherwise."""
        ...


@dataclass(frozen=True, slots=True)
class Administrator:
    """The caller of a management operation, and the authorization of its request."""

    principal: Principal
    authorize_operation: AuthorizeOperation

    async def authorize(
        self,
        operation: str,
        securable: Securable = SERVICE,
        *,
        resource: str = EVERYTHING,
        secondary: Securable = SERVICE,
    ) -> None:
        """Authorize an operation by its id in `OPERATIONS`. Raises AccessDenied.

        In policies the action is `lakebed:` and the id in upper camel case: `lakebed:CreatePrincipalRole`.
        """
        required = OPERATIONS[operation]
        action = action_name(operation)
        await self.authorize_operation(action, resource, securable, required.target)
        if required.secondary:
            await self.authorize_operation(action, resource, secondary, required.secondary)


def action_name(operation: str) -> str:
    """The action of an operation, as policies name it."""
    word = operation.partition(" ")[0]
    return f"lakebed:{word[0].upper()}{word[1:]}"
