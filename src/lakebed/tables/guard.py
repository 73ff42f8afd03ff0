"""What S3 clients may not do in a table bucket, and which right to a table they need besides those to its bucket.

Invariant: a table's current metadata file is moved by commits alone. Everything else in a table's directories is for
its engines to write and delete, in whichever order they do: expired snapshots, files that nobody refers to. And no
bucket goes while a table is of it, or points into it.
"""

from __future__ import annotations

from typing import Final

from lakebed.core.errors import AccessDenied, BucketHasTables
from lakebed.governance.rbac.releasing import release_catalog
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.objects.bucket import Bucket
from lakebed.objects.listing import successor
from lakebed.objects.model import Caller

from . import rows
from .files import SCHEMES
from .gate import Action, Gate
from .locations import QUARANTINE_PREFIX, RESERVED_PREFIX, placed_at
from .model import Warehouse

_UPLOADS: Final = frozenset({"s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"})
"""Actions that need the right to write and change nothing that a key holds."""


class TableGuard:
    """Implements `objects.facilities.Guard`."""

    __slots__ = ("_gate", "_meta")

    def __init__(self, meta: MetaStore, gate: Gate) -> None:
        self._meta = meta
        self._gate = gate

    async def admit(self, caller: Caller, bucket: Bucket, action: str, key: str) -> None:
        """Return if the caller may do this to the table that the key belongs to, or if it belongs to none.

        One statement. Raises AccessDenied.
        """
        reads = action.startswith("s3:Get")
        if not reads and action not in _UPLOADS and key.startswith(RESERVED_PREFIX):
            raise AccessDenied(f"the directory is the catalog's own; it is read-only here. key={key}")
        if key.startswith(QUARANTINE_PREFIX):
            # They were some table's, and the right to read them went by its directory.
            raise AccessDenied(f"the file is in quarantine: release it to read it. key={key}")
        found = await placed_at(self._meta, bucket.id, key)
        if found is None:
            return
        principal = caller.principal
        if principal.is_anonymous:
            raise AccessDenied(f"files of a table are for callers that sign their requests. key={key}")
        if principal.session is not None and principal.session.delegated_for == found.entry.id:
            if found.entry.dropped_ms is not None and not reads:
                # Engines delete files after a drop. Those of a table that can be restored must outlive that.
                raise AccessDenied(f"the table was dropped and can be restored: its files stay. key={key}")
            # The catalog asked for this right when it handed out the keys, and their policy was asked just now.
            return
        await self._gate.check(
            caller,
            Warehouse(bucket, 0, b""),
            Action.GET_TABLE_DATA if reads else Action.PUT_TABLE_DATA,
            namespace=found.namespace,
            entry=found.entry,
        )

    async def confirm(self, tx: Transaction, bucket: Bucket, key: str) -> None:
        """Return unless the key holds the current metadata of a table or view. Raises AccessDenied.

        Wherever that is: a table that was registered may have it outside its directories.
        """
        if await tx.row(rows.IS_CURRENT_METADATA, *(f"{scheme}{bucket.name}/{key}" for scheme in SCHEMES)) is not None:
            raise AccessDenied(f"the file is the current metadata of a table or view; commits replace it. key={key}")

    async def release(self, tx: Transaction, bucket: Bucket) -> None:
        """Return unless a table or view is of this bucket, or has its metadata there. Raises BucketHasTables.

        A table that was registered may have its metadata elsewhere, and dropped ones can be restored: that a bucket has
        no objects does not mean that nothing would be lost with it.
        """
        if await tx.row(rows.WAREHOUSE_HAS_ENTRIES, bucket.id) is not None:
            raise BucketHasTables(
                "the bucket still has tables or views, or dropped ones that can be restored: drop or purge them first."
                f" bucket={bucket.name}"
            )
        for scheme in SCHEMES:
            within = f"{scheme}{bucket.name}/"
            if await tx.row(rows.HAS_METADATA_WITHIN, within, successor(within)) is not None:
                raise BucketHasTables(
                    f"a table or view of another bucket has its metadata here: drop it first. bucket={bucket.name}"
                )
        await release_catalog(tx, bucket.id)
