"""Invariants of the object tables, and between them and the object store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from lakebed.objects.model import Extent, unpack_extent, unpack_layout

from .stores import ObjectStore

_CURRENT = "SELECT bucket, key, rank, content FROM objects"
_NONCURRENT = "SELECT bucket, key, rank, content, is_marker FROM versions"


async def check_tables(store: ObjectStore) -> None:
    """Assert every invariant. Scans all tables."""
    current = await store.meta.rows(_CURRENT)
    noncurrent = await store.meta.rows(_NONCURRENT)
    _check_current_is_newest(current, noncurrent)
    await _check_contents(store, Counter(row[3] for row in (*current, *noncurrent) if row[3] is not None))


def _check_current_is_newest(current: list[tuple[object, ...]], noncurrent: list[tuple[object, ...]]) -> None:
    """`objects` has a row for a key exactly if its newest version is not a delete marker; the row is that version."""
    rank_of = {(row[0], row[1]): row[2] for row in current}
    versions: dict[tuple[object, object], list[tuple[int, bool]]] = {}
    for bucket, key, rank, _, is_marker in noncurrent:
        assert isinstance(rank, int)
        versions.setdefault((bucket, key), []).append((rank, bool(is_marker)))
    for key, ranked in versions.items():
        newest_rank, newest_is_marker = min(ranked)
        if key in rank_of:
            found = rank_of[key]
            assert isinstance(found, int)
            assert found < newest_rank, f"the current version is not the newest. key={key}"
        else:
            assert newest_is_marker, f"the newest version is no marker, and not current. key={key}"


async def _check_contents(store: ObjectStore, references: Counter[object]) -> None:
    contents = await store.meta.rows("SELECT id, refs, layout, lender FROM contents")
    references += Counter(row[3] for row in contents if row[3] is not None)
    assert {row[0]: row[1] for row in contents} == references, "contents.refs is not the number of references"
    layouts = {row[0]: unpack_layout(row[2]) for row in contents if row[2] is not None}
    bases = {row[0]: row[3] for row in contents}
    for content, layout in layouts.items():
        _check_composed([piece for piece in layout if piece.blob_size], bases[content], layouts, bases)
    laid_out = [piece.blob for layout in layouts.values() for piece in layout if not piece.blob_size]
    parts = [unpack_extent(row[0]).blob for row in await store.meta.rows("SELECT piece FROM parts")]
    referenced = Counter(blob for blob in (*laid_out, *parts) if blob is not None)
    assert max(referenced.values(), default=1) == 1, "two contents or parts refer to one blob"
    live = {row[0] for row in await store.meta.rows("SELECT id FROM blobs")}
    garbage = {row[0] for row in await store.meta.rows("SELECT id FROM garbage")}
    assert live == set(referenced), "blobs differ from the references of contents and parts"
    assert not live & garbage, "a blob that is referenced to is garbage"
    stored = await store.stored_blobs()
    assert live <= stored, "a referenced blob is not in the object store"
    assert stored <= live | garbage, "a stored blob is not referenced"


def _check_composed(
    composed: list[Extent], base: int | None, layouts: Mapping[int, list[Extent]], bases: Mapping[int, int | None]
) -> None:
    if base is None:
        assert not composed, "base range without a base"
        return
    assert composed, "content has a base but no base range"
    assert bases[base] is None, "a base is composed itself"
    (base_extent,) = layouts[base]
    for piece in composed:
        assert (piece.blob, piece.seal, piece.blob_size) == (base_extent.blob, base_extent.seal, base_extent.size), (
            "not the base's blob"
        )
        assert 0 <= piece.start <= piece.start + piece.size <= base_extent.size, "range exceeds the base blob"
