"""Label events, appended in the transaction of the change.

    Labels   Changed

Labels deleted with their subject or owner have no event of their own, and neither has a call that changes nothing.
"""

from __future__ import annotations

import msgspec

from lakebed.core.access import Principal
from lakebed.meta.outbox import Outbox, OutboxEvent
from lakebed.meta.seam import Transaction

from .model import Labels, LabelSubject


class LabelEvent(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The payload."""

    kind: str
    """The kind of subject: `table`, `principal-role`."""
    catalog: str = ""
    namespace: tuple[str, ...] = ()
    name: str = ""
    tags: dict[str, str] = {}
    """Tags that were set."""
    removed: tuple[str, ...] = ()
    """Keys of removed tags."""
    owner: str = ""
    """The current owner, such as `principal:ann`; empty if none."""
    owner_changed: bool = False
    principal: str = ""
    """The caller."""
    account: str = ""


_encode = msgspec.msgpack.Encoder().encode


async def append_labels_event(
    outbox: Outbox,
    tx: Transaction,
    subject: LabelSubject,
    before: Labels,
    after: Labels,
    caller: Principal,
    now_ms: int,
) -> None:
    """Append an event with the difference."""
    event = LabelEvent(
        kind=subject.kind,
        catalog=subject.catalog,
        namespace=subject.namespace,
        name=subject.name,
        tags={key: value for key, value in after.tags.items() if before.tags.get(key) != value},
        removed=tuple(key for key in before.tags if key not in after.tags),
        owner="" if after.owner is None else str(after.owner),
        owner_changed=before.owner != after.owner,
        principal=caller.name,
        account=caller.account,
    )
    await outbox.append(tx, OutboxEvent("LabelsChanged", str(subject), _encode(event), now_ms))
