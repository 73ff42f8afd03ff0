"""Starting and joining sessions, and the errors."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakebed.client.access import ServerAccess
from lakebed.core.errors import PipelineUnavailable
from lakebed.core.secrets import Secret
from lakebed.core.settings import PipelineSettings
from lakebed.pipeline.spark import session
from lakebed.pipeline.spark.session import attach_catalog, has_java, package_lock, start_spark

ACCESS = ServerAccess("http://127.0.0.1:9000", "AKEXAMPLE", Secret("hush"))


class Settable:
    """The part of a session that catalogs are added to."""

    def __init__(self) -> None:
        self.properties: dict[str, str] = {}

    @property
    def conf(self) -> Settable:
        return self

    def set(self, name: str, value: str) -> None:
        self.properties[name] = value


def test_catalogs_are_added_to_a_running_session() -> None:
    spark: Any = Settable()  # Any: a partial session
    attach_catalog(spark, ACCESS, "one", catalog="a")
    attach_catalog(spark, ACCESS, "other", catalog="b")
    assert spark.properties["spark.sql.catalog.a.warehouse"] == "one"
    assert spark.properties["spark.sql.catalog.b.warehouse"] == "other"
    assert spark.properties["spark.sql.catalog.b.rest.secret-access-key"] == "hush"
    assert not any(".s3." in name for name in spark.properties)
    assert has_java(spark)


def test_missing_pyspark_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(PipelineUnavailable, match=r"pip install 'lakebed\[pipeline\]'"):
        start_spark(PipelineSettings())


def test_missing_java_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from pyspark import SparkContext

    def none() -> Path:
        raise PipelineUnavailable("Spark needs Java 17 or 21")

    monkeypatch.setattr(session, "find_java", none)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    with pytest.raises(PipelineUnavailable, match="Java 17 or 21"):
        start_spark(PipelineSettings())


def broken(tmp_path: Path, words: str) -> Path:
    """A Java that exits at once with this output."""
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{words}' >&2\nexit 1\n")
    program.chmod(0o755)
    return tmp_path


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # PySpark's pipe to an exited JVM
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (":: UNRESOLVED DEPENDENCIES :: unresolved dependency: org.apache.iceberg#x;1: not found", "access to a Maven"),
        ("Error: Could not reserve enough space for object heap", "Could not reserve enough space"),
    ],
)
def test_output_of_a_failed_jvm_is_quoted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str, text: str
) -> None:
    from pyspark import SparkContext

    monkeypatch.setattr(session, "find_java", lambda: broken(tmp_path, words))
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    before = dict(os.environ)
    with pytest.raises(PipelineUnavailable, match=text) as caught:
        start_spark(PipelineSettings())
    message = str(caught.value)
    del caught
    gc.collect()
    assert "master=local[*]" in message
    assert dict(os.environ) == before


def test_unreachable_connect_server_is_named() -> None:
    with pytest.raises(PipelineUnavailable) as caught:
        start_spark(PipelineSettings(master="sc://127.0.0.1:1"))
    # The server or its packages are missing: the error has the fix for both.
    assert "pip install 'pyspark[connect]'" in str(caught.value) or "check that it runs" in str(caught.value)


TRY_LOCK = """
import fcntl, sys
with open(sys.argv[1], "w") as lock:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("taken")
    else:
        print("free")
"""


def test_package_lock_excludes_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))

    def found() -> str:
        (path,) = tmp_path.iterdir()
        program = [sys.executable, "-c", TRY_LOCK, str(path)]
        return subprocess.run(program, capture_output=True, text=True, check=True).stdout.strip()

    with package_lock():
        assert found() == "taken"
    assert found() == "free"


def test_package_lock_is_released_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    with pytest.raises(RuntimeError), package_lock():
        raise RuntimeError
    with package_lock():
        pass
