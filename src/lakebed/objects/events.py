"""What happened to an object or bucket, as the outbox keeps it: one compact record, written with the change itself."""

from __future__ import annotations

import msgspec

from lakebed.meta.outbox import Event, Outbox
from lakebed.meta.seam import Transaction

from .model import Caller, StoredObject


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
    """The id of the key that the catalog handed out for it, if it was done with one."""


_encode = msgspec.msgpack.Encoder().encode
decode_event = msgspec.msgpack.Decoder(ObjectEvent).decode


async def tell_of_object(
    outbox: Outbox, tx: Transaction, name: str, bucket: str, stored: StoredObject, caller: Caller, now_ms: int
) -> None:
    """Record what became of one version of an object."""
    principal = caller.principal
    event = ObjectEvent(
        bucket=bucket,
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
    )
    await outbox.append(tx, Event(name, f"{bucket}/{stored.key}", _encode(event), now_ms))


async def tell_of_bucket(outbox: Outbox, tx: Transaction, name: str, bucket: str, caller: Caller, now_ms: int) -> None:
    """Record what became of a bucket."""
    principal = caller.principal
    event = ObjectEvent(
        bucket=bucket,
        principal=principal.name,
        account=principal.account,
        request_id=caller.request_id,
        source_ip=caller.source_ip,
    )
    await outbox.append(tx, Event(name, bucket, _encode(event), now_ms))
