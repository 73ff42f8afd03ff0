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
def test_a_worker_reads_the_settings_that_its_server_has(pipeline: PipelineSettings) -> None:
    file = SettingsFile("worker.toml", pipeline_file(pipeline))
    read = load_settings(file=file, environ={}).settings.pipeline
    assert read == pipeline
    assert {name: value.reveal() for name, value in read.spark.items()} == {
        name: value.reveal() for name, value in pipeline.spark.items()
    }


async def test_a_server_that_is_told_not_to_looks_for_no_work() -> None:
    settings = Settings(pipeline=PipelineSettings(embedded_worker=EmbeddedWorker.OFF))
    nothing = cast("Any", None)  # Any: not looked at, and it would fail if it were
    await WorkerStarter(settings, cast("Identity", None), nothing, nothing).run()


def test_a_worker_is_told_where_the_server_and_its_streams_are_and_takes_nothing_of_it_for_a_setting() -> None:
    settings = Settings(
        server=ServerSettings(listen=HostPort("0.0.0.0", 9001)), streams=StreamsSettings(listen=HostPort("", 9124))
    )
    identity = Identity("ROOT", Secret("secret"), "", {})
    nothing = cast("Any", None)  # Any: not looked at
    starter = WorkerStarter(settings, identity, nothing, nothing)
    told = starter._environment({"PATH": "/bin", "LAKEBED_SERVER__WORKERS": "7", "AWS_PROFILE": "mine"})
    assert told == {
        "PATH": "/bin",
        "LAKEBED_ENDPOINT": "http://127.0.0.1:9001",
        "LAKEBED_STREAMS": "127.0.0.1:9124",
        "LAKEBED_ACCESS_KEY": "ROOT",
        "LAKEBED_SECRET_KEY": "secret",
        "LAKEBED_REGION": "us-east-1",
    }
    assert load_settings(environ=told) == load_settings(environ={})


def test_a_worker_of_a_server_with_two_listeners_is_given_both_addresses() -> None:
    server = ServerSettings(listen=HostPort("127.0.0.1", 9000), catalog_listen=HostPort("0.0.0.0", 9001))
    nothing = cast("Any", None)  # Any: not looked at
    identity = Identity("ROOT", Secret("secret"), "", {})
    told = WorkerStarter(Settings(server=server), identity, nothing, nothing)._environment({})
    assert told["LAKEBED_ENDPOINT"] == "http://127.0.0.1:9001"
    assert told["LAKEBED_S3_ENDPOINT"] == "http://127.0.0.1:9000"
    assert load_settings(environ=told) == load_settings(environ={})
