"""Events of stream databases, tables and partitions, appended to the outbox with the change itself."""

from __future__ import annotations

import msgspec

from lakebed.meta.outbox import Outbox, OutboxEvent
from lakebed.meta.seam import Transaction
from lakebed.objects.model import Caller

__all__ = ["StreamEvent", "append_event", "decode_event"]


class StreamEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The payload of a stream event."""

    database: str
    table: str = ""
    partition: str = ""
    table_id: int = 0
    partition_id: int = 0
    schema_id: int = 0
    facts: dict[str, str] = {}
    principal: str = ""
    account: str = ""
    request_id: str = ""
    source_ip: str = ""


_encode = msgspec.msgpack.Encoder().encode
decode_event = msgspec.msgpack.Decoder(StreamEvent).decode


async def append_event(
    outbox: Outbox,
    tx: Transaction,
    kind: str,
    caller: Caller,
    now_ms: int,
    database: str,
    table: str = "",
    partition: str = "",
    *,
    table_id: int = 0,
    partition_id: int = 0,
    schema_id: int = 0,
    facts: dict[str, str] | None = None,
) -> None:
    """Append an event in the transaction `tx`, as its last statement (see the outbox)."""
    payload = StreamEvent(
        database=database,
        table=table,
        partition=partition,
        table_id=table_id,
        partition_id=partition_id,
        schema_id=schema_id,
        facts=facts or {},
        principal=caller.principal.name,
        account=caller.principal.account,
        request_id=caller.request_id,
        source_ip=caller.source_ip,
    )
    subject = "/".join(part for part in ("streams", database, table, partition) if part)
    await outbox.append(tx, OutboxEvent(kind, subject, _encode(payload), now_ms))
