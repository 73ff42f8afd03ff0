"""What must hold between the tables of the object store, and between them and the byte store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from lakebed.objects.model import Extent, unpack_extent, unpack_layout

from .stores import ObjectStore

_CURRENT = "SELECT bucket, key, rank, content FROM objects"
_BEHIND = "SELECT bucket, key, rank, content, is_marker FROM versions"


async def check_tables(store: ObjectStore) -> None:
    """Assert every invariant of the tables. Costs a scan of each."""
    current = await store.meta.rows(_CURRENT)
    behind = await store.meta.rows(_BEHIND)
    _check_current_is_newest(current, behind)
    await _check_contents(store, Counter(row[3] for row in (*current, *behind) if row[3] is not None))


def _check_current_is_newest(current: list[tuple[object, ...]], behind: list[tuple[object, ...]]) -> None:
    """`objects` has a row for a key exactly when its newest version is not a marker, and then that row is it."""
    rank_of = {(row[0], row[1]): row[2] for row in current}
    versions: dict[tuple[object, object], list[tuple[int, bool]]] = {}
    for bucket, key, rank, _, is_marker in behind:
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
    lenders = {row[0]: row[3] for row in contents}
    for content, layout in layouts.items():
        _check_borrowed([piece for piece in layout if piece.blob_size], lenders[content], layouts, lenders)
    laid_out = [piece.blob for layout in layouts.values() for piece in layout if not piece.blob_size]
    parts = [unpack_extent(row[0]).blob for row in await store.meta.rows("SELECT piece FROM parts")]
    referred = Counter(blob for blob in (*laid_out, *parts) if blob is not None)
    assert max(referred.values(), default=1) == 1, "two contents or parts refer to one blob"
    live = {row[0] for row in await store.meta.rows("SELECT id FROM blobs")}
    garbage = {row[0] for row in await store.meta.rows("SELECT id FROM garbage")}
    assert live == set(referred), "the table of blobs is not what contents and parts refer to"
    assert not live & garbage, "a blob that is referred to is garbage"
    stored = await store.stored_blobs()
    assert live <= stored, "a blob that is referred to is not in the byte store"
    assert stored <= live | garbage, "a blob is stored that nobody knows of"


def _check_borrowed(
    borrowed: list[Extent], lender: int | None, layouts: Mapping[int, list[Extent]], lenders: Mapping[int, int | None]
) -> None:
    if lender is None:
        assert not borrowed, "a piece is borrowed from nobody"
        return
    assert borrowed, "a content has a lender, and borrows nothing"
    assert lenders[lender] is None, "a lender borrows itself"
    (lent,) = layouts[lender]
    for piece in borrowed:
        assert (piece.blob, piece.seal, piece.blob_size) == (lent.blob, lent.seal, lent.size), "not the lender's blob"
        assert 0 <= piece.start <= piece.start + piece.size <= lent.size, "borrowed past the end of the blob"
