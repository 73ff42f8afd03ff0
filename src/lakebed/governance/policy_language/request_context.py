"""One access request as policies see it: its action, its resource and the values of its condition keys."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from lakebed.core.access import AccessRequest, Principal
from lakebed.core.clock import Clock

from .document import CompiledPolicy, PolicyStatement
from .wildcards import fold_key

_OWN_KEYS: Final = (
    "aws:currenttime",
    "aws:epochtime",
    "aws:multifactorauth",
    "aws:principal",
    "aws:tokenissuetime",
    "aws:userid",
    "aws:username",
    "aws:viaawsservice",
)
"""Beginnings of the keys whose values come from here and from nowhere else."""

_TIMES: Final = ("aws:currenttime", "aws:epochtime")


class RequestContext:
    """A request, asked of one policy after another. Condition keys are gathered when the first is asked for."""

    __slots__ = ("_clock", "_keys", "_request", "action", "caller", "resource")

    def __init__(self, request: AccessRequest, clock: Clock) -> None:
        self.caller = request.principal
        self.action = request.action.lower()
        self.resource = request.resource
        self._request = request
        self._clock = clock
        self._keys: dict[str, tuple[str, ...]] | None = None

    def values(self, key: str) -> tuple[str, ...] | None:
        """The request's values under a lower-case condition key."""
        if self._keys is None:
            self._keys = _facts(self.caller)
            for name, value in self._request.context.items():
                folded = fold_key(name)
                # What an edge was told must not pass for what the server knows, not even where it knows nothing.
                if not folded.startswith(_OWN_KEYS):
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
        """Whether an identity or session policy allows it. Denials are asked for apart."""
        return self._meets(policy.grants)

    @property
    def needs_privileges(self) -> bool:
        """Whether grants could allow it."""
        return self._request.securable is not None

    @property
    def is_granted(self) -> bool:
        """Whether the caller's roles hold what it takes."""
        request, grants = self._request, self.caller.grants
        return (
            grants is not None
            and request.securable is not None
            and grants.covers(request.securable, request.privileges)
        )

    def denied_by(self, statement: PolicyStatement) -> bool:
        """Whether a denial is about it. Who is denied is not looked at."""
        return statement.applies(self.action, self.resource, self.values)

    def allowed_by(self, statement: PolicyStatement) -> bool:
        """Whether a grant is about it. Who is granted it is not looked at."""
        return statement.applies(self.action, self.resource, self.values)

    def _meets(self, statements: tuple[PolicyStatement, ...]) -> bool:
        for statement in statements:  # noqa: SIM110 - asked on every request: a generator costs more than the answer
            if statement.applies(self.action, self.resource, self.values):
                return True
        return False


class PartialRequestContext(RequestContext):
    """A request of which only the action is known for certain: whether any such request could be allowed.

    Its resource may be empty, for one that is not known yet. A denial counts only if nothing unknown can lift it.
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
        """Whether the caller has roles, which may hold what it takes."""
        return self.needs_privileges and self.caller.grants is not None

    def denied_by(self, statement: PolicyStatement) -> bool:
        """Whether a denial is about all such requests."""
        if statement.conditions or any(pattern.variables for pattern in statement.resources):
            return False
        is_unlimited = not statement.excludes_resources and any(one.text == "*" for one in statement.resources)
        return (bool(self.resource) or is_unlimited) and super().denied_by(statement)

    def allowed_by(self, statement: PolicyStatement) -> bool:
        """Whether a grant is about some such request."""
        return statement.could_apply(self.action, self.resource, self.values)


def _facts(caller: Principal) -> dict[str, tuple[str, ...]]:
    if caller.is_anonymous:
        return {"aws:principaltype": ("Anonymous",), "aws:viaawsservice": ("false",)}
    session = caller.session
    facts: dict[str, tuple[str, ...]] = {
        "aws:principalaccount": (caller.account,),
        # The identity's own ARN even in a session: a role's name is only claimed (see grantees).
        "aws:principalarn": (caller.arn,),
        # No service calls here on its own or for others. Policies that make exceptions for those still ask.
        "aws:principalisawsservice": ("false",),
        "aws:principaltype": ("Account" if caller.is_root else "User",),
        "aws:userid": (caller.user_id,),
        "aws:viaawsservice": ("false",),
    }
    if not caller.is_root:
        facts["aws:username"] = (caller.name,)
    if session is not None:
        facts["aws:tokenissuetime"] = (_iso(session.issued_ms),)
        # As in AWS, temporary keys say whether a second factor was asked for, and lasting keys say nothing of it.
        facts["aws:multifactorauthpresent"] = ("false",)
        for key, value in session.tags:
            facts[f"aws:principaltag/{key}"] = (value,)
    return facts


def _iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()
