"""Claims of directories by tables, views and generic tables: the one rule that every claim passes.

Invariant: a claim gives a principal, through the catalog, no permission on an object that existed before the claim.
Either the directory is empty (no object, no version, no unfinished upload), or the claimant has every S3 permission
that the catalog would vend for it. Directories that the entry already has are not checked again. In external storage,
which has no S3 permissions of this server, the claimant must have permission on the data of all tables of the catalog,
and emptiness is checked before the transaction, because that lists the store.

A metadata file defines a table's directories only as long as no client can change it. `TableFileAuthorizer` ensures
that in buckets that hold tables. A table may be registered with a file in any other bucket: `trusts` decides about
those.

Besides the directories of tables and views, two kinds of directories are not free:

- reserved: kept for a principal that staged a table there. No other principal can claim it or write into it. So if
  it was empty when it was reserved, it contains at the commit only what that principal wrote.
- retained: a table was dropped there without a purge, and its files remain. It is free again when they are deleted, or
  for a claimant with all S3 permissions on them. The principal that dropped the table can get credentials for a limited
  time, to delete the files; for that time no other principal can write into it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Final, NamedTuple, Protocol

from lakebed.core.access import Principal, root_of
from lakebed.core.errors import AccessDenied, InvalidInput, NotSupported
from lakebed.governance.credentials.sessions import MAX_DELEGATION_SECONDS
from lakebed.governance.delegation.vending import directory_actions
from lakebed.governance.rbac import Privilege
from lakebed.meta.seam import Reader, Row, Transaction
from lakebed.objects.buckets.bucket import Bucket
from lakebed.objects.context import ObjectContext
from lakebed.objects.listing import successor
from lakebed.objects.model import Caller

from .. import rows as catalog_rows
from ..access.authorization import Action, CatalogAuthorizer
from ..access.directory_permissions import check_directory_rights
from ..catalogs.service import takes_client_locations
from ..identifiers import Identifier, Levels, levels_of, path_of
from ..model import Catalog, EntryKind, Namespace
from ..rows import CATALOG_SELECTED, catalog_in
from ..tables.files import FileAddress, parse_location
from .directories import (
    check_unclaimed,
    default_location,
    location_taken,
    namespace_location,
    outermost,
    table_directories,
)

RESERVED_MS: Final = 24 * 3_600_000
"""How long a directory stays reserved after credentials for a staged table were last issued."""


RELEASED_MS: Final = MAX_DELEGATION_SECONDS * 1000
"""How long after a drop credentials for the table's files are honoured: the lifetime of those issued before."""


class _DirectoryStatements(NamedTuple):
    """The statements about one kind of directories. The first column is the directory."""

    at_or_before: str
    within: str
    delete: str


def _statements(table: str, columns: str) -> _DirectoryStatements:
    chosen = f"SELECT {columns} FROM {table}"  # noqa: S608  # constants only
    return _DirectoryStatements(
        f"{chosen} WHERE bucket = ? AND prefix <= ? ORDER BY prefix DESC LIMIT 1",
        f"{chosen} WHERE bucket = ? AND prefix >= ? AND prefix < ? ORDER BY prefix",
        f"DELETE FROM {table} WHERE bucket = ? AND prefix = ?",  # noqa: S608
    )


_PROMISED: Final = _statements("promised_locations", "prefix, principal, was_empty, expires_ms")
_RETAINED: Final = _statements("retained_locations", "prefix, dropped_ms")

_INSERT_RESERVATION: Final = (
    "INSERT INTO promised_locations (bucket, prefix, principal, warehouse, namespace, name, was_empty, expires_ms)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_RESERVATIONS_OF_KEY: Final = (
    f"SELECT l.prefix, l.principal, l.entry, l.at_ms, l.namespace, l.name, {CATALOG_SELECTED} FROM ("  # noqa: S608
    "SELECT * FROM (SELECT prefix, principal, '' AS entry, expires_ms AS at_ms, namespace, name, warehouse"
    " FROM promised_locations WHERE bucket = ? AND prefix <= ? ORDER BY prefix DESC LIMIT 1) p"
    " UNION ALL "
    "SELECT * FROM (SELECT prefix, principal, entry, dropped_ms AS at_ms, namespace, name, warehouse"
    " FROM retained_locations WHERE bucket = ? AND prefix <= ? ORDER BY prefix DESC LIMIT 1) r"
    ") l JOIN warehouses w ON w.id = l.warehouse"
)
"""The last reserved and the last retained directory at or before a key."""
_DELETE_EXPIRED: Final = "DELETE FROM promised_locations WHERE expires_ms <= ?"

_INSERT_RETAINED: Final = (
    "INSERT INTO retained_locations (bucket, prefix, entry, principal, warehouse, namespace, name, dropped_ms)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_RETAINED_OF: Final = (
    "SELECT prefix, principal, warehouse, namespace, name, dropped_ms FROM retained_locations WHERE entry = ?"
)

_OCCUPIED: Final = (
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM objects WHERE bucket = ? AND key >= ? AND key < ?)"
    " OR EXISTS (SELECT 1 FROM versions WHERE bucket = ? AND key >= ? AND key < ?)"
    " OR EXISTS (SELECT 1 FROM uploads WHERE bucket = ? AND key >= ? AND key < ? AND finished_ms IS NULL)"
)


class ChosenBy(Enum):
    """Which party chose the directories of a claim."""

    CLIENT = "client"
    OTHER_CATALOG = "other catalog"
    """Followed by a bridge. The caller's permissions count."""
    CATALOG = "catalog"
    """This catalog, or the administrator that configured its locations. The bucket owner's permissions count."""


class EntryLocations(NamedTuple):
    """The directories of an entry."""

    catalog: Catalog
    namespace: Namespace | None
    kind: EntryKind
    entry_id: str
    location: str
    properties: Mapping[str, str] = {}

    @property
    def addresses(self) -> list[FileAddress]:
        """The directories; none is inside another. Raises InvalidInput for one that is not allowed."""
        return table_directories(self.catalog, self.location, self.properties)


def check_locations(locations: EntryLocations) -> None:
    """Raise InvalidInput for a directory that the catalog does not allow, whatever the claimant's permissions."""
    table_directories(locations.catalog, locations.location, locations.properties)


class LocationClaim(NamedTuple):
    """A claim, with the checks that precede its transaction."""

    locations: EntryLocations
    claimant: str
    permitted: frozenset[str]
    """Directories with objects on which the claimant has every permission."""
    empty: frozenset[str] = frozenset()
    """Directories of external storage that were empty."""


EmptyCheck = Callable[[str, Collection[str]], Awaitable[bool]]
"""Whether a directory is empty, apart from some directories inside it."""


class ExternalDirectories(Protocol):
    """Looks into directories of external storage."""

    async def is_empty(self, catalog: Catalog, directory: str, but: Collection[str]) -> bool:
        """Whether a directory of the catalog's store has no object, apart from those under `but`."""
        ...


class Reservation(NamedTuple):
    """A directory of no table for whose files a principal may have credentials."""

    catalog: Catalog
    principal: str
    """The principal that staged a table there, or dropped one."""
    entry: str
    """The id of the dropped table; empty for a staged one."""
    namespace: Levels
    name: str

    @property
    def holder(self) -> str:
        """The owner of a key in it."""
        return f"{self.entry or 'staged'} {self.principal}"


def claimant_of(principal: Principal) -> str:
    """The identity that a reservation is made for: the same in all of its sessions."""
    return principal.user_id or principal.arn


class LocationClaims:
    """Claims directories for tables, views and generic tables."""

    def __init__(
        self,
        object_context: ObjectContext,
        external: ExternalDirectories | None = None,
        *,
        client_locations: bool = True,
    ) -> None:
        """Without `external`, no catalog has external storage."""
        self._f = object_context
        self._external = external
        self._client_locations = client_locations
        self._authorizer = CatalogAuthorizer(object_context)

    async def prepare(
        self, caller: Caller, locations: EntryLocations, chosen_by: ChosenBy = ChosenBy.CLIENT
    ) -> LocationClaim:
        """Check a claim. Call it before any response that depends on files in the directories.

        Raises InvalidInput, LocationTaken; AccessDenied for a directory that contains objects, if the caller lacks an
        S3 permission on them.
        """
        meta, bucket = self._f.meta, locations.catalog.bucket
        if chosen_by is ChosenBy.CLIENT:
            self._check_chosen(locations, await _held(meta, locations))
        elif chosen_by is ChosenBy.CATALOG:
            caller = Caller(root_of(bucket.owner))
        claimant = claimant_of(caller.principal)
        is_empty, empty = self._empty_check(locations.catalog)
        contested = await _contested(meta, locations, claimant, self._f.clock.now_ms(), is_empty)
        for directory in contested:
            try:
                await self._check_permission(caller, locations.catalog, directory)
            except AccessDenied as error:
                lacking = (
                    "an S3 permission on them"
                    if locations.catalog.storage_revision is None
                    else "permission on the data of all tables of the catalog"
                )
                raise AccessDenied(
                    f"location contains objects, and the caller lacks {lacking}: choose an empty location,"
                    f" or have the permission granted. location=s3://{bucket.location_name}/{directory} reason={error}"
                ) from error
        return LocationClaim(locations, claimant, frozenset(contested), frozenset(empty))

    def _empty_check(self, catalog: Catalog) -> tuple[EmptyCheck, set[str]]:
        """The check before the transaction, and the directories of external storage that it finds empty."""
        empty: set[str] = set()
        if catalog.storage_revision is None:
            return partial(_is_empty, self._f.meta, catalog.bucket.id), empty
        if self._external is None:
            raise NotSupported(f"this server does not support external storage. catalog={catalog.name}")
        external = self._external

        async def is_empty(directory: str, but: Collection[str]) -> bool:
            found = await external.is_empty(catalog, directory, but)
            if found:
                empty.add(directory)
            return found

        return is_empty, empty

    async def _check_permission(self, caller: Caller, catalog: Catalog, directory: str) -> None:
        """Check every permission on the objects of a directory that the catalog would give. Raises AccessDenied."""
        writes = not catalog.is_external
        if catalog.storage_revision is None:
            actions = directory_actions(writes=writes)
            await check_directory_rights(self._f, caller, catalog.bucket, directory, actions)
        else:
            await self._authorizer.check(
                caller,
                catalog,
                Action.PUT_TABLE_DATA if writes else Action.GET_TABLE_DATA,
                privileges=(Privilege.CATALOG_MANAGE_CONTENT,),
            )

    async def take(self, tx: Transaction, claim: LocationClaim) -> None:
        """Assign the directories to the entry, in addition to those that it has. Raises LocationTaken, AccessDenied.

        A table that moves leaves its files behind and still reads them, so it keeps its directories.
        """
        await self._check_again(tx, claim)
        locations = claim.locations
        bucket_id = locations.catalog.bucket.id
        held = await _held(tx, locations)
        for address in locations.addresses:
            held.add(address.directory)
            await _take_overlapping(tx, _RETAINED, bucket_id, address.directory)
            await _take_overlapping(tx, _PROMISED, bucket_id, address.directory)
        await tx.run(catalog_rows.DELETE_LOCATIONS, locations.entry_id)
        for directory in outermost(held):
            await tx.run(catalog_rows.INSERT_LOCATION, bucket_id, directory, locations.entry_id)

    async def trusts(self, locations: EntryLocations, metadata_at: str) -> bool:
        """Whether the directories in a current metadata file are those that were claimed for the entry.

        `locations` are those in the file now. Elsewhere than in a bucket of tables, clients may have overwritten
        the file.
        """
        catalog = locations.catalog
        if catalog.storage_revision is None and parse_location(metadata_at).bucket == catalog.bucket_name:
            return True
        held = tuple(await _held(self._f.meta, locations))
        return bool(held) and all(address.directory.startswith(held) for address in locations.addresses)

    async def check_trusted(self, locations: EntryLocations, metadata_at: str) -> None:
        """Raise AccessDenied unless the claims trust the current metadata file."""
        if not await self.trusts(locations, metadata_at):
            raise AccessDenied(
                f"metadata file was changed after it was registered: it names directories that the table does not have."
                f" Restore it, or drop the table and register it again. metadata-location={metadata_at}"
            )

    async def reserve(self, caller: Caller, identifier: Identifier, locations: EntryLocations) -> None:
        """Reserve the directories of a staged table for the caller, until its commit or the expiry of the reservation.

        Raises what `prepare` and `take` raise.
        """
        now_ms = self._f.clock.now_ms()
        if await self._is_reserved(caller, locations, now_ms + RESERVED_MS // 2):
            return
        claim = await self.prepare(caller, locations)
        bucket_id = locations.catalog.bucket.id

        async def work(tx: Transaction) -> None:
            await self._check_again(tx, claim)
            reserved: set[str] = set()
            for address in locations.addresses:
                reserved.add(address.directory)
                for prefix, _, was_empty, expires_ms in await _take_overlapping(
                    tx, _PROMISED, bucket_id, address.directory
                ):
                    # A reservation of the same principal: its files stay reserved.
                    if was_empty and expires_ms > now_ms:
                        reserved.add(prefix)
            for directory in outermost(reserved):
                await tx.run(
                    _INSERT_RESERVATION,
                    bucket_id,
                    directory,
                    claim.claimant,
                    locations.catalog.id,
                    path_of(identifier.namespace),
                    identifier.name,
                    int(directory not in claim.permitted),
                    now_ms + RESERVED_MS,
                )

        await self._f.meta.transact(work)

    async def was_dropped_by(self, caller: Caller, identifier: Identifier, locations: EntryLocations) -> bool:
        """Whether the caller has just dropped this very table, with this name and these directories.

        Engines that purge tables themselves then delete its files.
        """
        since_ms = self._f.clock.now_ms() - RELEASED_MS
        found = await self._f.meta.rows(_RETAINED_OF, locations.entry_id)
        dropped_as = (
            claimant_of(caller.principal),
            locations.catalog.id,
            path_of(identifier.namespace),
            identifier.name,
        )
        prefixes = [str(row[0]) for row in found if tuple(row[1:5]) == dropped_as and row[5] > since_ms]
        return bool(prefixes) and all(address.directory.startswith(tuple(prefixes)) for address in locations.addresses)

    async def delete_expired(self) -> int:
        """Delete expired reservations. Returns their number."""
        now_ms = self._f.clock.now_ms()

        async def work(tx: Transaction) -> int:
            return await tx.run(_DELETE_EXPIRED, now_ms)

        return await self._f.meta.transact(work)

    async def _is_reserved(self, caller: Caller, locations: EntryLocations, until_ms: int) -> bool:
        claimant, bucket_id = claimant_of(caller.principal), locations.catalog.bucket.id
        for address in locations.addresses:
            row = await self._f.meta.row(_PROMISED.at_or_before, bucket_id, address.directory)
            if row is None or row[0] != address.directory or row[1] != claimant or not row[2] or row[3] < until_ms:
                return False
        return True

    async def _check_again(self, tx: Transaction, claim: LocationClaim) -> None:
        catalog = claim.locations.catalog
        is_empty: EmptyCheck = partial(_is_empty, tx, catalog.bucket.id)
        if catalog.storage_revision is not None:

            async def was_empty(directory: str, but: Collection[str]) -> bool:
                return directory in claim.empty

            is_empty = was_empty
        for directory in await _contested(tx, claim.locations, claim.claimant, self._f.clock.now_ms(), is_empty):
            if directory not in claim.permitted:
                raise AccessDenied(
                    f"objects were written to the location while it was claimed: choose an empty location, or retry"
                    f" with S3 permissions on them. location=s3://{catalog.bucket_name}/{directory}"
                )

    def _check_chosen(self, locations: EntryLocations, held: Collection[str]) -> None:
        """Raise InvalidInput if a client chose a location where only the server chooses them."""
        if self._client_locations and takes_client_locations(locations.catalog):
            return
        given = [default_location(locations.catalog, locations.kind, locations.entry_id)]
        if locations.namespace is not None:
            # Assigned by the server as well: engines that choose locations themselves take it from the namespace.
            given.append(namespace_location(locations.catalog, locations.namespace))
        allowed = (*held, *(f"{location.partition('://')[2].partition('/')[2]}/" for location in given))
        for address in locations.addresses:
            if not address.directory.startswith(allowed):
                raise InvalidInput(
                    f"clients cannot choose locations of tables in this catalog: omit location and write.*.path."
                    f" location={address}",
                    argument="location",
                )


async def reservation_at(reader: Reader, bucket: Bucket, key: str, now_ms: int) -> Reservation | None:
    """The reservation that covers a key of no table, if there is one. One statement."""
    for row in await reader.rows(_RESERVATIONS_OF_KEY, bucket.id, key, bucket.id, key):
        prefix, principal, entry, at_ms, path, name = row[:6]
        if key.startswith(prefix) and now_ms < (at_ms + RELEASED_MS if entry else at_ms):
            return Reservation(catalog_in(bucket, row, 6), principal, entry, levels_of(path), name)
    return None


async def retain(
    tx: Transaction, principal: Principal, catalog: Catalog, identifier: Identifier, entry_id: str, now_ms: int
) -> None:
    """Retain the directories of an entry that is dropped without a purge."""
    for (prefix,) in await tx.rows(catalog_rows.LOCATIONS_OF, entry_id):
        await tx.run(
            _INSERT_RETAINED,
            catalog.bucket.id,
            prefix,
            entry_id,
            claimant_of(principal),
            catalog.id,
            path_of(identifier.namespace),
            identifier.name,
            now_ms,
        )
    await tx.run(catalog_rows.DELETE_LOCATIONS, entry_id)


async def _held(reader: Reader, locations: EntryLocations) -> set[str]:
    """The directories that the entry has."""
    return {str(row[0]) for row in await reader.rows(catalog_rows.LOCATIONS_OF, locations.entry_id)}


async def _contested(
    reader: Reader, locations: EntryLocations, claimant: str, now_ms: int, is_empty: EmptyCheck
) -> list[str]:
    """The directories that contain files, for which the claim requires permissions. Raises LocationTaken."""
    catalog = locations.catalog
    bucket_id = catalog.bucket.id
    held = await _held(reader, locations)
    contested: dict[str, None] = {}
    for address in locations.addresses:
        directory = address.directory
        if directory.startswith(tuple(held)):
            continue
        await check_unclaimed(reader, catalog, address, locations.entry_id)
        own = set(held)
        for prefix, principal, was_empty, expires_ms in await _overlapping(reader, _PROMISED, bucket_id, directory):
            if expires_ms > now_ms:
                if principal != claimant:
                    raise location_taken(address)
                if was_empty:
                    own.add(prefix)
        for prefix, _ in await _overlapping(reader, _RETAINED, bucket_id, directory):
            if not await is_empty(prefix, ()):
                contested[prefix] = None
        if not directory.startswith(tuple(own)) and not await is_empty(directory, own):
            contested[directory] = None
    return list(contested)


async def _overlapping(reader: Reader, kept: _DirectoryStatements, bucket_id: int, directory: str) -> list[Row]:
    """Rows whose directory contains this one, equals it, or is inside it. They do not overlap each other."""
    found = list(await reader.rows(kept.within, bucket_id, directory, successor(directory)))
    around = await reader.row(kept.at_or_before, bucket_id, directory)
    if around is not None and around[0] != directory and directory.startswith(around[0]):
        found.append(around)
    return found


async def _take_overlapping(tx: Transaction, kept: _DirectoryStatements, bucket_id: int, directory: str) -> list[Row]:
    """Delete and return the rows of directories that overlap this one."""
    found = await _overlapping(tx, kept, bucket_id, directory)
    for row in found:
        await tx.run(kept.delete, bucket_id, row[0])
    return found


async def _is_empty(reader: Reader, bucket_id: int, directory: str, but: Iterable[str]) -> bool:
    """Whether a directory contains no object, version or unfinished upload, apart from those under `but`."""
    for start, end in _gaps(directory, sorted(one for one in but if one.startswith(directory))):
        within = (bucket_id, start, end)
        if await reader.row(_OCCUPIED, *within, *within, *within) is not None:
            return False
    return True


def _gaps(directory: str, inside: Sequence[str]) -> list[tuple[str, str | None]]:
    """The key ranges of a directory outside the sorted directories inside it."""
    gaps = []
    start = directory
    for one in inside:
        gaps.append((start, one))
        start = successor(one) or one
    return [*gaps, (start, successor(directory))]
