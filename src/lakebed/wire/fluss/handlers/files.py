"""The call for keys to files of streams, by which clients read old segments and snapshots themselves (ADR 39)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from lakebed.core.clock import Clock
from lakebed.objects.model import Caller
from lakebed.storage.credentials import Credentials
from lakebed.streams.file_access import FileAccess, FileLocation

from .. import messages_pb2 as pb
from ..calls import AnyCall, Call
from ..transport.clients import client_of

__all__ = ["file_calls"]


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
        if grant is not None and grant.keys is not None and access.place is not None:
            answer.schema = "s3"
            answer.token = _document(grant.keys)
            answer.addition_info.extend(pb.Pair(key=key, value=value) for key, value in _addition(access.place))
        return answer

    return (Call(1025, "GET_FILESYSTEM_SECURITY_TOKEN", pb.GetFileSystemSecurityTokenRequest, token),)


def _document(keys: Credentials) -> bytes:
    document = {"access_key_id": keys.access_key_id, "access_key_secret": keys.secret_access_key.reveal()}
    if keys.session_token is not None:
        document["security_token"] = keys.session_token.reveal()
    return msgspec.json.encode(document)


def _addition(place: FileLocation) -> Iterator[tuple[str, str]]:
    """How the byte store is spoken to, in the words of Hadoop, which all clients know."""
    if place.endpoint is not None:
        yield "fs.s3a.endpoint", place.endpoint
    yield "fs.s3a.endpoint.region", place.region
    yield "fs.s3a.path.style.access", "true" if place.path_style else "false"
