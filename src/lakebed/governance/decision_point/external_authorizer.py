"""The one authorizer where somebody else has a say: what that may add to policies and grants, and what it may not.

Nothing that it says lifts a denial or widens a session. With `and` it may only refuse further; with `instead` it allows
in place of identity policies, resource policies and grants.

Two callers it is not asked about. The server itself does its own chores, of which nobody asked. And keys that the
catalog handed out for the files of a table: it was asked about the table before they were, and a scan reads thousands
of files within the minutes that they last.
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
    """Decides with a decision point elsewhere. Implements `core.access.Authorizer`."""

    __slots__ = ("_mode", "_point", "_policies")

    needs_full_context: Final = True

    def __init__(self, policies: PolicyAuthorizer, point: DecisionPoint, mode: DecisionMode) -> None:
        self._policies = policies
        self._point = point
        self._mode = mode

    @property
    def filters_lists(self) -> bool:
        """Whether what lists show is asked about, too."""
        return self._point.answers_batches

    async def authorize(self, request: AccessRequest, rules: ResourceRules) -> None:
        """Return if allowed; raise AccessDenied otherwise, Unavailable if the decision point does not answer."""
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
            log.info("the decision point refused", extra=_told(request))
            who = "anonymous" if caller.is_anonymous else caller.caller_arn
            raise AccessDenied(
                f"the decision point does not allow it. principal={who} action={request.action} "
                f"resource={request.resource}"
            )

    def could_allow(self, request: AccessRequest, rules: ResourceRules) -> bool:
        """Whether some request with this action could be allowed. The decision point is not asked."""
        if self._mode is DecisionMode.AND or _is_exempt(request.principal):
            return self._policies.could_allow(request, rules)
        return True

    async def visible(
        self, request: AccessRequest, rules: ResourceRules, targets: Sequence[AccessTarget]
    ) -> Sequence[AccessTarget]:
        """Those of `targets` that the decision point shows. Raises Unavailable if it does not answer."""
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
    """Nothing was done, and nobody has said that it may not be done."""
    log.error(
        "the decision point gave no answer, and nothing was allowed", extra=_told(request) | {"reason": str(error)}
    )
    return Unavailable("who decides about access does not answer")


def _told(request: AccessRequest) -> dict[str, str]:
    return {
        "principal": request.principal.caller_arn,
        "action": request.action,
        "resource": request.resource,
        "request_id": request.request_id,
    }
