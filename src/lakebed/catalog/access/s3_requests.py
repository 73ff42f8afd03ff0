"""What S3 clients may not do in a table bucket, and which right to a table they need besides those to its bucket.

Invariant: a table's current metadata file is moved by commits alone. Everything else in a table's directories is for
its engines to write and delete, in whichever order they do: expired snapshots, files that nobody refers to. And no
bucket goes while a table is of it, or points into it.

Whom a policy shows a part of a table has nothing of its files, whichever keys it comes with, and of copies those that
were made for what it sees now.
"""

from __future__ import annotations

from typing import Final

from lakebed.core.clock import Clock
from lakebed.core.errors import AccessDenied, BucketHasTables, WriteConflict
from lakebed.governance.rbac.grant_cleanup import invalidate_catalog_grants
from lakebed.meta.seam import MetaStore, Transaction
from lakebed.objects.buckets.bucket import Bucket
from lakebed.objects.context import KeyOwner
from lakebed.objects.listing import successor
from lakebed.objects.model import Caller

from .. import rows
from ..catalogs.base_locations import catalog_at
from ..entries import live_entry_from
from ..locations.claims import claimant_of, reservation_at
from ..locations.directories import QUARANTINE_FOLDER, LocatedEntry, locate_entry
from ..model import RESERVED_FOLDER
from ..restrictions import Restrictions, is_copies_namespace
from ..restrictions.copy_rows import find_copy
from ..tables.files import SCHEMES
from .authorization import Action, CatalogAuthorizer

_UPLOADS: Final = frozenset({"s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"})
"""Actions that need the right to write and change nothing that a key holds."""


class TableFileAuthorizer:
    """Implements `objects.facilities.Guard`."""

    __slots__ = ("_authorizer", "_clock", "_meta", "_restrictions")

    def __init__(self, meta: MetaStore, authorizer: CatalogAuthorizer, clock: Clock) -> None:
        self._meta = meta
        self._clock = clock
        self._authorizer = authorizer
        self._restrictions = Restrictions(meta)

    async def authorize(self, caller: Caller, bucket: Bucket, action: str, key: str) -> KeyOwner:
        """The table that the key belongs to, if the caller may do this to it, or nothing if the key belongs to none.

        One statement; one more for keys of no table and for those that look like the server's, and further ones for
        who is not root where policies restrict somebody. Raises AccessDenied.
        """
        reads = action.startswith("s3:Get")
        if RESERVED_FOLDER in key:
            reserved = await self._reserved(bucket, key)
            if not reads and action not in _UPLOADS and reserved is not None:
                raise AccessDenied(f"the directory is the catalog's own; it is read-only here. key={key}")
            if reserved is not None and key.startswith(f"{reserved}{QUARANTINE_FOLDER}"):
                # They were some table's, and the right to read them went by its directory.
                raise AccessDenied(f"the file is in quarantine: release it to read it. key={key}")
        found = await locate_entry(self._meta, bucket, key)
        if found is None:
            return await self._admit_elsewhere(caller, bucket, action, key)
        await self._admit_to_table(caller, found, action, key, reads=reads)
        return found.entry.id

    async def _admit_elsewhere(self, caller: Caller, bucket: Bucket, action: str, key: str) -> KeyOwner:
        """The holder of a key of no table: none, or a principal that staged a table there or just dropped one.

        Vended credentials are honoured only where the key is still the table's, or reserved for their principal.
        """
        reserved = await reservation_at(self._meta, bucket, key, self._clock.now_ms())
        delegated_for = "" if caller.principal.session is None else caller.principal.session.delegated_for
        is_theirs = reserved is not None and claimant_of(caller.principal) == reserved.principal
        if delegated_for and not (is_theirs or (reserved is not None and reserved.entry == delegated_for)):
            raise AccessDenied(f"the credentials are for a table that does not have the key. key={key}")
        if reserved is None:
            return ""
        if not is_theirs and not delegated_for and action == "s3:PutObject":
            # The principal that staged or dropped the table may hold credentials for every object written here.
            await self._authorizer.check(
                caller, reserved.catalog, Action.PUT_TABLE_DATA, namespace=reserved.namespace, name=reserved.name
            )
        return reserved.holder

    async def _admit_to_table(self, caller: Caller, found: LocatedEntry, action: str, key: str, *, reads: bool) -> None:
        principal = caller.principal
        if principal.is_anonymous:
            raise AccessDenied(f"files of a table are for callers that sign their requests. key={key}")
        is_delegated = principal.session is not None and principal.session.delegated_for == found.entry.id
        if is_copies_namespace(found.namespace) and not await self._authorizer.can_run_tasks(caller):
            if not reads or not is_delegated:
                raise AccessDenied(f"the file is of a copy that the server keeps for some. key={key}")
            await self._confirm_copy(caller, found, key)
            return
        # Before keys that were handed out are looked at: they may be older than the policy.
        await self._restrictions.refuse(
            principal,
            found.catalog,
            found.namespace,
            found.entry,
            f"its files are not for who does not see all of it. key={key}",
        )
        if is_delegated:
            if found.entry.dropped_ms is not None and not reads:
                # Engines delete files after a drop. Those of a table that can be restored must outlive that.
                raise AccessDenied(f"the table was dropped and can be restored: its files stay. key={key}")
            # The catalog asked for this right when it handed out the keys, and their policy was asked just now.
            return
        await self._authorizer.check(
            caller,
            found.catalog,
            Action.GET_TABLE_DATA if reads else Action.PUT_TABLE_DATA,
            namespace=found.namespace,
            entry=found.entry,
        )

    async def _reserved(self, bucket: Bucket, key: str) -> str | None:
        """The directory of the server's own that a key lies in; None if in none.

        The one of the bucket itself is reserved whoever has catalogs in it.
        """
        if key.startswith(RESERVED_FOLDER):
            return RESERVED_FOLDER
        catalog = await catalog_at(self._meta, bucket, key)
        if catalog is None or not key.startswith(catalog.reserved_prefix):
            return None
        return catalog.reserved_prefix

    async def _confirm_copy(self, caller: Caller, found: LocatedEntry, key: str) -> None:
        """Return if a copy is of what its reader sees of the table now. Raises AccessDenied."""
        copy = await find_copy(self._meta, found.entry.id)
        source = None if copy is None else await self._meta.row(rows.ENTRY_BY_ID, copy.source)
        if copy is not None and source is not None:
            known = live_entry_from(source)
            restriction = await self._restrictions.of(
                caller.principal, known.catalog, known.namespace.levels, known.entry
            )
            if restriction is not None and restriction.key == copy.restriction:
                return
        raise AccessDenied(f"the copy is not of what the caller sees by now: plan the scan again. key={key}")

    async def check_write(self, tx: Transaction, bucket: Bucket, key: str, holder: KeyOwner | None = None) -> None:
        """Return unless the key holds the current metadata of a table or view. Raises AccessDenied.

        Wherever that is: a table that was registered may have it outside its directories. Raises WriteConflict if the
        key came to belong to another holder: the right to write into that table was not checked when the upload began.
        """
        if holder is not None:
            found = await locate_entry(tx, bucket, key)
            now = "" if found is None else found.entry.id
            if found is None:
                reserved = await reservation_at(tx, bucket, key, self._clock.now_ms())
                now = "" if reserved is None else reserved.holder
            if now not in ("", holder):
                raise WriteConflict(f"a table was made around the key while it was written: write it again. key={key}")
        if await tx.row(rows.IS_CURRENT_METADATA, *(f"{scheme}{bucket.name}/{key}" for scheme in SCHEMES)) is not None:
            raise AccessDenied(f"the file is the current metadata of a table or view; commits replace it. key={key}")

    async def check_bucket_removal(self, tx: Transaction, bucket: Bucket) -> None:
        """Return unless a table or view is of this bucket, or has its metadata there. Raises BucketHasTables.

        A table that was registered may have its metadata elsewhere, and dropped ones can be restored: that a bucket has
        no objects does not mean that nothing would be lost with it.
        """
        if await tx.row(rows.BUCKET_HAS_ENTRIES, bucket.id) is not None:
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
        for row in await tx.rows(rows.CATALOGS_OF_BUCKET, bucket.id):
            catalog = rows.catalog_from(row)
            if not catalog.is_table_bucket:
                # The bucket's own goes with it, as it came with it. Others were made by name, and are deleted by name.
                raise BucketHasTables(
                    f"a catalog has its files here: delete it first. bucket={bucket.name} catalog={catalog.name}"
                )
            await invalidate_catalog_grants(tx, catalog.id)
