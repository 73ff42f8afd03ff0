"""Calls about remote storage: file credentials for clients, and the manifests of remote logs (ADR 39)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from lakebed.core.clock import Clock
from lakebed.objects.model import Caller
from lakebed.storage.credentials import Credentials
from lakebed.streams.authorization import StreamAuthorizer, StreamOperation
from lakebed.streams.file_access import FileAccess, FileLocation
from lakebed.streams.log.remote.remote_log import RemoteLogs
from lakebed.streams.tables import StreamTables

from .. import messages_pb2 as pb
from ..calls import AnyCall, Call
from ..transport.clients import client_of

__all__ = ["file_calls", "remote_log_calls"]


def file_calls(access: FileAccess, clock: Clock) -> tuple[AnyCall, ...]:
    """What this answers."""

    async def token(
        caller: Caller, request: pb.GetFileSystemSecurityTokenRequest
    ) -> pb.GetFileSystemSecurityTokenResponse:
        """Keys, or none: then the home reads for this client, or it has its own. Error codes: SECURITY_TOKEN."""
        client = client_of(caller)
        with client.asking():
            grant = await access.grant(caller, takes_tokens=client.takes_session_tokens)
            if grant is not None:
                client.take(grant, clock.now_ms())
        # Without keys there is nothing of which clients would have to know how to use it.
        answer = pb.GetFileSystemSecurityTokenResponse(schema="file", token=b"")
        if grant is not None and grant.is_temporary:
            answer.expiration_time = grant.until_ms
        if grant is not None and grant.keys is not None and access.location is not None:
            answer.schema = "s3"
            answer.token = _document(grant.keys)
            answer.addition_info.extend(pb.Pair(key=key, value=value) for key, value in _addition(access.location))
        return answer

    return (Call(1025, "GET_FILESYSTEM_SECURITY_TOKEN", pb.GetFileSystemSecurityTokenRequest, token),)


def _document(keys: Credentials) -> bytes:
    document = {"access_key_id": keys.access_key_id, "access_key_secret": keys.secret_access_key.reveal()}
    if keys.session_token is not None:
        document["security_token"] = keys.session_token.reveal()
    return msgspec.json.encode(document)


def _addition(location: FileLocation) -> Iterator[tuple[str, str]]:
    """How the byte store is spoken to, in the words of Hadoop, which all clients know."""
    if location.endpoint is not None:
        yield "fs.s3a.endpoint", location.endpoint
    yield "fs.s3a.endpoint.region", location.region
    yield "fs.s3a.path.style.access", "true" if location.path_style else "false"


def remote_log_calls(authorizer: StreamAuthorizer, tables: StreamTables, remotes: RemoteLogs) -> tuple[AnyCall, ...]:
    """What this answers."""

    async def listed(caller: Caller, request: pb.ListRemoteLogManifestsRequest) -> pb.ListRemoteLogManifestsResponse:
        """Of each bucket of a table or a partition, where its segments are listed.

        Error codes: UNKNOWN_TABLE_OR_BUCKET.
        """
        table = await tables.by_id(request.table_id)
        await authorizer.authorize(caller, StreamOperation.DESCRIBE, *table.path)
        partition_id = request.partition_id if request.HasField("partition_id") else None
        answer = pb.ListRemoteLogManifestsResponse()
        for bucket, manifest, end in await remotes.ends(table.id, partition_id):
            named = pb.TableBucket(table_id=table.id, bucket_id=bucket.bucket)
            if partition_id is not None:
                named.partition_id = partition_id
            answer.manifests.add(table_bucket=named, manifest_path=remotes.address_of(manifest), end_offset=end)
        return answer

    return (Call(1063, "LIST_REMOTE_LOG_MANIFESTS", pb.ListRemoteLogManifestsRequest, listed),)
