"""Packages export exactly what their modules define."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from types import ModuleType

import pytest

from lakebed import iceberg
from lakebed.iceberg import commits, manifests, metadata

MODULES = [
    name for _, name, is_package in pkgutil.walk_packages(iceberg.__path__, "lakebed.iceberg.") if not is_package
]


@pytest.mark.parametrize("package", [commits, manifests, metadata], ids=lambda package: package.__name__)
def test_package_exports_what_it_imports(package: ModuleType) -> None:
    tree = ast.parse(inspect.getsource(package))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert imported == set(package.__all__)


@pytest.mark.parametrize("name", MODULES)
def test_modules_define_their_exports(name: str) -> None:
    module = importlib.import_module(name)
    assert [one for one in module.__all__ if not hasattr(module, one)] == []
