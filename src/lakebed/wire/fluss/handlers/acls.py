"""Calls about ACLs. Each of those in a call is answered for itself."""

from __future__ import annotations

from lakebed.core.errors import LakebedError, NoSuchPrincipal
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.objects.model import Caller
from lakebed.streams.admin.acls import Acl, AclFilter, Acls

from .. import messages_pb2 as pb
from ..calls import AnyCall, Call
from ..errors import failure_message

__all__ = ["acl_calls"]


def acl_calls(acls: Acls) -> tuple[AnyCall, ...]:
    """The calls on these use cases."""

    async def create(caller: Caller, request: pb.CreateAclsRequest) -> pb.CreateAclsResponse:
        await acls.authorize(caller, to_change=True)
        answer = pb.CreateAclsResponse()
        for said in request.acls:
            answered = answer.acls.add(acl=said)
            try:
                await acls.create(caller, _acl(said))
            except LakebedError as error:
                failure = failure_message(_told(error))
                answered.error_code, answered.error_message = failure.error_code, failure.error_message
        return answer

    async def list_all(caller: Caller, request: pb.ListAclsRequest) -> pb.ListAclsResponse:
        await acls.authorize(caller, to_change=False)
        found = await acls.matching(_filter(request.acl_filter))
        return pb.ListAclsResponse(acls=[_message(each) for each in found])

    async def drop(caller: Caller, request: pb.DropAclsRequest) -> pb.DropAclsResponse:
        await acls.authorize(caller, to_change=True)
        answer = pb.DropAclsResponse()
        for said in request.acl_filters:
            result = answer.filter_results.add()
            try:
                for each in await acls.drop(caller, _filter(said)):
                    result.matching_acls.add(acl=_message(each))
            except LakebedError as error:
                failure = failure_message(_told(error))
                result.error_code, result.error_message = failure.error_code, failure.error_message
        return answer

    return (
        Call(1039, "CREATE_ACLS", pb.CreateAclsRequest, create),
        Call(1040, "LIST_ACLS", pb.ListAclsRequest, list_all),
        Call(1041, "DROP_ACLS", pb.DropAclsRequest, drop),
    )


def _told(error: LakebedError) -> LakebedError:
    """The protocol has no number for somebody who is not there."""
    return FlussError(ErrorCode.INVALID_CONFIG, str(error)) if isinstance(error, NoSuchPrincipal) else error


def _acl(said: pb.Acl) -> Acl:
    return Acl(
        said.resource_name,
        said.resource_type,
        said.principal_name,
        said.principal_type,
        said.host,
        said.operation,
        said.permission,
    )


def _message(acl: Acl) -> pb.Acl:
    return pb.Acl(**acl._asdict())


def _filter(said: pb.AclFilter) -> AclFilter:
    def given(name: str) -> str | None:
        # Clients say any by leaving a name out, and some by an empty one.
        return getattr(said, name) or None if said.HasField(name) else None

    return AclFilter(
        given("resource_name"),
        said.resource_type,
        given("principal_name"),
        given("principal_type"),
        given("host"),
        said.operation,
        said.permission,
    )
