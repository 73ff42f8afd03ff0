"""Catalog events in the outbox: one compact record per change, written in the same transaction."""

from __future__ import annotations

import msgspec

from lakebed.meta.outbox import Outbox, OutboxEvent
from lakebed.meta.seam import Transaction
from lakebed.objects.model import Caller

from .identifiers import Levels, display
from .model import Entry


class CatalogEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The payload of a catalog event."""

    catalog: str = msgspec.field(name="warehouse")
    namespace: tuple[str, ...] = ()
    name: str = ""
    id: str = ""
    uuid: str = ""
    metadata_at: str = ""
    generation: int = 0
    operation: str = ""
    snapshot: int = 0
    facts: dict[str, str] = {}
    principal: str = ""
    account: str = ""
    request_id: str = ""
    source_ip: str = ""


_encode = msgspec.msgpack.Encoder().encode
decode_event = msgspec.msgpack.Decoder(CatalogEvent).decode


async def append_catalog_event(
    outbox: Outbox,
    tx: Transaction,
    kind: str,
    caller: Caller,
    now_ms: int,
    catalog: str,
    namespace: Levels = (),
    entry: Entry | None = None,
    *,
    operation: str = "",
    snapshot: int = 0,
    facts: dict[str, str] | None = None,
) -> None:
    """Append an event to the outbox in `tx`."""
    subject = "/".join(part for part in (catalog, display(namespace), entry.name if entry else "") if part)
    payload = CatalogEvent(
        catalog=catalog,
        namespace=namespace,
        name=entry.name if entry else "",
        id=entry.id if entry else "",
        uuid=entry.uuid if entry else "",
        metadata_at=entry.metadata_at if entry else "",
        generation=entry.generation if entry else 0,
        operation=operation,
        snapshot=snapshot,
        facts=facts or {},
        principal=caller.principal.name,
        account=caller.principal.account,
        request_id=caller.request_id,
        source_ip=caller.source_ip,
    )
    await outbox.append(tx, OutboxEvent(kind, subject, _encode(payload), now_ms))
