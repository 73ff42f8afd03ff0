from __future__ import annotations

from typing import Any, cast

import pytest

from lakebed.core.secrets import Secret
from lakebed.core.settings import (
    EmbeddedWorker,
    HostPort,
    PipelineDelegation,
    PipelineSettings,
    ServerSettings,
    Settings,
    SettingsFile,
    StreamsSettings,
    load_settings,
)
from lakebed.server.processes.embedded_worker import WorkerStarter, pipeline_file
from lakebed.server.stores.identity import Identity


@pytest.mark.parametrize(
    "pipeline",
    [
        PipelineSettings(),
        PipelineSettings(
            master="spark://m:7077",
            lease=7.5,
            delegation=PipelineDelegation.SIGNED,
            driver_memory=512 * 1024 * 1024,
            spark={"spark.executor.memory": Secret("8g"), "spark.sql.catalog.o.password": Secret('a "quoted" \\ one')},
        ),
    ],
)
def test_worker_reads_the_pipeline_settings_of_its_server(pipeline: PipelineSettings) -> None:
    file = SettingsFile("worker.toml", pipeline_file(pipeline))
    read = load_settings(file=file, environ={}).settings.pipeline
    assert read == pipeline
    assert {name: value.reveal() for name, value in read.spark.items()} == {
        name: value.reveal() for name, value in pipeline.spark.items()
    }


async def test_disabled_embedded_worker_polls_no_tasks() -> None:
    settings = Settings(pipeline=PipelineSettings(embedded_worker=EmbeddedWorker.OFF))
    unused = cast("Any", None)  # Any: unused; any use would fail
    await WorkerStarter(settings, cast("Identity", None), unused, unused).run()


def test_worker_environment_has_the_addresses_and_no_variable_that_is_a_setting() -> None:
    settings = Settings(
        server=ServerSettings(listen=HostPort("0.0.0.0", 9001)), streams=StreamsSettings(listen=HostPort("", 9124))
    )
    identity = Identity("ROOT", Secret("secret"), "", {})
    unused = cast("Any", None)  # Any: unused
    starter = WorkerStarter(settings, identity, unused, unused)
    environment = starter._environment({"PATH": "/bin", "LAKEBED_SERVER__WORKERS": "7", "AWS_PROFILE": "mine"})
    assert environment == {
        "PATH": "/bin",
        "LAKEBED_ENDPOINT": "http://127.0.0.1:9001",
        "LAKEBED_STREAMS": "127.0.0.1:9124",
        "LAKEBED_ACCESS_KEY": "ROOT",
        "LAKEBED_SECRET_KEY": "secret",
        "LAKEBED_REGION": "us-east-1",
    }
    assert load_settings(environ=environment) == load_settings(environ={})


def test_worker_of_a_server_with_two_listeners_gets_both_addresses() -> None:
    server = ServerSettings(listen=HostPort("127.0.0.1", 9000), catalog_listen=HostPort("0.0.0.0", 9001))
    unused = cast("Any", None)  # Any: unused
    identity = Identity("ROOT", Secret("secret"), "", {})
    environment = WorkerStarter(Settings(server=server), identity, unused, unused)._environment({})
    assert environment["LAKEBED_ENDPOINT"] == "http://127.0.0.1:9001"
    assert environment["LAKEBED_S3_ENDPOINT"] == "http://127.0.0.1:9000"
    assert load_settings(environ=environment) == load_settings(environ={})
