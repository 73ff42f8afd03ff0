from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import lakebed
from lakebed.core import errors
from lakebed.core.errors import LakebedError

SOURCE = Path(inspect.getfile(lakebed)).parent


def descend(parent: type[LakebedError], depth: int = 0) -> Iterator[tuple[int, type[LakebedError]]]:
    yield depth, parent
    for child in parent.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from descend(child, depth + 1)


def documented_tree() -> list[tuple[int, str]]:
    """Depth and name of each line of the tree in the module's docstring."""
    lines = re.findall(r"^ {4}([│├└─ ]*)([A-Z]\w+)", inspect.getdoc(errors) or "", re.MULTILINE)
    # Each level of the tree is four characters wide.
    return [(len(branch) // 4, name) for branch, name in lines]


EVERY_ERROR = [error for _, error in descend(LakebedError)]


def test_docstring_tree_shows_every_error_class() -> None:
    assert documented_tree() == [(depth, error.__name__) for depth, error in descend(LakebedError)]


@pytest.mark.parametrize("error", EVERY_ERROR)
def test_each_error_has_a_docstring(error: type[LakebedError]) -> None:
    own = error.__dict__.get("__doc__")
    assert own is not None
    assert own.strip().split("\n")[0].endswith(".")


@pytest.mark.parametrize("error", EVERY_ERROR)
def test_each_error_has_its_message(error: type[LakebedError]) -> None:
    raised = error("expected this. found=that")
    assert "expected this. found=that" in str(raised)


def test_only_errors_marked_retry_are_retryable() -> None:
    retryable = {error.__name__ for error in EVERY_ERROR if error.retryable}
    assert retryable == {"WriteConflict", "Throttled", "Unavailable", "StorageFull"}


@pytest.mark.slow
def test_only_wire_packages_subclass_errors_elsewhere() -> None:
    """Wire packages may subclass an error for their codes; their tables still find the base class.

    FlussError is the exception: its codes are names, which only the wire package maps to numbers.
    """
    names = {error.__name__ for error in EVERY_ERROR}
    strays = [
        f"{path.relative_to(SOURCE)}: {node.name}"
        for path in SOURCE.rglob("*.py")
        if path != SOURCE / "core" / "errors.py" and (SOURCE / "wire") not in path.parents
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        and any(
            isinstance(base, ast.Name | ast.Attribute) and ast.unparse(base).split(".")[-1] in names
            for base in node.bases
        )
    ]
    assert strays == ["fluss/errors.py: FlussError"]


def test_error_details_are_kept() -> None:
    assert errors.InvalidInput("wrong", argument="max-keys", value="x").argument == "max-keys"
    assert errors.InvalidRange("beyond", size=3, requested="bytes=5-").size == 3
    assert errors.NoSuchKey("gone", delete_marker="v1").delete_marker == "v1"
    assert errors.NoSuchConfiguration("cors").kind == "cors"
    assert errors.PreconditionFailed("changed", condition="If-Match").condition == "If-Match"
    assert errors.NotModified("same", etag="e", modified_ms=1).etag == "e"
