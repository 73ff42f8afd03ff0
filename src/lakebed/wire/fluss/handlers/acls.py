"""Calls on ACLs. Each ACL of a call has its own result."""

from __future__ import annotations

from lakebed.core.errors import LakebedError, NoSuchPrincipal
from lakebed.fluss.errors import ErrorCode, FlussError
from lakebed.objects.model import Caller
from lakebed.streams.admin.acls import Acl, AclFilter, Acls

from .. import messages_pb2 as pb
from ..calls import AnyCall, Call
from ..errors import set_failure

__all__ = ["acl_calls"]


def acl_calls(acls: Acls) -> tuple[AnyCall, ...]:
    """The calls on ACLs."""

    async def create(caller: Caller, request: pb.CreateAclsRequest) -> pb.CreateAclsResponse:
        await acls.authorize(caller, to_change=True)
        response = pb.CreateAclsResponse()
        for message in request.acls:
            result = response.acls.add(acl=message)
            try:
                await acls.create(caller, _acl(message))
            except LakebedError as error:
                set_failure(result, _with_code(error))
        return response

    async def list_all(caller: Caller, request: pb.ListAclsRequest) -> pb.ListAclsResponse:
        await acls.authorize(caller, to_change=False)
        found = await acls.matching(_filter(request.acl_filter))
        return pb.ListAclsResponse(acls=[_acl_message(each) for each in found])

    async def drop(caller: Caller, request: pb.DropAclsRequest) -> pb.DropAclsResponse:
        await acls.authorize(caller, to_change=True)
        response = pb.DropAclsResponse()
        for message in request.acl_filters:
            result = response.filter_results.add()
            try:
                for each in await acls.drop(caller, _filter(message)):
                    result.matching_acls.add(acl=_acl_message(each))
            except LakebedError as error:
                set_failure(result, _with_code(error))
        return response

    return (
        Call(1039, "CREATE_ACLS", pb.CreateAclsRequest, create),
        Call(1040, "LIST_ACLS", pb.ListAclsRequest, list_all),
        Call(1041, "DROP_ACLS", pb.DropAclsRequest, drop),
    )


def _with_code(error: LakebedError) -> LakebedError:
    """The error, with a code for an unknown principal: the protocol has none."""
    return FlussError(ErrorCode.INVALID_CONFIG, str(error)) if isinstance(error, NoSuchPrincipal) else error


def _acl(message: pb.Acl) -> Acl:
    return Acl(
        message.resource_name,
        message.resource_type,
        message.principal_name,
        message.principal_type,
        message.host,
        message.operation,
        message.permission,
    )


def _acl_message(acl: Acl) -> pb.Acl:
    return pb.Acl(**acl._asdict())


def _filter(message: pb.AclFilter) -> AclFilter:
    def given(name: str) -> str | None:
        # A missing name matches any; some clients send an empty one.
        return getattr(message, name) or None if message.HasField(name) else None

    return AclFilter(
        given("resource_name"),
        message.resource_type,
        given("principal_name"),
        given("principal_type"),
        given("host"),
        message.operation,
        message.permission,
    )
