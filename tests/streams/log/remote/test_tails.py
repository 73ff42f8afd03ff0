"""Which tail objects form the log, when former leaders wrote some of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakebed.streams.log.remote.tails import MERGED, TailPiece, chain, mergeable


def test_chain_of_consecutive_pieces() -> None:
    pieces = [TailPiece(10, 20, 1, 1), TailPiece(0, 10, 1, 1), TailPiece(20, 25, 1, 1), TailPiece(30, 40, 1, 1)]
    assert [piece.start for piece in chain(pieces, 0)] == [0, 10, 20]
    assert [piece.start for piece in chain(pieces, 10)] == [10, 20]
    assert chain(pieces, 5) == []


def test_pieces_of_a_newer_epoch_replace_older_ones() -> None:
    old = [TailPiece(0, 10, 1, 1), TailPiece(10, 20, 1, 1), TailPiece(20, 30, 1, 1)]
    new = [TailPiece(10, 14, 2, 1), TailPiece(14, 20, 2, 1)]
    # The old piece at 20 does not follow a piece of the same epoch.
    assert chain([*old, *new], 0) == [old[0], *new]


def test_pieces_of_a_later_opening_replace_earlier_ones() -> None:
    lost, written = TailPiece(10, 20, 3, 1), TailPiece(10, 15, 3, 2)
    assert chain([lost, written, TailPiece(15, 16, 3, 2)], 10) == [written, TailPiece(15, 16, 3, 2)]
    assert chain([lost, written, TailPiece(15, 16, 3, 1)], 10) == [written]


def sequence(sizes: list[int], epoch: int = 1) -> list[tuple[TailPiece, int]]:
    return [(TailPiece(at, at + 1, epoch, 1), size) for at, size in enumerate(sizes)]


def test_few_pieces_are_not_merged() -> None:
    assert mergeable(sequence([1000] * (MERGED - 1))) == []


def test_small_pieces_are_merged_and_large_ones_are_not() -> None:
    small, large = [1000] * MERGED, 20 * 1024 * 1024
    pieces = sequence([*small, large, *small])
    assert [(run[0].start, run[-1].end) for run in mergeable(pieces)] == [(0, MERGED), (MERGED + 1, 2 * MERGED + 1)]


@given(st.lists(st.integers(1, 20 * 1024 * 1024), max_size=200))
def test_merged_runs_are_consecutive_and_limited_in_size(sizes: list[int]) -> None:
    pieces = sequence(sizes)
    for run in mergeable(pieces):
        assert len(run) >= MERGED
        assert [piece.start for piece in run] == list(range(run[0].start, run[-1].end))
        assert sum(sizes[piece.start] for piece in run) <= 16 * 1024 * 1024


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 2)), min_size=1, max_size=12).map(sorted),
    st.data(),
)
def test_merged_piece_replaces_its_sources_whether_or_not_they_are_removed(
    authors: list[tuple[int, int]], data: st.DataObject
) -> None:
    pieces = [TailPiece(at, at + 1, *author) for at, author in enumerate(authors)]
    first = data.draw(st.integers(0, len(pieces) - 1))
    last = data.draw(st.integers(first, len(pieces) - 1))
    merged = pieces[last]._replace(start=first)
    removed = data.draw(st.sets(st.sampled_from(pieces[first : last + 1])))
    remaining = [piece for piece in pieces if piece not in removed or piece == merged]
    expected = [*pieces[:first], merged, *pieces[last + 1 :]]
    assert chain([*remaining, merged], 0) == expected
