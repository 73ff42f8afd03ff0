"""Files of a catalog in an external store, on the in-memory store with faults."""

from __future__ import annotations

from typing import cast

import pytest

from lakebed.catalog.tables.files import DirectoryFile, FileAddress
from lakebed.core.clock import ManualClock
from lakebed.core.errors import (
    AccessDenied,
    CredentialsExpired,
    InvalidInput,
    InvalidSetting,
    LakebedError,
    NoSuchBucket,
    NotFound,
    NotSupported,
    Throttled,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from lakebed.meta.seam import Transaction
from lakebed.objects.publishing import NewGarbage
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.seam import Key
from tests.fixtures.faulty_storage import FailAfter, FailBefore, FaultScript, FaultyStorage
from tests.objects.stores import ROOT

from .profiles import external_catalog, files_on

HERE = "s3://lake/wh/t/metadata/1.metadata.json"
NO_TRANSACTION = cast(Transaction, None)


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage(ManualClock(1000))


async def test_file_is_read_with_its_state(storage: MemoryStorage) -> None:
    await storage.put(Key("wh/t/metadata/1.metadata.json"), b"some text")
    data, facts = await files_on(storage).fetch(HERE)
    assert (data, facts.size, facts.modified_ms) == (b"some text", 9, 1000)
    assert await files_on(storage).read("s3a://lake/wh/t/metadata/1.metadata.json") == b"some text"


async def test_empty_file_is_read(storage: MemoryStorage) -> None:
    await storage.put(Key("wh/t/metadata/1.metadata.json"), b"")
    assert await files_on(storage).read(HERE) == b""


async def test_missing_file_is_not_found(storage: MemoryStorage) -> None:
    with pytest.raises(NotFound, match="no such file"):
        await files_on(storage).read(HERE)
    assert await files_on(storage).stat([HERE]) == {HERE: None}


async def test_file_of_another_bucket_is_not_found(storage: MemoryStorage) -> None:
    with pytest.raises(NotFound, match="outside the catalog's bucket"):
        await files_on(storage).read("s3://other/wh/t/metadata/1.metadata.json")


async def test_large_file_is_rejected_before_it_is_read(storage: MemoryStorage) -> None:
    await storage.put(Key("wh/t/metadata/1.metadata.json"), b"x" * 100)
    with pytest.raises(TooLarge):
        await files_on(storage).read(HERE, 99)


async def test_known_files_are_not_looked_up_again(storage: MemoryStorage) -> None:
    script = FaultScript()
    files = files_on(FaultyStorage(storage, script))
    await storage.put(Key("wh/a"), b"1")
    for _ in range(3):
        found = await files.stat(["s3://lake/wh/a", "s3://lake/wh/b"])
        assert found["s3://lake/wh/b"] is None
    assert script.calls("head") == 1 + 3


async def test_many_files_are_looked_up(storage: MemoryStorage) -> None:
    locations = [f"s3://lake/wh/{number}" for number in range(200)]
    for number in range(0, 200, 2):
        await storage.put(Key(f"wh/{number}"), b"x" * number)
    found = await files_on(storage).stat(locations)
    assert [None if each is None else each.size for each in (found[location] for location in locations)] == [
        number if number % 2 == 0 else None for number in range(200)
    ]


async def test_prepared_file_is_written_at_once_and_discarded(storage: MemoryStorage) -> None:
    files = files_on(storage)
    prepared = await files.prepare(FileAddress("lake", "wh/t/metadata/1.metadata.json"), b"{}")
    assert await storage.get(Key("wh/t/metadata/1.metadata.json")) == b"{}"
    await prepared.place(NO_TRANSACTION, ROOT, 0, NewGarbage(0))
    assert prepared.base_content is None
    await prepared.discard()
    with pytest.raises(NotFound):
        await storage.get(Key("wh/t/metadata/1.metadata.json"))


async def test_existing_file_is_never_replaced(storage: MemoryStorage) -> None:
    await storage.put(Key("wh/t/metadata/1.metadata.json"), b"of another writer")
    with pytest.raises(Unavailable, match="exists already"):
        await files_on(storage).prepare(FileAddress("lake", "wh/t/metadata/1.metadata.json"), b"{}")
    assert await storage.get(Key("wh/t/metadata/1.metadata.json")) == b"of another writer"


async def test_write_whose_response_is_lost_succeeds(storage: MemoryStorage) -> None:
    faulty = FaultyStorage(storage, FaultScript().on("put_if_absent", FailAfter(Unavailable("lost", undecided=True))))
    await files_on(faulty).prepare(FileAddress("lake", "wh/m"), b"{}")
    assert await storage.get(Key("wh/m")) == b"{}"


async def test_store_without_conditional_writes_is_written_under_unique_names(storage: MemoryStorage) -> None:
    faulty = FaultyStorage(storage, FaultScript().on("put_if_absent", FailBefore(NotSupported("no conditions"))))
    await files_on(faulty).prepare(FileAddress("lake", "wh/m"), b"{}")
    assert await storage.get(Key("wh/m")) == b"{}"


async def test_directory_is_listed(storage: MemoryStorage) -> None:
    for key in ("wh/t/a", "wh/t/b/c", "wh/t10/a"):
        await storage.put(Key(key), b"12")
    listed = [each async for each in files_on(storage).list(FileAddress("lake", "wh/t"))]
    assert [each.key for each in listed] == ["wh/t/a", "wh/t/b/c"]
    assert isinstance(listed[0], DirectoryFile)
    assert listed[0].size == 2


async def test_empty_directory_is_recognized(storage: MemoryStorage) -> None:
    files = files_on(storage)
    assert await files.is_empty("wh/t/", ())
    await storage.put(Key("wh/t10/a"), b"")
    assert await files.is_empty("wh/t/", ())
    await storage.put(Key("wh/t/data/a"), b"")
    assert not await files.is_empty("wh/t/", ())
    assert await files.is_empty("wh/t/", ("wh/t/data/",))


async def test_removed_files_are_forgotten(storage: MemoryStorage) -> None:
    files = files_on(storage)
    await storage.put(Key("wh/a"), b"1")
    await files.stat(["s3://lake/wh/a"])
    await files.remove(["s3://lake/wh/a", "s3://lake/wh/b"])
    assert await files.stat(["s3://lake/wh/a"]) == {"s3://lake/wh/a": None}
    await files.remove([])


@pytest.mark.parametrize("location", ["s3://lake/elsewhere/1.json", "s3://lake/wh2/1.json", "s3://other/wh/1.json"])
async def test_named_metadata_file_must_be_in_an_allowed_location(storage: MemoryStorage, location: str) -> None:
    await storage.put(Key("elsewhere/1.json"), b"{}")
    await storage.put(Key("wh2/1.json"), b"{}")
    with pytest.raises(InvalidInput, match="outside the catalog's allowed locations"):
        await files_on(storage).read_metadata_for(ROOT, location)


async def test_named_metadata_file_is_read_in_allowed_locations(storage: MemoryStorage) -> None:
    for key in ("wh/1.json", "more/1.json"):
        await storage.put(Key(key), b"{}")
        assert await files_on(storage).read_metadata_for(ROOT, f"s3://lake/{key}") == b"{}"
    with pytest.raises(InvalidInput, match="does not exist"):
        await files_on(storage).read_metadata_for(ROOT, "s3://lake/wh/2.json")


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        (Unavailable("connection refused"), "object store is unavailable"),
        (Throttled("slow down"), "asks to slow down"),
        (AccessDenied("403"), "lakebed check storage --catalog ext"),
        (Unauthenticated("InvalidAccessKeyId"), "rejects the credentials"),
        (CredentialsExpired("ExpiredToken"), "rejects the credentials"),
        (NoSuchBucket("404"), "bucket of the catalog does not exist"),
        (InvalidSetting("PermanentRedirect"), "region or endpoint"),
    ],
)
async def test_failure_names_the_catalog_and_the_step(
    storage: MemoryStorage, failure: LakebedError, message: str
) -> None:
    files = files_on(FaultyStorage(storage, FaultScript().always("head", FailBefore(failure))))
    for operation, step in ((files.read(HERE), "read a file"), (files.stat([HERE]), "look up files")):
        with pytest.raises((Unavailable, Throttled)) as caught:
            await operation
        assert message in str(caught.value)
        assert f"catalog=ext bucket=lake step='{step}'" in str(caught.value)


async def test_failed_write_is_decided(storage: MemoryStorage) -> None:
    lost = FailBefore(Unavailable("timeout", undecided=True))
    files = files_on(FaultyStorage(storage, FaultScript().always("put_if_absent", lost).always("head", lost)))
    with pytest.raises(Unavailable) as caught:
        await files.prepare(FileAddress("lake", "wh/m"), b"{}")
    # No pointer moves before the file is known to be written: the commit certainly did not happen.
    assert not caught.value.undecided


async def test_files_of_catalogs_are_known_separately(storage: MemoryStorage) -> None:
    one = files_on(storage)
    await storage.put(Key("wh/a"), b"1")
    await one.stat(["s3://lake/wh/a"])
    other = files_on(MemoryStorage(ManualClock(0)), external_catalog()._replace(id=4))
    assert await other.stat(["s3://lake/wh/a"]) == {"s3://lake/wh/a": None}
