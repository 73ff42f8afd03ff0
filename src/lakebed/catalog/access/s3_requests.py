"""Authorizes S3 requests to table buckets: the table permissions they require besides those on the bucket.

Invariant: only commits replace a table's current metadata file. All other files of a table's directories are written
and deleted by engines, in any order: expired snapshots, unreferenced files. A bucket cannot be deleted while it holds a
table or the metadata of one.

Restricted principals have no access to a table's files with any credentials, and only to copies made for what they
currently see.
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
"""Actions that require write permission but change no object."""


class TableFileAuthorizer:
    """Implements `objects.context.TableBucketAuthorizer`."""

    __slots__ = ("_authorizer", "_clock", "_meta", "_restrictions")

    def __init__(self, meta: MetaStore, authorizer: CatalogAuthorizer, clock: Clock) -> None:
        self._meta = meta
        self._clock = clock
        self._authorizer = authorizer
        self._restrictions = Restrictions(meta)

    async def authorize(self, caller: Caller, bucket: Bucket, action: str, key: str) -> KeyOwner:
        """The owner of the key, if the caller has the permission for the action; empty if the key belongs to no table.

        One statement; one more for keys of no table and for reserved directories, and further ones for callers other
        than root where policies restrict tables. Raises AccessDenied.
        """
        reads = action.startswith("s3:Get")
        if RESERVED_FOLDER in key:
            reserved = await self._reserved(bucket, key)
            if not reads and action not in _UPLOADS and reserved is not None:
                raise AccessDenied(f"directory is reserved for the catalog and read-only. key={key}")
            if reserved is not None and key.startswith(f"{reserved}{QUARANTINE_FOLDER}"):
                # They belonged to a table, and the permission to read them depended on its directory.
                raise AccessDenied(f"file is in quarantine; release it to read it. key={key}")
        found = await locate_entry(self._meta, bucket, key)
        if found is None:
            return await self._authorize_outside_tables(caller, bucket, action, key)
        await self._authorize_on_table(caller, found, action, key, reads=reads)
        return found.entry.id

    async def _authorize_outside_tables(self, caller: Caller, bucket: Bucket, action: str, key: str) -> KeyOwner:
        """The owner of a key of no table: none, or the principal that staged a table there or just dropped one.

        Vended credentials are honoured only where the key is still the table's, or reserved for their principal.
        """
        reserved = await reservation_at(self._meta, bucket, key, self._clock.now_ms())
        delegated_for = "" if caller.principal.session is None else caller.principal.session.delegated_for
        is_theirs = reserved is not None and claimant_of(caller.principal) == reserved.principal
        if delegated_for and not (is_theirs or (reserved is not None and reserved.entry == delegated_for)):
            raise AccessDenied(f"credentials are for a table that the key does not belong to. key={key}")
        if reserved is None:
            return ""
        if not is_theirs and not delegated_for and action == "s3:PutObject":
            # The principal that staged or dropped the table may hold credentials for every object written here.
            await self._authorizer.check(
                caller, reserved.catalog, Action.PUT_TABLE_DATA, namespace=reserved.namespace, name=reserved.name
            )
        return reserved.holder

    async def _authorize_on_table(
        self, caller: Caller, found: LocatedEntry, action: str, key: str, *, reads: bool
    ) -> None:
        principal = caller.principal
        if principal.is_anonymous:
            raise AccessDenied(f"anonymous requests have no access to files of a table. key={key}")
        is_delegated = principal.session is not None and principal.session.delegated_for == found.entry.id
        if is_copies_namespace(found.namespace) and not await self._authorizer.can_run_tasks(caller):
            if not reads or not is_delegated:
                raise AccessDenied(f"file belongs to a restricted copy. key={key}")
            await self._confirm_copy(caller, found, key)
            return
        # Before vended credentials are considered: they may be older than the policy.
        await self._restrictions.check_unrestricted(
            principal,
            found.catalog,
            found.namespace,
            found.entry,
            f"restricted principals have no access to its files. key={key}",
        )
        if is_delegated:
            if found.entry.dropped_ms is not None and not reads:
                # Engines delete files after a drop. Those of a table that can be restored must outlive that.
                raise AccessDenied(f"table was dropped and can be restored: its files cannot be changed. key={key}")
            # The catalog checked this permission when it vended the credentials; their session policy was checked
            # just now.
            return
        await self._authorizer.check(
            caller,
            found.catalog,
            Action.GET_TABLE_DATA if reads else Action.PUT_TABLE_DATA,
            namespace=found.namespace,
            entry=found.entry,
        )

    async def _reserved(self, bucket: Bucket, key: str) -> str | None:
        """The reserved directory that contains a key, if any.

        The reserved directory of the bucket itself is reserved whether or not it has catalogs.
        """
        if key.startswith(RESERVED_FOLDER):
            return RESERVED_FOLDER
        catalog = await catalog_at(self._meta, bucket, key)
        if catalog is None or not key.startswith(catalog.reserved_prefix):
            return None
        return catalog.reserved_prefix

    async def _confirm_copy(self, caller: Caller, found: LocatedEntry, key: str) -> None:
        """Check that a copy matches what its reader currently sees of the table. Raises AccessDenied."""
        copy = await find_copy(self._meta, found.entry.id)
        source = None if copy is None else await self._meta.row(rows.ENTRY_BY_ID, copy.source)
        if copy is not None and source is not None:
            known = live_entry_from(source)
            restriction = await self._restrictions.of(
                caller.principal, known.catalog, known.namespace.levels, known.entry
            )
            if restriction is not None and restriction.key == copy.restriction:
                return
        raise AccessDenied(
            f"restricted copy no longer matches the caller's restrictions; plan the scan again. key={key}"
        )

    async def check_write(self, tx: Transaction, bucket: Bucket, key: str, key_owner: KeyOwner | None = None) -> None:
        """Check that the key is not the current metadata of a table or view. Raises AccessDenied.

        The file of a registered table may be outside the table's directories. Raises WriteConflict if the key's owner
        changed since the upload began: the permission to write into the new owner's table was not checked.
        """
        if key_owner is not None:
            found = await locate_entry(tx, bucket, key)
            now = "" if found is None else found.entry.id
            if found is None:
                reserved = await reservation_at(tx, bucket, key, self._clock.now_ms())
                now = "" if reserved is None else reserved.holder
            if now not in ("", key_owner):
                raise WriteConflict(f"a table was created at the key during the upload; upload it again. key={key}")
        if await tx.row(rows.IS_CURRENT_METADATA, *(f"{scheme}{bucket.name}/{key}" for scheme in SCHEMES)) is not None:
            raise AccessDenied(f"file is the current metadata of a table or view; only commits replace it. key={key}")

    async def check_bucket_removal(self, tx: Transaction, bucket: Bucket) -> None:
        """Check that no table or view is in this bucket, or has its metadata there. Raises BucketHasTables.

        A registered table may have its metadata in another bucket, and dropped tables can be restored: an empty bucket
        can still hold tables.
        """
        if await tx.row(rows.BUCKET_HAS_ENTRIES, bucket.id) is not None:
            raise BucketHasTables(
                "bucket has tables or views, or dropped ones that can be restored; drop or purge them first."
                f" bucket={bucket.name}"
            )
        for scheme in SCHEMES:
            within = f"{scheme}{bucket.name}/"
            if await tx.row(rows.HAS_METADATA_WITHIN, within, successor(within)) is not None:
                raise BucketHasTables(
                    f"bucket has the metadata of a table or view of another bucket; drop it first. bucket={bucket.name}"
                )
        for row in await tx.rows(rows.CATALOGS_OF_BUCKET, bucket.id):
            catalog = rows.catalog_from(row)
            if not catalog.is_table_bucket:
                # The catalog of a table bucket is deleted with the bucket. Other catalogs are deleted by name.
                raise BucketHasTables(
                    f"bucket has the files of a catalog; delete it first. bucket={bucket.name} catalog={catalog.name}"
                )
            await invalidate_catalog_grants(tx, catalog.id)
