"""The AWS SDK for Java on a running server: its decoder limits messages to 128 KiB and requires an End event."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.fixtures.compatibility_kit import find_or_install_compiler
from tests.fixtures.maven import fetched_jars
from tests.fixtures.server import RunningServer

from .conftest import SelectClient

pytestmark = [pytest.mark.integration, pytest.mark.heavy]

VERSION: Final = "1.12.770"
_SOURCES: Final = Path(__file__).parent / "java"

Run = Callable[[str, str], "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def run(select_client: SelectClient, lakebed_server: RunningServer, tmp_path: Path) -> Run:
    """Run a select on an object of the bucket."""
    jars = fetched_jars(
        f"aws-java-sdk-s3-{VERSION}", "the AWS SDK for Java", _SOURCES / "pom.xml", f"-Dsdk.version={VERSION}"
    )
    java, class_path = find_or_install_compiler(), f"{tmp_path}:{jars}/*"
    javac = [str(java / "bin" / "javac"), "-d", str(tmp_path), "-cp", class_path, str(_SOURCES / "Select.java")]
    subprocess.run(javac, check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "JAVA_", "JDK_"))}
    environment |= {
        "AWS_ACCESS_KEY_ID": lakebed_server.access_key,
        "AWS_SECRET_ACCESS_KEY": lakebed_server.secret_key,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_JAVA_V1_DISABLE_DEPRECATION_ANNOUNCEMENT": "true",
    }

    def select(key: str, sql: str) -> subprocess.CompletedProcess[bytes]:
        words = ["-cp", class_path, "Select", lakebed_server.endpoint, select_client.bucket, key, sql]
        options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        return subprocess.run(
            [java / "bin" / "java", *options, *words], env=environment, capture_output=True, timeout=300, check=False
        )

    return select


def test_decoder_accepts_every_message_and_the_end_event(select_client: SelectClient, run: Run) -> None:
    body = b"".join(b"%06d,%s\n" % (number, b"y" * 90) for number in range(40_000))
    select_client.put("big.csv", body)
    done = run("big.csv", "SELECT * FROM S3Object")
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == body
    assert b"ended" in done.stderr
    assert b"scanned %d" % len(body) in done.stderr


def test_failure_after_the_first_byte_is_an_sdk_error(select_client: SelectClient, run: Run) -> None:
    select_client.put("late.csv", b"".join(b"%d\n" % number for number in range(300_000)) + b"oops\n")
    done = run("late.csv", "SELECT CAST(s._1 AS INT) FROM S3Object s")
    assert done.returncode != 0
    assert b"CastFailed" in done.stderr
