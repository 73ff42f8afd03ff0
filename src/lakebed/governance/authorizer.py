"""The one authorizer: AWS's evaluation of identity, resource and session policies (ADR 5), and grants (ADR 16).

In order: an explicit denial anywhere refuses. Then, of the caller's own account, an identity policy *or* the resource
policy must allow; of another account, both must; an anonymous caller has only the resource policy. Each session policy
must allow besides. Root of an account needs no identity policy, and neither do keys that the catalog handed out for a
table's files: it has asked whether the caller may have them, and wrote the session policy that they are held to.

Grants allow as the policies together do, whatever the account: a role was given to the caller by who manages access to
the service, and privileges to the role by who manages access to the catalog. So both sides have agreed.
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
"""What root of the owning account may always do, so that no bucket policy locks everybody out."""

_OWN_IDENTITY_ACTIONS: Final = frozenset({"sts:getcalleridentity", "sts:getsessiontoken", "sts:assumerole"})
"""What gives a caller nothing that it has not: allowed to every identity unless a policy denies it.

A session that assumes a role here keeps the caller's own rights or fewer (see `sessions`). Tagging one is another
matter, since policies may grant by tags: `sts:TagSession` needs a policy as everything else does.
"""


class PolicyAuthorizer:
    """Decides by policy documents and grants. Implements `core.access.Authorizer` and `core.access.PolicyLanguage`."""

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
        """All: who may see a list is asked about the list, and grants that show a part of it are found by it."""
        return targets

    def decide(self, request: AccessRequest, rules: ResourceRules) -> None:
        """Return if allowed; raise AccessDenied otherwise. What policies and grants say is known without waiting."""
        caller = request.principal
        # The commonest question, answered first: root on its own bucket that has no policy, with lasting keys.
        if caller.is_root and rules.policy is None and caller.session is None and caller.account == rules.owner:
            return
        _raise(_refusal(RequestContext(request, self._clock), rules), request)

    def could_allow(self, request: AccessRequest, rules: ResourceRules) -> bool:
        """Whether some request with this action could be allowed, as far as policies and grants say."""
        return _refusal(PartialRequestContext(request, self._clock), rules) is None

    def check_limits(self, request: AccessRequest, rules: ResourceRules) -> bool:
        """Raise AccessDenied if something refuses, whoever may allow: a denial, or a session policy that is silent.

        True if nothing has to allow it besides.
        """
        question = RequestContext(request, self._clock)
        documents = _documents(question, rules)
        _raise(_limit(question, documents), request)
        return _needs_no_allowance(question, documents)

    def check_bucket_policy(self, document: bytes, bucket: str, table_bucket: str = "") -> None:
        """Raise InvalidPolicy, with the reason, unless the document may stand on that bucket.

        `table_bucket` is its ARN in S3 Tables, if it holds tables.
        """
        check_bucket_policy(document, bucket, table_bucket)

    def is_public(self, document: bytes) -> bool:
        """Whether the document grants something to everybody, by S3's definition."""
        return is_public(document)


def _raise(refusal: str | None, request: AccessRequest) -> None:
    if refusal is not None:
        caller = request.principal
        who = "anonymous" if caller.is_anonymous else caller.caller_arn
        raise AccessDenied(f"{refusal}. principal={who} action={request.action} resource={request.resource}")


class _Documents(NamedTuple):
    """The policies that a question is about."""

    owns: bool
    """Whether the caller is of the account that owns the resource."""
    resource: CompiledPolicy | None
    identity: list[CompiledPolicy]
    session: list[CompiledPolicy]
    outer: list[CompiledPolicy]


def _documents(question: RequestContext, rules: ResourceRules) -> _Documents:
    caller = question.caller
    owns = caller.account == rules.owner and not caller.is_anonymous
    # Not even a damaged policy keeps the owner's root from replacing it.
    keeps_key = owns and caller.is_root and question.action in _OWN_POLICY_ACTIONS
    session = caller.session
    return _Documents(
        owns,
        None if rules.policy is None or keeps_key else _stored(rules.policy),
        [_stored(document) for document in caller.policies],
        [] if session is None else [_stored(document) for document in session.policies],
        [] if session is None else [_stored(document) for document in session.outer_policies],
    )


def _refusal(question: RequestContext, rules: ResourceRules) -> str | None:
    """Why the answer is no; None if it is yes."""
    documents = _documents(question, rules)
    limit = _limit(question, documents)
    if limit is not None or _needs_no_allowance(question, documents):
        return limit
    owns = documents.owns
    identity_allows = question.caller.is_root or any(question.is_allowed_by(policy) for policy in documents.identity)
    if (owns and identity_allows) or question.is_granted:
        return None
    refusal = _policy_refusal(question, rules, documents.resource, owns=owns, identity_allows=identity_allows)
    return f"{refusal}, and no grant" if refusal is not None and question.needs_privileges else refusal


def _limit(question: RequestContext, documents: _Documents) -> str | None:
    """Why nothing could allow it; None if something could."""
    if question.caller.must_rotate:
        return "the client secret has to be rotated first"
    if documents.resource is not None and _denies(documents.resource, question):
        return "explicitly denied by the resource policy"
    for policy in documents.identity:
        if question.is_denied_by(policy):
            return "explicitly denied by an identity policy"
    for policy in (*documents.session, *documents.outer):
        if question.is_denied_by(policy):
            return "explicitly denied by a session policy"
    if not _is_of_own_identity(question, documents):
        for policy in documents.session:
            if not question.is_allowed_by(policy):
                return "a session policy does not allow it"
    return None


def _needs_no_allowance(question: RequestContext, documents: _Documents) -> bool:
    """Whether what is within the limits is allowed by that alone."""
    session = question.caller.session
    # Within the account that owns the table. A bucket of the same name that is somebody else's by now is not meant.
    is_delegated = session is not None and session.delegated_for != "" and bool(documents.session) and documents.owns
    return is_delegated or _is_of_own_identity(question, documents)


def _is_of_own_identity(question: RequestContext, documents: _Documents) -> bool:
    return documents.owns and question.action in _OWN_IDENTITY_ACTIONS


def _policy_refusal(
    question: RequestContext,
    rules: ResourceRules,
    resource_policy: CompiledPolicy | None,
    *,
    owns: bool,
    identity_allows: bool,
) -> str | None:
    """Why policies do not allow what no identity policy allows within the owning account; None if they do."""
    caller = question.caller
    if not owns and not caller.is_anonymous and not identity_allows:
        return "no identity policy allows it"
    granted = GrantScope.NONE if resource_policy is None else _grant(resource_policy, question)
    # Naming an account hands the right to it. Within the owning account that adds nothing to what identities hold.
    if granted is GrantScope.NONE or (owns and granted is GrantScope.ACCOUNT):
        return "no identity policy and no resource policy allows it" if owns else "no resource policy allows it"
    if not owns and rules.restrict_public_buckets and rules.policy is not None and is_public(rules.policy):
        return "the resource policy is public, and public policies are restricted"
    return None


def _stored(document: bytes) -> CompiledPolicy:
    try:
        return parse_policy(document)
    except InvalidPolicy as error:
        # Documents are checked when they are put. Guessing at a damaged one could turn a denial into nothing.
        raise Corrupted(f"a stored policy does not parse. reason={error}") from error


def _denies(policy: CompiledPolicy, question: RequestContext) -> bool:
    for statement in policy.denials:  # noqa: SIM110 - asked on every request: a generator costs more than the answer
        if statement.denies(question.caller) and question.denied_by(statement):
            return True
    return False


def _grant(policy: CompiledPolicy, question: RequestContext) -> GrantScope:
    """The strongest grant of a resource policy to the caller."""
    strongest = GrantScope.NONE
    for statement in policy.grants:
        granted = statement.grant(question.caller)
        if granted is GrantScope.NONE or granted is strongest:
            continue
        if not question.allowed_by(statement):
            continue
        if granted is GrantScope.DIRECT:
            return granted
        strongest = granted
    return strongest
