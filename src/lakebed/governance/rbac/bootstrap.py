"""What every catalog begins with: a role that administers it, held by those who administer the service."""

from __future__ import annotations

from lakebed.core.access import Principal
from lakebed.core.errors import Corrupted
from lakebed.meta.outbox import Outbox
from lakebed.meta.seam import Transaction

from . import rows
from .events import RoleTeller
from .model import CATALOG_ADMIN, SERVICE_ADMIN, GrantTarget, HeldGrant
from .privileges import GrantKind, Privilege
from .securables import catalog_key

ADMIN_PRIVILEGES = (Privilege.CATALOG_MANAGE_ACCESS, Privilege.CATALOG_MANAGE_METADATA)
"""No data: who administers can grant that, to itself too, and the event tells."""


async def establish_catalog(
    tx: Transaction, outbox: Outbox, catalog: int, name: str, caller: Principal, now_ms: int
) -> None:
    """Give a catalog its `catalog_admin`, in the transaction that makes the catalog. Idempotent; append nothing before.

    Raises Corrupted if the service has no administrators, which come with the schema.
    """
    if not await tx.run(rows.INSERT_CATALOG_ROLE, catalog, CATALOG_ADMIN, None, now_ms, now_ms):
        return
    role = await tx.row(rows.CATALOG_ROLE, catalog, CATALOG_ADMIN)
    administrators = await tx.row(rows.PRINCIPAL_ROLE, SERVICE_ADMIN)
    if role is None or administrators is None:
        raise Corrupted(f"the service has no role that administers it. role={SERVICE_ADMIN}")
    for privilege in ADMIN_PRIVILEGES:
        await tx.run(rows.ADD_GRANT, role[0], catalog_key(catalog), privilege, None, None, None, now_ms)
    await tx.run(rows.ADD_PRINCIPAL_ROLE, administrators[0], role[0])
    await tx.run(rows.COUNT_CHANGE)
    teller = RoleTeller(outbox, tx, caller, now_ms)
    await teller.catalog_role("Created", name, CATALOG_ADMIN)
    for privilege in ADMIN_PRIVILEGES:
        await teller.grant("Added", name, CATALOG_ADMIN, HeldGrant(GrantTarget(GrantKind.CATALOG), privilege))
    await teller.assignment("Assigned", name, CATALOG_ADMIN, SERVICE_ADMIN)
