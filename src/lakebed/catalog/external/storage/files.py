"""Files of tables in an external object store: the server reads and writes metadata, manifests and statistics there.

A metadata file is written under a unique name before the transaction that moves the pointer. A crash in between leaves
a file that no pointer names, which orphan file removal collects. Files are immutable: what was read once is known.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from lakebed.core.errors import (
    AccessDenied,
    AlreadyExists,
    InvalidInput,
    InvalidSetting,
    LakebedError,
    MissingExtra,
    NoSuchBucket,
    NotFound,
    NotSupported,
    StorageFull,
    Throttled,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from lakebed.iceberg.metadata.serialization import TableText
from lakebed.meta.seam import Transaction
from lakebed.objects.blobs.composition import BaseContent
from lakebed.objects.model import Caller
from lakebed.objects.publishing import NewGarbage
from lakebed.storage.backoff import Retrier, RetryPolicy
from lakebed.storage.retry import RetryingStorage
from lakebed.storage.seam import Key, ObjectHead, ObjectStorage

from ...commits.shared_history import BaseFile, DocumentSource
from ...model import Catalog
from ...tables.files import (
    MAX_METADATA_BYTES,
    DirectoryFile,
    FileAddress,
    FileStat,
    PreparedFile,
    TableFiles,
    check_metadata_size,
    no_metadata_file,
    parse_location,
    unpack_metadata,
)
from .profiles import StorageProfiles
from .stores import ExternalStores

_HEADS_AT_ONCE: Final = 48
_KNOWN_FILES: Final = 100_000
"""Files whose size and ETag are cached: about 30 MB."""
RETRIES: Final = RetryPolicy(max_attempts=4, base_seconds=0.05, max_pause_seconds=1.0, timeout_seconds=20.0)


class KnownFiles:
    """The size and ETag of files that were seen, by catalog and location. Missing files are not remembered."""

    def __init__(self, limit: int = _KNOWN_FILES) -> None:
        self._limit = limit
        self._known: OrderedDict[tuple[int, str], FileStat] = OrderedDict()

    def get(self, catalog: int, location: str) -> FileStat | None:
        """The state of a file, if it was seen."""
        return self._known.get((catalog, location))

    def put(self, catalog: int, location: str, found: FileStat) -> None:
        """Remember a file."""
        self._known[(catalog, location)] = found
        if len(self._known) > self._limit:
            self._known.popitem(last=False)

    def forget(self, catalog: int, locations: Sequence[str]) -> None:
        """Forget files that were deleted."""
        for location in locations:
            self._known.pop((catalog, location), None)


@dataclass(frozen=True, slots=True)
class _WrittenFile:
    """A metadata file that this server wrote under a unique name. Implements `PreparedFile`."""

    files: ExternalFiles
    key: Key

    base_content: BaseContent | None = None
    shares_history: bool = False

    async def place(self, tx: Transaction, caller: Caller, now_ms: int, displaced: NewGarbage) -> None:
        """Do nothing: the file is written already, and the pointer makes it current."""

    async def discard(self) -> None:
        """Delete it. It has a unique name and was created by this request."""
        async with self.files.store("delete a metadata file") as store:
            await store.delete(self.key)


class ExternalFiles:
    """The files of one catalog in its external object store. Implements `TableFiles`."""

    def __init__(
        self, profiles: StorageProfiles, stores: ExternalStores, known: KnownFiles, retrier: Retrier, catalog: Catalog
    ) -> None:
        self._profiles = profiles
        self._stores = stores
        self._known = known
        self._retrier = retrier
        self._catalog = catalog

    async def read(self, location: str, limit: int = MAX_METADATA_BYTES) -> bytes:
        """The whole file. Raises NotFound, TooLarge, Unavailable."""
        return (await self.fetch(location, limit))[0]

    async def fetch(self, location: str, limit: int = MAX_METADATA_BYTES) -> tuple[bytes, FileStat]:
        """The same, and the state of the file. One GET, after one HEAD for a file that is not known."""
        key = self._key(location)
        async with self.store("read a file") as store:
            facts = await self._stat_one(store, location, key)
            if facts is None:
                raise NotFound(f"no such file. location={location}")
            if facts.size > limit:
                raise TooLarge(f"file is too large. size={facts.size} maximum={limit}")
            data = await store.get_range(key, 0, facts.size) if facts.size else b""
        if len(data) != facts.size:
            # It was replaced by a shorter one: as unreadable as a missing file.
            raise NotFound(f"file was overwritten while it was read. location={location}")
        return data, facts

    async def load(self, location: str) -> tuple[bytes, DocumentSource | None]:
        """The JSON of a metadata file. History is not shared with the next one: the store has whole objects."""
        return unpack_metadata(await self.read(location)), None

    async def read_metadata_for(self, caller: Caller, location: str) -> bytes:
        """The JSON of a metadata file that a caller names: in the catalog's allowed locations, for every caller.

        Its directories are claimed with the permission that `LocationClaims` requires. Raises InvalidInput.
        """
        address = parse_location(location)
        if not self._catalog.holds(address.bucket, address.key):
            raise InvalidInput(
                f"metadata file is outside the catalog's allowed locations. metadata-location={location}"
                f" catalog={self._catalog.name}",
                argument="metadata-location",
            )
        try:
            return unpack_metadata(await self.read(location))
        except NotFound as error:
            raise no_metadata_file(location) from error

    async def stat(self, locations: Sequence[str]) -> dict[str, FileStat | None]:
        """The state of each file; None for a missing one. A HEAD for each that is not known, some at a time."""
        found: dict[str, FileStat | None] = {}
        unknown: dict[str, Key] = {}
        for location in dict.fromkeys(locations):
            facts = self._known.get(self._catalog.id, location)
            if facts is None:
                unknown[location] = self._key(location)
            else:
                found[location] = facts
        if not unknown:
            return found
        turns = asyncio.Semaphore(_HEADS_AT_ONCE)

        async with self.store("look up files") as store:

            async def look(location: str, key: Key) -> None:
                async with turns:
                    found[location] = await self._stat_one(store, location, key)

            async with asyncio.TaskGroup() as group:
                for location, key in unknown.items():
                    group.create_task(look(location, key))
        return found

    async def list(self, directory: FileAddress, after: str = "") -> AsyncIterator[DirectoryFile]:
        """The files in a directory and below, by key. One LIST per 1,000 files. Raises Unavailable."""
        self._key(f"{directory}/")
        async with self.store("list a directory") as store:
            async for head in store.list_prefix(directory.directory if directory.key else "", after):
                yield DirectoryFile(head.key, head.size, head.etag, head.modified_ms)

    async def remove(self, locations: Sequence[str]) -> None:
        """Delete files. Absent ones are ignored. Raises Unavailable."""
        keys = [self._key(location) for location in locations]
        if keys:
            async with self.store("delete files") as store:
                await store.delete_many(keys)
            self._known.forget(self._catalog.id, locations)

    async def is_empty(self, directory: str, but: Collection[str]) -> bool:
        """Whether the store has no object in a directory, apart from those under `but`."""
        skipped = tuple(but)
        async with self.store("list a directory") as store:
            async for head in store.list_prefix(directory):
                if not head.key.startswith(skipped):
                    return False
        return True

    async def confirm(self, tx: Transaction, observed: Mapping[str, FileStat]) -> None:
        """Nothing is known to have changed: requests to the store are not possible within a transaction."""

    async def prepare(self, address: FileAddress, body: bytes) -> PreparedFile:
        """Write a metadata file. Raises TooLarge, Unavailable."""
        check_metadata_size(len(body))
        key = self._key(str(address))
        async with self.store("write a metadata file") as store:
            try:
                await store.put_if_absent(key, body)
            except NotSupported:
                # A store without conditional writes: the name is unique.
                await store.put(key, body)
            except AlreadyExists as error:
                raise Unavailable(f"metadata file exists already. location={address}") from error
        return _WrittenFile(self, key)

    async def prepare_table(self, address: FileAddress, text: TableText, base_file: BaseFile | None) -> PreparedFile:
        """Write a table's metadata file, whole. Raises TooLarge, Unavailable."""
        return await self.prepare(address, b"".join(text.pieces))

    @asynccontextmanager
    async def store(self, step: str) -> AsyncIterator[ObjectStorage]:
        """The catalog's bucket, for one step. Failures of the store name the catalog, the step and the remedy."""
        try:
            storage = await self._profiles.of(self._catalog)
            async with self._stores.use(storage, self._catalog.bucket_name) as store:
                yield RetryingStorage(store, self._retrier)
        except ExceptionGroup as group:
            raise store_failure(_first(group), self._catalog, step) from group
        except LakebedError as error:
            raise store_failure(error, self._catalog, step) from error

    def _key(self, location: str) -> Key:
        address = parse_location(location)
        if address.bucket != self._catalog.bucket_name:
            raise NotFound(f"file is outside the catalog's bucket. location={location}")
        return Key(address.key)

    async def _stat_one(self, store: ObjectStorage, location: str, key: Key) -> FileStat | None:
        known = self._known.get(self._catalog.id, location)
        if known is not None:
            return known
        try:
            head: ObjectHead = await store.head(key)
        except NoSuchBucket:
            raise
        except NotFound:
            return None
        facts = FileStat(head.size, head.etag, head.modified_ms)
        self._known.put(self._catalog.id, location, facts)
        return facts


def store_failure(error: LakebedError, catalog: Catalog, step: str) -> LakebedError:
    """The error for a failed request to an external store, or the error itself if it is not the store's fault."""
    place = f"catalog={catalog.name} bucket={catalog.bucket_name} step={step!r}"
    if isinstance(error, MissingExtra | StorageFull):
        return error
    if isinstance(error, Unauthenticated):
        return Unavailable(
            f"the catalog's object store rejects the credentials of its storage profile: they were revoked or have"
            f" expired. {place} reason={error}"
        )
    if isinstance(error, AccessDenied):
        return Unavailable(
            f"the credentials of the catalog's storage profile lack a permission on its object store;"
            f" to find which: lakebed check storage --catalog {catalog.name}. {place} reason={error}"
        )
    if isinstance(error, NoSuchBucket):
        return Unavailable(f"the bucket of the catalog does not exist in its object store. {place} reason={error}")
    if isinstance(error, InvalidSetting):
        return Unavailable(
            f"the catalog's object store is not at the region or endpoint of its storage profile."
            f" {place} reason={error}"
        )
    if isinstance(error, Throttled):
        return Throttled(f"the catalog's object store asks to slow down. {place} reason={error}")
    if isinstance(error, Unavailable) and "catalog=" not in str(error):
        # Not undecided, even if a write was: no pointer moves before the file is known to be written.
        return Unavailable(f"the catalog's object store is unavailable. {place} reason={error}")
    return error


def _first(group: ExceptionGroup[Exception]) -> LakebedError:
    """The first error of a group of concurrent requests."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, LakebedError):
        return error
    raise error


class FilesByStorage:
    """The files of a catalog in its own object store, or in the buckets of this server. Implements `CatalogFiles`."""

    def __init__(self, served: TableFiles, profiles: StorageProfiles, stores: ExternalStores, retrier: Retrier) -> None:
        self._served = served
        self._profiles = profiles
        self._stores = stores
        self._known = KnownFiles()
        self._retrier = retrier

    def of(self, catalog: Catalog) -> TableFiles:
        """The files of a catalog."""
        if catalog.storage_revision is None:
            return self._served
        return self._external(catalog)

    async def is_empty(self, catalog: Catalog, directory: str, but: Collection[str]) -> bool:
        """Whether a directory of the catalog's external storage has no object, apart from those under `but`."""
        return await self._external(catalog).is_empty(directory, but)

    def _external(self, catalog: Catalog) -> ExternalFiles:
        return ExternalFiles(self._profiles, self._stores, self._known, self._retrier, catalog)
