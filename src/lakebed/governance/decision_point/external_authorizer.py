"""Combines policies and grants with an external decision point.

The decision point cannot override an explicit deny or widen a session. In mode `and` it can only refuse more requests;
in mode `instead` it replaces identity policies, resource policies and grants.

Two callers are exempt: the server itself, for its periodic jobs, and vended credentials. Access to the table was
authorized before they were vended, and a scan reads thousands of files with them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from lakebed.core.access import AccessRequest, AccessTarget, Principal, ResourceRules
from lakebed.core.errors import AccessDenied, Unavailable
from lakebed.core.settings import DecisionMode

from ..authorizer import PolicyAuthorizer
from .client import DecisionPoint
from .decision_input import DecisionQuery

log = logging.getLogger("lakebed.decisions")


class ExternalAuthorizer:
    """Authorizes with a decision point. Implements `core.access.Authorizer`."""

    __slots__ = ("_mode", "_point", "_policies")

    needs_full_context: Final = True

    def __init__(self, policies: PolicyAuthorizer, point: DecisionPoint, mode: DecisionMode) -> None:
        self._policies = policies
        self._point = point
        self._mode = mode

    @property
    def filters_lists(self) -> bool:
        """Whether it filters listings."""
        return self._point.supports_batches

    async def authorize(self, request: AccessRequest, rules: ResourceRules) -> None:
        """Return if allowed; raise AccessDenied otherwise, Unavailable if the decision point does not respond."""
        caller = request.principal
        if self._mode is DecisionMode.AND or _is_exempt(caller):
            self._policies.decide(request, rules)
        elif self._policies.check_limits(request, rules):
            return
        if _is_exempt(caller):
            return
        try:
            allowed = await self._point.allows(DecisionQuery.of(request, rules), request.request_id)
        except Unavailable as error:
            raise _undecided(request, error) from error
        if not allowed:
            log.info("the decision point denied a request", extra=_log_fields(request))
            name = "anonymous" if caller.is_anonymous else caller.caller_arn
            raise AccessDenied(
                f"the decision point does not allow it. principal={name} action={request.action} "
                f"resource={request.resource}"
            )

    def could_allow(self, request: AccessRequest, rules: ResourceRules) -> bool:
        """Whether some request with this action could be allowed. Does not query the decision point."""
        if self._mode is DecisionMode.AND or _is_exempt(request.principal):
            return self._policies.could_allow(request, rules)
        return True

    async def visible(
        self, request: AccessRequest, rules: ResourceRules, targets: Sequence[AccessTarget]
    ) -> Sequence[AccessTarget]:
        """The visible targets among those given. Raises Unavailable if the decision point does not respond."""
        if _is_exempt(request.principal):
            return targets
        try:
            return await self._point.visible(DecisionQuery.of(request, rules), targets, request.request_id)
        except Unavailable as error:
            raise _undecided(request, error) from error


def _is_exempt(caller: Principal) -> bool:
    is_the_server = caller.is_root and caller.key is None and caller.session is None
    return is_the_server or (caller.session is not None and caller.session.delegated_for != "")


def _undecided(request: AccessRequest, error: Unavailable) -> Unavailable:
    """An error other than AccessDenied, because there is no decision."""
    log.error(
        "no response of the decision point; the request was refused",
        extra=_log_fields(request) | {"reason": str(error)},
    )
    return Unavailable("the decision point does not respond")


def _log_fields(request: AccessRequest) -> dict[str, str]:
    return {
        "principal": request.principal.caller_arn,
        "action": request.action,
        "resource": request.resource,
        "request_id": request.request_id,
    }
