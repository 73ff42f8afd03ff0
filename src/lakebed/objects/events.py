"""Events of objects and buckets: one compact outbox record each, written in the transaction of the change."""

from __future__ import annotations

from typing import Final

import msgspec

from lakebed.meta.outbox import Outbox, OutboxEvent
from lakebed.meta.seam import Transaction

from .buckets.bucket import Bucket
from .model import Caller, StoredObject

MAX_HEADER_CHARS: Final = 512
"""Limit for stored request headers, which untrusted clients choose."""


class ObjectEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The payload of an object or bucket event. Names are those of S3's event types, without `s3:`."""

    bucket: str
    key: str = ""
    version: str = ""
    size: int = 0
    etag: str = ""
    content_type: str = ""
    metadata: dict[str, str] = {}
    principal: str = ""
    account: str = ""
    request_id: str = ""
    source_ip: str = ""
    delegation: str = ""
    """The id of the vended credentials used by the request, if any."""
    user_agent: str = ""
    host: str = ""
    """The Host header of the request."""
    owner: str = ""
    """The account that owns the bucket, if it is not the caller's."""
    remains: bool = False
    """For a removed version: whether the key still has a current object."""


_encode = msgspec.msgpack.Encoder().encode
decode_event = msgspec.msgpack.Decoder(ObjectEvent).decode


def object_event(
    name: str, bucket: Bucket, stored: StoredObject, caller: Caller, now_ms: int, *, remains: bool = False
) -> OutboxEvent:
    """An event about one version of an object."""
    principal = caller.principal
    event = ObjectEvent(
        bucket=bucket.name,
        key=stored.key,
        version=stored.version if stored.version != "null" else "",
        size=stored.size,
        etag=stored.etag,
        content_type="" if stored.is_marker else stored.attributes.content_type,
        metadata=stored.attributes.metadata,
        principal=principal.name,
        account=principal.account,
        request_id=caller.request_id,
        source_ip=caller.source_ip,
        delegation="" if principal.session is None else principal.session.delegation,
        user_agent=_storable(caller.user_agent),
        host=_storable(caller.host),
        owner="" if bucket.owner == principal.account else bucket.owner,
        remains=remains,
    )
    return OutboxEvent(name, f"{bucket.name}/{stored.key}", _encode(event), now_ms)


async def emit_object_event(
    outbox: Outbox,
    tx: Transaction,
    name: str,
    bucket: Bucket,
    stored: StoredObject,
    caller: Caller,
    now_ms: int,
    *,
    remains: bool = False,
) -> None:
    """Append an event about one version of an object."""
    await outbox.append(tx, object_event(name, bucket, stored, caller, now_ms, remains=remains))


async def emit_bucket_event(
    outbox: Outbox, tx: Transaction, name: str, bucket: Bucket, caller: Caller, now_ms: int
) -> int:
    """Append an event about a bucket; its sequence number."""
    principal = caller.principal
    event = ObjectEvent(
        bucket=bucket.name,
        principal=principal.name,
        account=principal.account,
        request_id=caller.request_id,
        source_ip=caller.source_ip,
        user_agent=_storable(caller.user_agent),
        host=_storable(caller.host),
        owner="" if bucket.owner == principal.account else bucket.owner,
    )
    return await outbox.append(tx, OutboxEvent(name, bucket.name, _encode(event), now_ms))


def _storable(header: str) -> str:
    """A header value, truncated and valid UTF-8: headers may contain undecodable bytes."""
    if header.isascii():
        return header[:MAX_HEADER_CHARS]
    return header.encode("utf-8", "replace").decode()[:MAX_HEADER_CHARS]
