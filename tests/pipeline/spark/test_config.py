from __future__ import annotations

import shlex
from typing import Any

import pytest

from lakebed.client.access import ServerAccess
from lakebed.core.errors import InvalidSetting
from lakebed.core.secrets import Secret
from lakebed.core.settings import PipelineDelegation, PipelineSettings
from lakebed.pipeline.spark.config import (
    ConfigFormat,
    catalog_properties,
    connect_address,
    is_connect,
    is_local,
    render_config,
    running_properties,
    session_properties,
    signing_properties,
)
from lakebed.pipeline.spark.versions import EXTENSIONS, PACKAGES

SECRET = "not-to-be-printed"
ACCESS = ServerAccess("http://127.0.0.1:9000", "AKEXAMPLE", Secret(SECRET), region="eu-central-1")
SESSION = ServerAccess("http://127.0.0.1:9000", "AKEXAMPLE", Secret(SECRET), Secret("a-token"))


def test_remote_signing_configuration_has_no_storage_credentials() -> None:
    properties = catalog_properties(ACCESS, "wh", PipelineSettings())
    assert properties["uri"] == "http://127.0.0.1:9000/iceberg"
    assert properties["warehouse"] == "wh"
    assert properties["rest.sigv4-enabled"] == "true"
    assert properties["rest.signing-region"] == "eu-central-1"
    assert properties["header.X-Iceberg-Access-Delegation"] == "vended-credentials"
    assert not any("key" in name or "secret" in name or "credential" in name for name in properties)
    signed = catalog_properties(ACCESS, "wh", PipelineSettings(delegation=PipelineDelegation.SIGNED))
    assert signed["header.X-Iceberg-Access-Delegation"] == "remote-signing"


def test_credentials_are_only_for_catalog_requests() -> None:
    assert signing_properties(SESSION) == {
        "rest.access-key-id": "AKEXAMPLE",
        "rest.secret-access-key": SECRET,
        "rest.session-token": "a-token",
    }


def test_session_properties_have_no_secrets() -> None:
    spark = {"spark.executor.memory": Secret("8g"), "spark.sql.catalog.old.password": Secret("hush")}
    settings = PipelineSettings(master="spark://somewhere:7077", spark=spark)
    started = session_properties(settings)
    assert started["spark.executor.memory"] == "8g"
    assert started["spark.driver.memory"] == "2048m"
    assert "spark.sql.shuffle.partitions" not in started
    assert "hush" not in started.values()
    assert running_properties(settings) == {"spark.sql.catalog.old.password": "hush"}


def test_local_session_is_small_and_binds_loopback() -> None:
    started = session_properties(PipelineSettings())
    assert started["spark.driver.bindAddress"] == "127.0.0.1"
    assert int(started["spark.sql.shuffle.partitions"]) <= 16
    assert started["spark.ui.enabled"] == "false"


def test_python_tasks_import_modules_from_the_configured_path_only() -> None:
    assert session_properties(PipelineSettings())["spark.submit.pyFiles"] == ""
    given = PipelineSettings(spark={"spark.submit.pyFiles": Secret("/opt/mine.zip")})
    assert session_properties(given)["spark.submit.pyFiles"] == "/opt/mine.zip"


def test_kinds_of_masters_are_distinguished() -> None:
    assert [is_local(master) for master in ("local", "local[*]", "spark://h", "sc://h", "yarn")] == [
        True,
        True,
        *[False] * 3,
    ]
    assert connect_address("sc://h:15003/;token=a:b") == ("h", 15003)
    assert connect_address("sc://h") == ("h", 15002)
    for wrong in ("sc://", "sc://h:port"):
        with pytest.raises(InvalidSetting, match=r"pipeline\.master: expected sc://HOST:PORT"):
            connect_address(wrong)
    assert [is_connect(master) for master in ("sc://h:15002", "spark://h", "local[2]")] == [True, False, False]


@pytest.mark.parametrize("form", list(ConfigFormat))
@pytest.mark.parametrize("access", [ACCESS, SESSION], ids=["lasting", "session"])
def test_secrets_are_printed_only_on_request(form: ConfigFormat, access: ServerAccess) -> None:
    text = render_config(access, "wh", PipelineSettings(), form)
    assert SECRET not in text
    assert "a-token" not in text
    assert "AWS_SECRET_ACCESS_KEY" in text
    assert ("AWS_SESSION_TOKEN" in text) == (access is SESSION)
    shown = render_config(access, "wh", PipelineSettings(), form, show_secrets=True)
    assert "AWS_SECRET_ACCESS_KEY" not in shown
    assert read_back(form, shown)["spark.sql.catalog.lakebed.rest.secret-access-key"] == SECRET


@pytest.mark.parametrize("form", list(ConfigFormat))
def test_printed_configuration_is_what_spark_reads(form: ConfigFormat) -> None:
    found = read_back(form, render_config(ACCESS, "wh", PipelineSettings(), form))
    assert found["spark.sql.catalog.lakebed"] == "org.apache.iceberg.spark.SparkCatalog"
    assert found["spark.jars.packages"] == ",".join(PACKAGES)
    assert found["spark.sql.extensions"] == EXTENSIONS
    catalog = catalog_properties(ACCESS, "wh", PipelineSettings())
    assert {name: found[f"spark.sql.catalog.lakebed.{name}"] for name in catalog} == catalog


def read_back(form: ConfigFormat, text: str) -> dict[str, str]:
    """The configuration as read by a shell, Spark or Python."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    if form is ConfigFormat.PROPERTIES:
        return dict(line.split(maxsplit=1) for line in lines)
    if form is ConfigFormat.SUBMIT:
        flag, packages, *words = shlex.split("\n".join(lines).replace("\\\n", ""))
        assert flag == "--packages"
        assert words[::2] == ["--conf"] * (len(words) // 2)
        return {"spark.jars.packages": packages, **dict(word.split("=", 1) for word in words[1::2])}
    builder = Builder()
    code = text.replace("from pyspark.sql import SparkSession", "")
    host_environment = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "t"}
    code = code.replace("import os", "")
    exec(code, {"SparkSession": builder, "os": type("os", (), {"environ": host_environment})})
    return builder.properties


class Builder:
    """The API that the printed Python calls."""

    def __init__(self) -> None:
        self.properties: dict[str, str] = {}

    @property
    def builder(self) -> Builder:
        return self

    @property
    def conf(self) -> Any:  # Any: anything with a `set`
        return type("Conf", (), {"set": lambda _, name, value: self.properties.update({name: value})})()

    def config(self, name: str, value: str) -> Builder:
        self.properties[name] = value
        return self

    def getOrCreate(self) -> Builder:  # PySpark's name
        return self
