"""An access request as policies evaluate it: action, resource and values of condition keys."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from lakebed.core.access import AccessRequest, Principal
from lakebed.core.clock import Clock

from .document import CompiledPolicy, PolicyStatement
from .wildcards import fold_key

_SERVER_KEYS: Final = (
    "aws:currenttime",
    "aws:epochtime",
    "aws:multifactorauth",
    "aws:principal",
    "aws:tokenissuetime",
    "aws:userid",
    "aws:username",
    "aws:viaawsservice",
)
"""Prefixes of keys whose values only the server sets."""

_TIMES: Final = ("aws:currenttime", "aws:epochtime")


class RequestContext:
    """An access request. Condition values are computed when first needed."""

    __slots__ = ("_clock", "_keys", "_request", "action", "caller", "resource")

    def __init__(self, request: AccessRequest, clock: Clock) -> None:
        self.caller = request.principal
        self.action = request.action.lower()
        self.resource = request.resource
        self._request = request
        self._clock = clock
        self._keys: dict[str, tuple[str, ...]] | None = None

    def values(self, key: str) -> tuple[str, ...] | None:
        """The request's values of a lower-case condition key."""
        if self._keys is None:
            self._keys = _principal_values(self.caller)
            for name, value in self._request.context.items():
                folded = fold_key(name)
                # Values that a client sends must not set the server's keys, not even those without a value.
                if not folded.startswith(_SERVER_KEYS):
                    self._keys[folded] = (value,) if isinstance(value, str) else value
        if key in _TIMES and key not in self._keys:
            now_ms = self._clock.now_ms()
            self._keys["aws:currenttime"] = (_iso(now_ms),)
            self._keys["aws:epochtime"] = (str(now_ms // 1000),)
        return self._keys.get(key)

    def is_denied_by(self, policy: CompiledPolicy) -> bool:
        """Whether an identity or session policy denies it."""
        return self._meets(policy.denials)

    def is_allowed_by(self, policy: CompiledPolicy) -> bool:
        """Whether an identity or session policy allows it, denies aside."""
        return self._meets(policy.grants)

    @property
    def needs_privileges(self) -> bool:
        """Whether the request could be allowed by grants."""
        return self._request.securable is not None

    @property
    def is_granted(self) -> bool:
        """Whether the caller's roles have the required privileges."""
        request, grants = self._request, self.caller.grants
        return (
            grants is not None
            and request.securable is not None
            and grants.covers(request.securable, request.privileges)
        )

    def denied_by(self, statement: PolicyStatement) -> bool:
        """Whether a Deny statement applies, principals aside."""
        return statement.applies(self.action, self.resource, self.values)

    def allowed_by(self, statement: PolicyStatement) -> bool:
        """Whether an Allow statement applies, principals aside."""
        return statement.applies(self.action, self.resource, self.values)

    def _meets(self, statements: tuple[PolicyStatement, ...]) -> bool:
        for statement in statements:  # noqa: SIM110 - hot path: a generator expression is slower
            if statement.applies(self.action, self.resource, self.values):
                return True
        return False


class PartialRequestContext(RequestContext):
    """A request of which only the action is known: decides whether any such request could be allowed.

    An empty resource is unknown. A Deny counts only if it applies regardless of unknown values.
    """

    __slots__ = ()

    def is_denied_by(self, policy: CompiledPolicy) -> bool:
        """Whether an identity or session policy denies all such requests."""
        return any(map(self.denied_by, policy.denials))

    def is_allowed_by(self, policy: CompiledPolicy) -> bool:
        """Whether an identity or session policy allows some such request."""
        return any(map(self.allowed_by, policy.grants))

    @property
    def is_granted(self) -> bool:
        """Whether the caller has roles, which may have the required privileges."""
        return self.needs_privileges and self.caller.grants is not None

    def denied_by(self, statement: PolicyStatement) -> bool:
        """Whether a Deny statement applies to all such requests."""
        if statement.conditions or any(pattern.variables for pattern in statement.resources):
            return False
        is_unlimited = not statement.excludes_resources and any(one.text == "*" for one in statement.resources)
        return (bool(self.resource) or is_unlimited) and super().denied_by(statement)

    def allowed_by(self, statement: PolicyStatement) -> bool:
        """Whether an Allow statement applies to some such request."""
        return statement.could_apply(self.action, self.resource, self.values)


def _principal_values(caller: Principal) -> dict[str, tuple[str, ...]]:
    if caller.is_anonymous:
        return {"aws:principaltype": ("Anonymous",), "aws:viaawsservice": ("false",)}
    session = caller.session
    values: dict[str, tuple[str, ...]] = {
        "aws:principalaccount": (caller.account,),
        # The identity's own ARN even in a session: a role name is only claimed (see `principal_element`).
        "aws:principalarn": (caller.arn,),
        # AWS services never call this server, but policies make exceptions for them.
        "aws:principalisawsservice": ("false",),
        "aws:principaltype": ("Account" if caller.is_root else "User",),
        "aws:userid": (caller.user_id,),
        "aws:viaawsservice": ("false",),
    }
    if not caller.is_root:
        values["aws:username"] = (caller.name,)
    if session is not None:
        values["aws:tokenissuetime"] = (_iso(session.issued_ms),)
        # As in AWS: false for temporary keys without a second factor, absent for long-lived keys.
        values["aws:multifactorauthpresent"] = ("false",)
        for key, value in session.tags:
            values[f"aws:principaltag/{key}"] = (value,)
    return values


def _iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()
