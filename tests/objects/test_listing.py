"""Listings compared with a sorted model, with keys at the limits of ordering and encoding."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lakebed.core.errors import AccessDenied, InvalidInput, NoSuchBucket
from lakebed.meta.seam import MetaStore, Row, Transaction, Value
from lakebed.objects import rows
from lakebed.objects.config.versioning import Versioning
from lakebed.objects.listing import ListedObject, ListedVersion, Lister, successor
from lakebed.objects.model import DEFAULT_ATTRIBUTES, StoredUpload, pack
from tests.governance.documents import policy, statement

from .model import Rolled, list_keys
from .pages import all_objects, all_uploads, all_versions
from .stores import ROOT, ObjectStore, user

ALPHABET = "ab/- \x01\x7f\x80é\ud7ff\ue000\uffff\U00010000\U0010fffe\U0010ffff"
"""Includes the neighbours of the surrogates and of the last code point."""

texts = st.text(ALPHABET, max_size=5)
keys = st.lists(st.text(ALPHABET, min_size=1, max_size=5), max_size=12, unique=True)
delimiters = st.sampled_from(("", "/", "//", "-a", "a-", "\ud7ff", "\U0010ffff", "é/", "aba"))
one_metadata_store = pytest.mark.parametrize(
    "open_object_store",
    ["sqlite-memory", pytest.param("postgres-memory", marks=pytest.mark.integration)],
    indirect=True,
)

_bucket_numbers = count()


async def make_bucket(store: ObjectStore, keys: Iterable[str]) -> str:
    """A new bucket with empty objects under these keys, inserted directly to save time."""
    name = f"bucket-{next(_bucket_numbers)}"
    bucket = await store.bucket(name)
    attributes = pack(DEFAULT_ATTRIBUTES)

    async def work(tx: Transaction) -> None:
        for key in keys:
            await tx.run(rows.UPSERT_OBJECT, bucket.id, key, 0, "null", 0, "etag", 1, "", None, attributes)

    await store.meta.transact(work)
    return name


def entries_of(listed: Iterable[ListedObject | ListedVersion | StoredUpload | Rolled]) -> list[str | Rolled]:
    """The entries of a listing, in order."""
    return [item if isinstance(item, Rolled) else item.key for item in listed]


@st.composite
def listings(draw: st.DrawFn) -> tuple[list[str], str, str, str]:
    """Keys, with a prefix, a delimiter and a start related to them."""
    chosen = draw(keys)
    related = st.sampled_from(chosen).flatmap(lambda key: st.integers(0, len(key)).map(lambda end: key[:end]))
    near = texts | related if chosen else texts
    return chosen, draw(near), draw(delimiters), draw(st.just("") | near)


@one_metadata_store
@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(listing=listings(), seed=st.integers(0, 2**16))
@example(listing=(["a/", "a/b", "a0"], "a/", "/", ""), seed=1)
@example(listing=(["a/b", "a/c", "b"], "", "/", "a/b"), seed=1)
@example(listing=(["a/b", "a/c", "b"], "", "/", "a/"), seed=1)
@example(listing=(["\U0010ffff", "\U0010ffffa"], "", "\U0010ffff", ""), seed=1)
@example(listing=(["\U0010ffff", "\U0010ffff\U0010ffff"], "\U0010ffff", "", ""), seed=1)
@example(listing=(["a\ud7ff", "a\ud7ff\U0010ffff", "a\ue000"], "a\ud7ff", "", ""), seed=1)
async def test_pages_match_the_sorted_keys(
    store: ObjectStore, listing: tuple[list[str], str, str, str], seed: int
) -> None:
    chosen, prefix, delimiter, after = listing
    bucket = await make_bucket(store, chosen)
    random = Random(seed)
    listed = await all_objects(
        store, bucket, lambda: random.randint(1, 5), prefix=prefix, delimiter=delimiter, after=after
    )
    assert entries_of(listed) == list_keys(chosen, prefix, delimiter, after)


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(listing=listings(), seed=st.integers(0, 2**16))
async def test_versions_and_uploads_have_the_same_common_prefixes_as_keys(
    light_store: ObjectStore, listing: tuple[list[str], str, str, str], seed: int
) -> None:
    chosen, prefix, delimiter, _ = listing
    bucket = await make_bucket(light_store, chosen)
    random = Random(seed)
    for key in chosen:
        for _ in range(random.randint(0, 2)):
            await light_store.begin(bucket, key)
    versions = await all_versions(light_store, bucket, lambda: random.randint(1, 5), prefix=prefix, delimiter=delimiter)
    assert entries_of(versions) == list_keys(chosen, prefix, delimiter)
    begun = [
        row[0]
        for row in await light_store.meta.rows(
            "SELECT key FROM uploads u JOIN buckets b ON b.id = u.bucket WHERE b.name = ?", bucket
        )
    ]
    uploads = await all_uploads(light_store, bucket, lambda: random.randint(1, 5), prefix=prefix, delimiter=delimiter)
    assert entries_of(uploads) == list_keys(begun, prefix, delimiter)


@given(prefix=texts, suffix=texts)
def test_successor_is_greater_than_every_text_with_the_prefix(prefix: str, suffix: str) -> None:
    beyond = successor(prefix)
    if beyond is None:
        assert prefix.strip("\U0010ffff") == ""
    else:
        assert (prefix + suffix).encode() < beyond.encode()


@given(prefix=texts, other=texts)
def test_only_texts_with_the_prefix_are_below_its_successor(prefix: str, other: str) -> None:
    beyond = successor(prefix)
    if prefix.encode() <= other.encode() and (beyond is None or other.encode() < beyond.encode()):
        assert other.startswith(prefix)


@pytest.mark.parametrize(
    ("prefix", "beyond"),
    [
        ("", None),
        ("a", "b"),
        ("a/", "a0"),
        ("a\ud7ff", "a\ue000"),
        ("a\U0010ffff", "b"),
        ("\ud7ff\U0010ffff", "\ue000"),
        ("\U0010ffff\U0010ffff", None),
    ],
)
def test_successor_skips_surrogates(prefix: str, beyond: str | None) -> None:
    assert successor(prefix) == beyond


async def test_start_inside_a_common_prefix_lists_it_if_keys_follow(light_store: ObjectStore) -> None:
    bucket = await make_bucket(light_store, ["a/1", "a/2", "b"])

    async def entries(after: str) -> list[str | Rolled]:
        return entries_of(await all_objects(light_store, bucket, lambda: 10, delimiter="/", after=after))

    assert await entries("a/1") == [Rolled("a/"), "b"]
    assert await entries("a/2") == ["b"]
    assert await entries("a/") == ["b"]


async def test_page_with_limit_zero_is_empty_and_not_truncated(light_store: ObjectStore) -> None:
    bucket = await make_bucket(light_store, ["a"])
    page = await light_store.lister.objects(ROOT, bucket, prefix="", delimiter="", after="", limit=0)
    assert (page.entries, page.prefixes, page.truncated, page.last) == ([], [], False, None)


async def test_page_that_ends_with_the_last_key_is_not_truncated(light_store: ObjectStore) -> None:
    bucket = await make_bucket(light_store, ["a", "b/1", "b/2"])
    page = await light_store.lister.objects(ROOT, bucket, prefix="", delimiter="/", after="", limit=2)
    assert (page.truncated, page.last) == (False, "b/")


async def test_listing_of_absent_bucket_raises_no_such_bucket(light_store: ObjectStore) -> None:
    with pytest.raises(NoSuchBucket):
        await light_store.lister.objects(ROOT, "absent", prefix="", delimiter="", after="", limit=1)


async def test_listing_is_authorized_with_its_prefix(light_store: ObjectStore) -> None:
    bucket = await make_bucket(light_store, ["mine/1", "other/1"])
    condition = {"StringLike": {"s3:prefix": "mine/*"}}
    bob = user("bob", policy(statement(action="s3:ListBucket", resource=f"arn:aws:s3:::{bucket}", condition=condition)))
    page = await light_store.lister.objects(bob, bucket, prefix="mine/", delimiter="", after="", limit=9)
    assert [entry.key for entry in page.entries] == ["mine/1"]
    with pytest.raises(AccessDenied):
        await light_store.lister.objects(bob, bucket, prefix="", delimiter="", after="", limit=9)


async def test_uploads_of_one_key_are_listed_in_the_order_of_creation(light_store: ObjectStore) -> None:
    bucket = await make_bucket(light_store, [])
    begun = []
    for _ in range(3):
        begun.append((await light_store.begin(bucket, "k")).id)
        light_store.clock.advance(1)
    listed = await all_uploads(light_store, bucket, lambda: 1)
    assert [item.id for item in listed if isinstance(item, StoredUpload)] == begun


async def test_paging_continues_after_its_marker_version_was_deleted(store: ObjectStore) -> None:
    """A client that empties a bucket lists a page, deletes it, and lists the next one from its end."""
    await store.bucket("bucket", Versioning.ENABLED)
    written = {str((await store.put("bucket", key, b"x")).version) for key in ("a", "a", "a", "b", "b")}
    seen: set[str] = set()
    key_marker = version_marker = ""
    while True:
        page = await store.lister.versions(
            ROOT, "bucket", prefix="", delimiter="", key_marker=key_marker, version_marker=version_marker, limit=2
        )
        for entry in page.entries:
            await store.delete("bucket", entry.key, entry.version)
            seen.add(entry.version)
        if not page.truncated:
            break
        assert isinstance(page.last, ListedVersion)
        key_marker, version_marker = page.last.key, page.last.version
    assert seen == written
    await store.buckets.delete(ROOT, "bucket")


async def test_paging_from_deleted_version_repeats_rather_than_skips(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket", Versioning.ENABLED)
    versions = [str((await light_store.put("bucket", "k", b"x")).version) for _ in range(3)]
    await light_store.delete("bucket", "k", versions[1])
    page = await light_store.lister.versions(
        ROOT, "bucket", prefix="", delimiter="", key_marker="k", version_marker=versions[1], limit=9
    )
    assert versions[0] in [entry.version for entry in page.entries]
    assert [entry.is_latest for entry in page.entries] == [entry.version == versions[2] for entry in page.entries]


async def test_invalid_version_marker_is_rejected(light_store: ObjectStore) -> None:
    await light_store.bucket("bucket", Versioning.ENABLED)
    with pytest.raises(InvalidInput) as refused:
        await light_store.lister.versions(
            ROOT, "bucket", prefix="", delimiter="", key_marker="k", version_marker="no-such-version", limit=9
        )
    assert refused.value.argument == "version-id-marker"


@dataclass(slots=True)
class CountingReads:
    """A metadata store that counts the rows it returns."""

    inner: MetaStore
    dialect: str = "sqlite"
    given: int = 0
    statements: list[str] = field(default_factory=list)

    async def row(self, sql: str, *args: Value) -> Row | None:
        self.statements.append(sql)
        return await self.inner.row(sql, *args)

    async def rows(self, sql: str, *args: Value) -> list[Row]:
        found = await self.inner.rows(sql, *args)
        self.statements.append(sql)
        self.given += len(found)
        return found


async def test_common_prefixes_are_skipped_without_reading_their_keys(light_store: ObjectStore) -> None:
    folders = [f"{folder}/{number:04}" for folder in "abc" for number in range(1000)]
    bucket = await make_bucket(light_store, folders)
    counting = CountingReads(light_store.meta)
    lister = Lister(replace(light_store.object_context, meta=counting))  # type: ignore[arg-type]  # it only reads
    page = await lister.objects(ROOT, bucket, prefix="", delimiter="/", after="", limit=1000)
    assert page.prefixes == ["a/", "b/", "c/"]
    assert counting.given < 200


async def test_keys_without_a_delimiter_are_read_once(light_store: ObjectStore) -> None:
    bucket = await make_bucket(light_store, [f"{number:04}" for number in range(50)])
    counting = CountingReads(light_store.meta)
    lister = Lister(replace(light_store.object_context, meta=counting))  # type: ignore[arg-type]  # it only reads
    await lister.objects(ROOT, bucket, prefix="", delimiter="", after="", limit=20)
    assert counting.given == 21


async def test_listing_contains_only_keys_of_its_bucket(light_store: ObjectStore) -> None:
    one = await make_bucket(light_store, ["a"])
    other = await make_bucket(light_store, ["b"])
    assert entries_of(await all_objects(light_store, one, lambda: 5)) == ["a"]
    assert entries_of(await all_objects(light_store, other, lambda: 5)) == ["b"]
