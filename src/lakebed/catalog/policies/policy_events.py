"""Events of policies, appended to the outbox.

    CatalogPolicy      Created, Updated, Dropped
    CatalogPolicy      Attached (also with other parameters), Detached: about the target, with the policy in its facts
    CatalogPolicyType  Created, Dropped

There are no events for attachments that are removed with their target, or for requests that change nothing. Access
user policies have separate events (`governance.events`).
"""

from __future__ import annotations

from lakebed.governance.policies import AttachmentTarget, Policy
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import Transaction
from lakebed.objects.model import Caller

from ..events import append_catalog_event
from ..identifiers import display


async def append_policy_event(
    outbox: Outbox, tx: Transaction, kind: str, caller: Caller, now_ms: int, catalog: str, policy: Policy
) -> None:
    """Append an event of a policy. The content is not part of it: read the policy for that."""
    await append_catalog_event(outbox, tx, kind, caller, now_ms, catalog, policy.namespace, facts=_facts(policy))


async def append_attachment_event(
    outbox: Outbox,
    tx: Transaction,
    kind: str,
    caller: Caller,
    now_ms: int,
    catalog: str,
    policy: Policy,
    place: AttachmentTarget,
    entry_id: str,
) -> None:
    """Append the event of an attachment or detachment; `entry_id` is of a table or view, else empty."""
    facts = _facts(policy) | {"policy-namespace": display(policy.namespace), "target": str(place)}
    if entry_id:
        facts |= {"name": place.path[-1], "id": entry_id}
    namespace = place.path[:-1] if entry_id else place.path
    await append_catalog_event(outbox, tx, kind, caller, now_ms, catalog, namespace, facts=facts)


def _facts(policy: Policy) -> dict[str, str]:
    return {"policy": policy.name, "type": policy.type, "version": str(policy.version)}
