"""The package exports exactly what its modules define."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil

import pytest

from lakebed.catalog import scans

MODULES = [name for _, name, _ in pkgutil.iter_modules(scans.__path__)]


def test_package_exports_what_it_imports() -> None:
    tree = ast.parse(inspect.getsource(scans))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert imported == set(scans.__all__)


@pytest.mark.parametrize("name", MODULES)
def test_modules_define_their_exports(name: str) -> None:
    module = importlib.import_module(f"{scans.__name__}.{name}")
    assert [one for one in module.__all__ if not hasattr(module, one)] == []
