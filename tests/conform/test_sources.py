from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lakebed.conform.sources import source_digest


@pytest.fixture
def package(tmp_path: Path) -> Path:
    root = tmp_path / "package"
    (root / "inner").mkdir(parents=True)
    (root / "a.py").write_text("a = 1\n")
    (root / "inner" / "b.sql").write_text("SELECT 1")
    return root


def _write(name: str, text: str) -> Callable[[Path], object]:
    return lambda root: (root / name).write_text(text)


@pytest.mark.parametrize(
    "change",
    [
        _write("a.py", "a = 2\n"),
        _write("c.py", ""),
        _write("inner/b.sql", "SELECT 2"),
        lambda root: (root / "a.py").rename(root / "b.py"),
        lambda root: (root / "a.py").unlink(),
    ],
    ids=["edited", "added", "other kind", "renamed", "removed"],
)
def test_change_of_the_sources_changes_the_digest(package: Path, change: Callable[[Path], object]) -> None:
    before = source_digest(package)
    change(package)
    assert source_digest(package) != before


@pytest.mark.parametrize("name", ["evidence.json", "a.pyc", "lanes.so"])
def test_what_is_made_from_them_does_not(package: Path, name: str) -> None:
    before = source_digest(package)
    (package / name).write_text("made")
    assert source_digest(package) == before


def test_digest_is_of_this_package_unless_told_otherwise() -> None:
    assert source_digest() == source_digest(Path(__file__).parents[2] / "src" / "lakebed")
