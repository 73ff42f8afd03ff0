"""The Java library reads bitmaps that were joined here from its own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyspark
import pytest

from lakebed.streams.kv.bitmaps import bitmaps_32, bitmaps_64
from tests.fixtures.compatibility_kit import find_or_install_compiler

pytestmark = [pytest.mark.integration, pytest.mark.heavy]

_PROGRAM = Path(__file__).parent / "java" / "Bitmaps.java"


def test_java_reads_the_union_of_its_bitmaps(tmp_path: Path) -> None:
    _run(tmp_path, "write")
    for kind, bits in ((bitmaps_64("c"), 64), (bitmaps_32("c"), 32)):
        files = [tmp_path / f"{number}.{bits}" for number in range(len(list(tmp_path.glob(f"*.{bits}"))))]
        assert len(files) > 30
        for file, other in zip(files, [*files[1:], files[0]], strict=True):
            kind.check(file.read_bytes())
            file.with_name(f"{file.name}.joined").write_bytes(kind.union(file.read_bytes(), other.read_bytes()))
    _run(tmp_path, "read")


def _run(folder: Path, mode: str) -> None:
    """Run the program with the library of Spark."""
    java = find_or_install_compiler() / "bin"
    (jar,) = Path(pyspark.__file__).parent.glob("jars/RoaringBitmap-*.jar")
    subprocess.run([java / "javac", "-d", folder, "-cp", jar, _PROGRAM], check=True)
    command = [str(java / "java"), "-cp", f"{folder}:{jar}", "Bitmaps", mode, str(folder)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "all is well" in done.stdout
