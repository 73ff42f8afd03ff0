from __future__ import annotations

import asyncio
import secrets
import sqlite3
from collections.abc import Mapping
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lakebed.core.errors import Unavailable
from lakebed.wire.admin.app import METRICS_TYPE, AdminApplication
from lakebed.wire.http.body import RequestBody
from lakebed.wire.http.message import Request, Response
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.raw_http import Connection, RawResponse, Signer
from tests.fixtures.server import RunningServer, running_server
from tests.server.running_processes import ask, kill_worker, plain, wait_until, worker_of, workers_of

Sample = tuple[str, tuple[tuple[str, str], ...]]


async def healthy() -> None:
    return None


async def unhealthy() -> None:
    raise Unavailable("the metadata store cannot be reached")


async def respond(method: str, path: str, *, is_healthy: bool = True) -> Response:
    admin = AdminApplication({"metadata store": healthy if is_healthy else unhealthy}, lambda: b"a_total 1\n")
    return await admin(Request(method, path, "", {}, RequestBody(0), "http", "127.0.0.1", "R1"))


async def test_live_is_200_regardless_of_dependencies() -> None:
    for is_healthy in (True, False):
        response = await respond("GET", "/health/live", is_healthy=is_healthy)
        assert (response.status, response.body) == (200, b"live\n")


async def test_ready_checks_the_metadata_store() -> None:
    assert (await respond("GET", "/health/ready")).status == 200
    response = await respond("GET", "/health/ready", is_healthy=False)
    assert response.status == 503
    assert b"cannot be reached" in response.body
    assert ("Cache-Control", "no-store") in response.headers


async def test_crashing_check_is_not_ready_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def crash() -> None:
        raise RuntimeError("a bug with details")

    admin = AdminApplication({"metadata store": crash}, bytes)
    response = await admin(Request("GET", "/health/ready", "", {}, RequestBody(0), "http", "127.0.0.1", "R1"))
    assert (response.status, b"details" in response.body) == (503, False)
    assert "a bug with details" in caplog.text


async def test_ready_names_each_unavailable_dependency() -> None:
    checks = {"metadata store": healthy, "object store": unhealthy, "streams": unhealthy}
    response = await AdminApplication(checks, bytes)(
        Request("GET", "/health/ready", "", {}, RequestBody(0), "http", "127.0.0.1", "R1")
    )
    assert response.status == 503
    assert [line.split(b":")[:2] for line in response.body.splitlines()] == [
        [b"not ready", b" object store"],
        [b"not ready", b" streams"],
    ]


async def test_probes_during_a_check_share_the_next_one() -> None:
    checks = 0
    may_end = asyncio.Event()

    async def check() -> None:
        nonlocal checks
        checks += 1
        await may_end.wait()

    admin = AdminApplication({"object store": check}, bytes)
    request = Request("GET", "/health/ready", "", {}, RequestBody(0), "http", "127.0.0.1", "R1")
    first = asyncio.create_task(admin(request))
    while not checks:
        await asyncio.sleep(0)
    others = [asyncio.create_task(admin(request)) for _ in range(100)]
    await asyncio.sleep(0)
    may_end.set()
    assert {(await each).status for each in (first, *others)} == {200}
    assert checks == 2


async def test_metrics_have_the_content_type_of_prometheus() -> None:
    response = await respond("GET", "/metrics")
    assert (response.status, response.body, response.headers) == (200, b"a_total 1\n", [("Content-Type", METRICS_TYPE)])


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/metrics"])
async def test_write_methods_are_not_allowed(path: str) -> None:
    for method in ("PUT", "POST", "DELETE"):
        assert (await respond(method, path)).status == 405


async def test_unknown_path_is_not_found() -> None:
    assert (await respond("GET", "/health/other")).status == 404


# -- on a real server ------------------------------------------------------------------------------------------------


def samples(response: RawResponse) -> Mapping[Sample, float]:
    """The samples of a scrape, by name and labels."""
    assert (response.status, response.headers["content-type"]) == (200, METRICS_TYPE)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(response.body.decode())
        for sample in family.samples
    }


def scrape(server: RunningServer) -> Mapping[Sample, float]:
    return samples(ask(server, plain("GET", "/metrics")))


def requests_of(found: Mapping[Sample, float], operation: str, status: str) -> float:
    return found.get(("lakebed_s3_requests_total", (("operation", operation), ("status", status))), 0.0)


@pytest.mark.integration
@pytest.mark.slow
def test_health_needs_no_authentication(lakebed_server: RunningServer) -> None:
    with Connection(lakebed_server.port) as connection:
        for path, body in (("/health/live", b"live\n"), ("/health/ready", b"ready\n")):
            response = connection.exchange(plain("GET", path))
            assert (response.status, response.body) == (200, body)
            assert connection.exchange(plain("HEAD", path), is_head=True).headers["content-length"] == str(len(body))
        assert connection.exchange(plain("POST", "/health/live")).status == 405


@pytest.mark.integration
@pytest.mark.slow
def test_every_worker_reports_the_metrics_of_all_workers(tmp_path: Path) -> None:
    with running_server(tmp_path / "data") as server:
        signer = Signer(f"127.0.0.1:{server.port}")
        # The server is ready as soon as one worker is.
        wait_until(lambda: len({worker_of(ask(server)) for _ in range(4)}) == 2, "two workers respond")
        with Connection(server.port) as one, Connection(server.port) as other:
            workers = {worker_of(connection.exchange(plain("GET"))) for connection in (one, other)}
            assert len(workers) == 2
            assert one.exchange(signer.request("PUT", "/bucket")).status == 200
            for connection, count in ((one, 3), (other, 5)):
                for number in range(count):
                    target = f"/bucket/{count}-{number}"
                    assert connection.exchange(signer.request("PUT", target, body=b"x" * 1000)).status == 200
                    assert len(connection.exchange(signer.request("GET", target)).body) == 1000
            scrapes = [samples(connection.exchange(plain("GET", "/metrics"))) for connection in (one, other)]
        for found in scrapes:
            assert requests_of(found, "PutObject", "200") == 8
            assert requests_of(found, "GetObject", "200") == 8
            assert found["lakebed_s3_request_duration_seconds_count", (("operation", "PutObject"),)] == 8
            assert found["lakebed_s3_received_bytes_total", (("operation", "PutObject"),)] == 8000
            assert found["lakebed_s3_sent_bytes_total", (("operation", "GetObject"),)] == 8000
            assert found["lakebed_connections", ()] == 2


@pytest.mark.integration
@pytest.mark.slow
def test_counters_never_decrease_when_a_worker_is_replaced(tmp_path: Path) -> None:
    with running_server(tmp_path / "data") as server:
        for _ in range(20):
            ask(server)
        before = scrape(server)
        with Connection(server.port) as one, Connection(server.port) as other:
            for connection in (one, other):
                connection.exchange(plain("GET"))
            for victim in workers_of(server):
                kill_worker(victim)
                during = scrape(server)
                wait_until(lambda: len({worker_of(ask(server)) for _ in range(4)}) == 2, "two workers respond")
                after = scrape(server)
                assert decreased(before, during) == decreased(during, after) == []
                before = after
        # Connections of killed workers are not counted any more.
        wait_until(lambda: scrape(server)["lakebed_connections", ()] == 1, "only live connections are counted")


def decreased(earlier: Mapping[Sample, float], later: Mapping[Sample, float]) -> list[Sample]:
    """The counters that are lower than before."""
    counters = [name for name in earlier if name[0].endswith(("_total", "_count", "_sum", "_bucket"))]
    assert counters
    return [name for name in counters if later.get(name, -1.0) < earlier[name]]


@pytest.mark.integration
@pytest.mark.slow
def test_server_without_its_metadata_store_is_live_and_not_ready(tmp_path: Path) -> None:
    with running_server(tmp_path / "data") as server:
        damaging = sqlite3.connect(server.data / "meta.db")
        damaging.execute("DROP TABLE schema_versions")
        damaging.commit()
        damaging.close()
        response = ask(server, plain("GET", "/health/ready"))
        assert response.status == 503
        assert response.body.startswith(b"not ready: ")
        assert ask(server, plain("GET", "/health/live")).status == 200


@pytest.mark.integration
@pytest.mark.slow
def test_server_is_not_ready_while_postgres_is_down(tmp_path: Path, postgres_server: PostgresServer) -> None:
    name = f"cut_{secrets.token_hex(6)}"
    postgres_server.execute(f"CREATE DATABASE {name}")
    url = postgres_server.dsn().replace("@/postgres?", f"@/{name}?")
    with running_server(tmp_path / "data", LAKEBED_META__URL=url) as server:
        assert ask(server, plain("GET", "/health/ready")).status == 200
        postgres_server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        postgres_server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        for _ in range(4):
            response = ask(server, plain("GET", "/health/ready"))
            assert (response.status, response.body[:11]) == (503, b"not ready: ")
            assert ask(server, plain("GET", "/health/live")).status == 200
        postgres_server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        wait_until(lambda: ask(server, plain("GET", "/health/ready")).status == 200, "the server is ready again")
