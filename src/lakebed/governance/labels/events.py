"""What became of labels, as the outbox keeps it: written with the change itself.

    Labels   Changed

Labels that go with what has them, or with their owner, are not told of: the event of that says so. What changed nothing
tells nothing.
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
    """Of what has the labels: `table`, `principal-role`."""
    catalog: str = ""
    namespace: tuple[str, ...] = ()
    name: str = ""
    tags: dict[str, str] = {}
    """Tags that were set, with their values."""
    removed: tuple[str, ...] = ()
    """Keys of tags that are gone."""
    owner: str = ""
    """Who owns it now: `principal:ann`; empty if nobody does."""
    owner_changed: bool = False
    principal: str = ""
    """Who made the change."""
    account: str = ""


_encode = msgspec.msgpack.Encoder().encode
decode_label_event = msgspec.msgpack.Decoder(LabelEvent).decode


async def append_labels_event(
    outbox: Outbox,
    tx: Transaction,
    subject: LabelSubject,
    before: Labels,
    after: Labels,
    caller: Principal,
    now_ms: int,
) -> None:
    """Append what differs to what `tx` commits."""
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
