"""The authorizer: AWS's evaluation of identity, resource and session policies (ADR 5), and of grants (ADR 16).

1. An explicit deny in any policy refuses the request.
2. In the account that owns the resource, an identity policy *or* the resource policy must allow it. From another
   account both must. An anonymous caller has only the resource policy.
3. Every session policy must allow it too.

Root of an account needs no identity policy. Vended credentials need none either: the catalog authorized the caller
before it vended them, and wrote the session policy that limits them.

Grants allow across accounts. A role is granted by an administrator of the service and its privileges by an
administrator of the catalog, so both sides have agreed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from lakebed.core.access import AccessRequest, AccessTarget, ResourceRules
from lakebed.core.clock import Clock
from lakebed.core.errors import AccessDenied, Corrupted, InvalidPolicy

from .policy_language.bucket_policy import check_bucket_policy, is_public
from .policy_language.document import CompiledPolicy, parse_policy
from .policy_language.principal_element import GrantScope
from .policy_language.request_context import PartialRequestContext, RequestContext

_OWN_POLICY_ACTIONS: Final = frozenset({"s3:getbucketpolicy", "s3:putbucketpolicy", "s3:deletebucketpolicy"})
"""Always allowed to root of the owning account, so that a bucket policy cannot lock all callers out."""

_OWN_IDENTITY_ACTIONS: Final = frozenset({"sts:getcalleridentity", "sts:getsessiontoken", "sts:assumerole"})
"""Allowed to every identity unless a policy denies it, because it adds no permissions.

A session that assumes a role keeps at most the caller's own permissions (see `sessions`). Tagging a session can add
some, because policies may grant by tags: `sts:TagSession` needs a policy.
"""


class PolicyAuthorizer:
    """Authorizes by policies and grants. Implements `core.access.Authorizer` and `core.access.PolicyLanguage`."""

    __slots__ = ("_clock",)

    needs_full_context: Final = False
    filters_lists: Final = False

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def authorize(self, request: AccessRequest, rules: ResourceRules) -> None:
        """Return if allowed; raise AccessDenied otherwise."""
        self.decide(request, rules)

    async def visible(
        self, request: AccessRequest, rules: ResourceRules, targets: Sequence[AccessTarget]
    ) -> Sequence[AccessTarget]:
        """All targets: listing is authorized on the parent, and `granted_listing` filters by grants."""
        return targets

    def decide(self, request: AccessRequest, rules: ResourceRules) -> None:
        """Return if allowed; raise AccessDenied otherwise. Synchronous: everything needed is in memory."""
        caller = request.principal
        # Fast path of the most common request: root with a long-lived key, on its own bucket without a policy.
        if caller.is_root and rules.policy is None and caller.session is None and caller.account == rules.owner:
            return
        _raise(_refusal(RequestContext(request, self._clock), rules), request)

    def could_allow(self, request: AccessRequest, rules: ResourceRules) -> bool:
        """Whether policies and grants could allow some request with this action."""
        return _refusal(PartialRequestContext(request, self._clock), rules) is None

    def check_limits(self, request: AccessRequest, rules: ResourceRules) -> bool:
        """Raise AccessDenied for an explicit deny, or if a session policy does not allow the request.

        True if the request is allowed without an identity policy, resource policy or grant.
        """
        context = RequestContext(request, self._clock)
        documents = _documents(context, rules)
        _raise(_limit(context, documents), request)
        return _is_allowed_within_limits(context, documents)

    def check_bucket_policy(self, document: bytes, bucket: str, table_bucket: str = "") -> None:
        """Raise InvalidPolicy, with the reason, unless the document is a valid policy of that bucket.

        `table_bucket` is its ARN in S3 Tables, if it holds tables.
        """
        check_bucket_policy(document, bucket, table_bucket)

    def is_public(self, document: bytes) -> bool:
        """Whether the document makes the bucket public, by S3's definition."""
        return is_public(document)


def _raise(refusal: str | None, request: AccessRequest) -> None:
    if refusal is not None:
        caller = request.principal
        name = "anonymous" if caller.is_anonymous else caller.caller_arn
        raise AccessDenied(f"{refusal}. principal={name} action={request.action} resource={request.resource}")


class _Documents(NamedTuple):
    """The policies that apply to a request."""

    owns: bool
    """Whether the caller belongs to the account that owns the resource."""
    resource: CompiledPolicy | None
    identity: list[CompiledPolicy]
    session: list[CompiledPolicy]
    outer: list[CompiledPolicy]


def _documents(context: RequestContext, rules: ResourceRules) -> _Documents:
    caller = context.caller
    owns = caller.account == rules.owner and not caller.is_anonymous
    # The owner's root can replace a policy even if the stored one is damaged.
    skips_resource_policy = owns and caller.is_root and context.action in _OWN_POLICY_ACTIONS
    session = caller.session
    return _Documents(
        owns,
        None if rules.policy is None or skips_resource_policy else _stored(rules.policy),
        [_stored(document) for document in caller.policies],
        [] if session is None else [_stored(document) for document in session.policies],
        [] if session is None else [_stored(document) for document in session.outer_policies],
    )


def _refusal(context: RequestContext, rules: ResourceRules) -> str | None:
    """The reason for a refusal; None if the request is allowed."""
    documents = _documents(context, rules)
    limit = _limit(context, documents)
    if limit is not None or _is_allowed_within_limits(context, documents):
        return limit
    owns = documents.owns
    identity_allows = context.caller.is_root or any(context.is_allowed_by(policy) for policy in documents.identity)
    if (owns and identity_allows) or context.is_granted:
        return None
    refusal = _policy_refusal(context, rules, documents.resource, owns=owns, identity_allows=identity_allows)
    return f"{refusal}, and no grant" if refusal is not None and context.needs_privileges else refusal


def _limit(context: RequestContext, documents: _Documents) -> str | None:
    """The reason for a refusal that no policy or grant can override; None if there is none."""
    if context.caller.must_rotate:
        return "the client secret must be rotated first"
    if documents.resource is not None and _denies(documents.resource, context):
        return "explicitly denied by the resource policy"
    for policy in documents.identity:
        if context.is_denied_by(policy):
            return "explicitly denied by an identity policy"
    for policy in (*documents.session, *documents.outer):
        if context.is_denied_by(policy):
            return "explicitly denied by a session policy"
    if not _is_of_own_identity(context, documents):
        for policy in documents.session:
            if not context.is_allowed_by(policy):
                return "a session policy does not allow it"
    return None


def _is_allowed_within_limits(context: RequestContext, documents: _Documents) -> bool:
    """Whether a request that passes the limits needs no policy or grant that allows it."""
    session = context.caller.session
    # Only in the account that owns the table: another account may own a bucket of this name by now.
    is_delegated = session is not None and session.delegated_for != "" and bool(documents.session) and documents.owns
    return is_delegated or _is_of_own_identity(context, documents)


def _is_of_own_identity(context: RequestContext, documents: _Documents) -> bool:
    return documents.owns and context.action in _OWN_IDENTITY_ACTIONS


def _policy_refusal(
    context: RequestContext,
    rules: ResourceRules,
    resource_policy: CompiledPolicy | None,
    *,
    owns: bool,
    identity_allows: bool,
) -> str | None:
    """The reason that the resource policy does not allow a request without an allowing identity policy; or None."""
    caller = context.caller
    if not owns and not caller.is_anonymous and not identity_allows:
        return "no identity policy allows it"
    granted = GrantScope.NONE if resource_policy is None else _grant(resource_policy, context)
    # Naming an account only lets the account's identity policies allow it, and these did not.
    if granted is GrantScope.NONE or (owns and granted is GrantScope.ACCOUNT):
        return "no identity policy and no resource policy allows it" if owns else "no resource policy allows it"
    if not owns and rules.restrict_public_buckets and rules.policy is not None and is_public(rules.policy):
        return "the resource policy is public, and public policies are restricted"
    return None


def _stored(document: bytes) -> CompiledPolicy:
    try:
        return parse_policy(document)
    except InvalidPolicy as error:
        # Policies are validated when put. Skipping a damaged one could drop a deny.
        raise Corrupted(f"stored policy does not parse. reason={error}") from error


def _denies(policy: CompiledPolicy, context: RequestContext) -> bool:
    for statement in policy.denials:  # noqa: SIM110 - hot path: a generator expression is slower
        if statement.denies(context.caller) and context.denied_by(statement):
            return True
    return False


def _grant(policy: CompiledPolicy, context: RequestContext) -> GrantScope:
    """The strongest grant of a resource policy to the caller."""
    strongest = GrantScope.NONE
    for statement in policy.grants:
        granted = statement.grant(context.caller)
        if granted is GrantScope.NONE or granted is strongest:
            continue
        if not context.allowed_by(statement):
            continue
        if granted is GrantScope.DIRECT:
            return granted
        strongest = granted
    return strongest
