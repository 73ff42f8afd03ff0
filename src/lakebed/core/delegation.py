"""How far a catalog gives clients access to the files of tables."""

from __future__ import annotations

from enum import StrEnum


class AccessDelegation(StrEnum):
    """The access that a client can request in `X-Iceberg-Access-Delegation`; each value includes the next."""

    VENDED = "vended-credentials"
    """Temporary credentials, or signatures if the client requests those."""

    SIGNING = "remote-signing"
    """Signatures for its requests, and no credentials."""

    NONE = "none"
    """Neither: clients use credentials of their own for the object store."""

    @property
    def vends(self) -> bool:
        """Whether credentials are vended."""
        return self is AccessDelegation.VENDED

    @property
    def signs(self) -> bool:
        """Whether requests are signed."""
        return self is not AccessDelegation.NONE

    def narrowed(self, other: AccessDelegation) -> AccessDelegation:
        """What both allow."""
        order = list(AccessDelegation)
        return max(self, other, key=order.index)
