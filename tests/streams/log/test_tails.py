"""Which objects of a tail are the log, whoever else wrote some."""

from __future__ import annotations

from lakebed.streams.log.tails import TailPiece, chain


def test_pieces_follow_each_other() -> None:
    pieces = [TailPiece(10, 20, 1, 1), TailPiece(0, 10, 1, 1), TailPiece(20, 25, 1, 1), TailPiece(30, 40, 1, 1)]
    assert [piece.start for piece in chain(pieces, 0)] == [0, 10, 20]
    assert [piece.start for piece in chain(pieces, 10)] == [10, 20]
    assert chain(pieces, 5) == []


def test_a_newer_home_is_the_log_where_it_wrote() -> None:
    old = [TailPiece(0, 10, 1, 1), TailPiece(10, 20, 1, 1), TailPiece(20, 30, 1, 1)]
    new = [TailPiece(10, 14, 2, 1), TailPiece(14, 20, 2, 1)]
    # What the old one has at 20 follows nothing of its own.
    assert chain([*old, *new], 0) == [old[0], *new]


def test_a_later_opening_is_the_log_where_it_wrote() -> None:
    lost, written = TailPiece(10, 20, 3, 1), TailPiece(10, 15, 3, 2)
    assert chain([lost, written, TailPiece(15, 16, 3, 2)], 10) == [written, TailPiece(15, 16, 3, 2)]
    assert chain([lost, written, TailPiece(15, 16, 3, 1)], 10) == [written]
