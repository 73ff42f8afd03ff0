"""Programs in strings of tests import names that exist: most of them run in heavy tests only."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
FILES = [
    file
    for folder in ("tests", "benchmarks", "examples")
    for file in sorted((CHECKOUT / folder).rglob("*.py"))
    if "from lakebed" in file.read_text(encoding="utf-8") and file != Path(__file__)
]
_IMPORT = re.compile(r"^\s*from (lakebed[\w.]*) import ([\w, ]+)$", re.MULTILINE)


def imports_of(source: str) -> list[tuple[str, str]]:
    """The names that programs in the strings of a module import from the package."""
    return [
        (found[1], name.strip().partition(" as ")[0])
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for found in _IMPORT.finditer(node.value)
        for name in found[2].split(",")
    ]


EMBEDDED = {
    str(file.relative_to(CHECKOUT)): found for file in FILES if (found := imports_of(file.read_text(encoding="utf-8")))
}


@pytest.mark.parametrize("file", EMBEDDED)
def test_imported_names_exist(file: str) -> None:
    for module, name in EMBEDDED[file]:
        assert hasattr(importlib.import_module(module), name), f"{module} has no {name}"


def test_programs_are_found() -> None:
    assert imports_of('X = """\nimport sys\nfrom lakebed.core import errors, ids as i\n"""') == [
        ("lakebed.core", "errors"),
        ("lakebed.core", "ids"),
    ]
    assert "tests/pipeline/test_connect.py" in EMBEDDED
