from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakebed.meta.sql_text import numbered, padded_batches, statements

_QUIET = st.sampled_from(
    ["'a?;b'", "'it''s ?'", '"a?;"', '"q""?"', "-- why? yes;\n", "/* ? ; \n */", "SELECT ", " FROM t ", "''", " x = 1 "]
)


def test_parameters_are_numbered_in_order() -> None:
    assert numbered("SELECT ? WHERE a = ? AND b IN (?, ?)") == "SELECT $1 WHERE a = $2 AND b IN ($3, $4)"


def test_statement_without_parameters_is_unchanged() -> None:
    assert numbered("SELECT '?', \"?\" -- ?\n/* ? */") == "SELECT '?', \"?\" -- ?\n/* ? */"


@given(st.lists(st.tuples(_QUIET, st.booleans())))
def test_only_question_marks_outside_literals_names_and_comments_are_parameters(pieces: list[tuple[str, bool]]) -> None:
    written = " ".join(piece + " ?" * is_parameter for piece, is_parameter in pieces)
    expected, count = [], 0
    for piece, is_parameter in pieces:
        count += is_parameter
        expected.append(piece + f" ${count}" * is_parameter)
    assert numbered(written) == " ".join(expected)


@given(st.lists(st.lists(_QUIET.filter(lambda piece: not piece.startswith(("--", "/*"))), min_size=1)))
def test_script_splits_only_at_statement_ends(parts: list[list[str]]) -> None:
    written = [" ".join(part).strip() for part in parts]
    assert list(statements(" ;\n".join(written))) == written


def test_comments_and_blanks_are_not_statements() -> None:
    assert list(statements("-- first; line\n\n;; /* only ; this */ ;\n SELECT 1; -- after\n")) == ["SELECT 1"]


@given(st.text())
def test_any_text_is_split(noise: str) -> None:
    numbered(noise)
    list(statements(noise))


def test_batches_have_one_size_and_repeat_their_last_value() -> None:
    assert list(padded_batches([1, 2, 3, 4, 5], 3)) == [[1, 2, 3], [4, 5, 5]]
    assert list(padded_batches((), 3)) == []
