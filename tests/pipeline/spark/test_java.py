from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.core.errors import PipelineUnavailable
from lakebed.pipeline.spark.java import find_java, java_version


def make_java(home: Path, version: str) -> Path:
    """A program with the version output of Java."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-20' >&2\n")
    program.chmod(0o755)
    return home


@pytest.mark.parametrize(("output", "version"), [("17.0.9", 17), ("21", 21), ("1.8.0_402", 8), ("25.0.1", 25)])
def test_java_version_is_parsed(tmp_path: Path, output: str, version: int) -> None:
    assert java_version(make_java(tmp_path, output)) == version


def test_other_programs_have_no_java_version(tmp_path: Path) -> None:
    assert java_version(tmp_path) is None
    broken = make_java(tmp_path / "broken", "17")
    (broken / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    assert java_version(broken) is None
    (broken / "bin" / "java").write_bytes(b"\0")
    assert java_version(broken) is None


def test_java_home_precedes_path_precedes_installed_packages(tmp_path: Path) -> None:
    stated, on_path = make_java(tmp_path / "stated", "21.0.1"), make_java(tmp_path / "path", "17.0.1")
    installed = make_java(tmp_path / "jvm" / "java-17", "17.0.2").parent
    host_environment = {"JAVA_HOME": str(stated), "PATH": str(on_path / "bin")}
    assert find_java(host_environment, installed=installed) == stated
    assert find_java({"PATH": str(on_path / "bin")}, installed=installed) == on_path
    assert find_java({"PATH": ""}, installed=installed) == installed / "java-17"


def test_unsupported_java_is_skipped(tmp_path: Path) -> None:
    new = make_java(tmp_path / "new", "25.0.1")
    installed = make_java(tmp_path / "jvm" / "java-17", "17.0.2").parent
    assert find_java({"JAVA_HOME": str(new), "PATH": ""}, installed=installed) == installed / "java-17"


def test_missing_java_error_lists_found_versions_and_package(tmp_path: Path) -> None:
    new = make_java(tmp_path / "new", "25.0.1")
    with pytest.raises(PipelineUnavailable) as caught:
        find_java({"JAVA_HOME": str(new), "PATH": ""}, installed=tmp_path / "none")
    assert "Java 17 or 21" in str(caught.value)
    assert "apt-get install openjdk-17-jre-headless" in str(caught.value)
    assert f"25 in {new}" in str(caught.value)
    assert not caught.value.retryable
    with pytest.raises(PipelineUnavailable, match="found=none"):
        find_java({"PATH": ""}, installed=tmp_path / "none")
