"""Calls on remote storage: file credentials for clients, and the manifests of remote logs (ADR 39)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from lakebed.core.clock import Clock
from lakebed.objects.model import Caller
from lakebed.storage.credentials import Credentials
from lakebed.streams.authorization import StreamOperation
from lakebed.streams.file_access import FileAccess, FileLocation
from lakebed.streams.log.remote.remote_log import RemoteLogs
from lakebed.streams.tables import StreamTables

from .. import messages_pb2 as pb
from ..calls import AnyCall, Call
from ..transport.clients import client_of

__all__ = ["file_calls", "remote_log_calls"]


def file_calls(access: FileAccess, clock: Clock) -> tuple[AnyCall, ...]:
    """The call for file credentials."""

    async def token(
        caller: Caller, request: pb.GetFileSystemSecurityTokenRequest
    ) -> pb.GetFileSystemSecurityTokenResponse:
        """Credentials, or none: then the server reads for the client, or the client has its own.

        Error codes: SECURITY_TOKEN.
        """
        client = client_of(caller)
        with client.requesting_grant():
            grant = await access.grant(caller, sends_tokens=client.takes_session_tokens)
            if grant is not None:
                client.add_grant(grant, clock.now_ms())
        # Without credentials, a scheme that needs no support by the client.
        response = pb.GetFileSystemSecurityTokenResponse(schema="file", token=b"")
        if grant is not None and grant.is_temporary:
            response.expiration_time = grant.until_ms
        if grant is not None and grant.credentials is not None and access.location is not None:
            response.schema = "s3"
            response.token = _token(grant.credentials)
            response.addition_info.extend(pb.Pair(key=key, value=value) for key, value in _s3_settings(access.location))
        return response

    return (Call(1025, "GET_FILESYSTEM_SECURITY_TOKEN", pb.GetFileSystemSecurityTokenRequest, token),)


def _token(credentials: Credentials) -> bytes:
    document = {"access_key_id": credentials.access_key_id, "access_key_secret": credentials.secret_access_key.reveal()}
    if credentials.session_token is not None:
        document["security_token"] = credentials.session_token.reveal()
    return msgspec.json.encode(document)


def _s3_settings(location: FileLocation) -> Iterator[tuple[str, str]]:
    """The connection settings of the object store, by their Hadoop names, which all clients know."""
    if location.endpoint is not None:
        yield "fs.s3a.endpoint", location.endpoint
    yield "fs.s3a.endpoint.region", location.region
    yield "fs.s3a.path.style.access", "true" if location.path_style else "false"


def remote_log_calls(tables: StreamTables, remotes: RemoteLogs) -> tuple[AnyCall, ...]:
    """The call for remote log manifests."""

    async def listed(caller: Caller, request: pb.ListRemoteLogManifestsRequest) -> pb.ListRemoteLogManifestsResponse:
        """The manifests of the buckets of a table or partition. Error codes: UNKNOWN_TABLE_OR_BUCKET."""
        table = await tables.authorized(caller, StreamOperation.DESCRIBE, request.table_id)
        partition_id = request.partition_id if request.HasField("partition_id") else None
        response = pb.ListRemoteLogManifestsResponse()
        for bucket, manifest, end in await remotes.ends(table.id, partition_id):
            table_bucket = pb.TableBucket(table_id=table.id, partition_id=partition_id, bucket_id=bucket.bucket)
            response.manifests.add(
                table_bucket=table_bucket, manifest_path=remotes.address_of(manifest), end_offset=end
            )
        return response

    return (Call(1063, "LIST_REMOTE_LOG_MANIFESTS", pb.ListRemoteLogManifestsRequest, listed),)
