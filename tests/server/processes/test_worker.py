from __future__ import annotations

import socket
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import boto3
import pytest
from botocore.config import Config

from tests.fixtures.ports import free_port
from tests.fixtures.server import RunningServer, launch_server
from tests.wire.http.certificate import Certificate, make_certificate

from ..running_processes import wait_until

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"))


# -- TLS, on a real server -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secure_server(certificate: Certificate, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    flags = (
        f"--set=server.tls_cert={certificate.certificate}",
        f"--set=server.tls_key={certificate.key}",
    )
    server = launch_server(tmp_path_factory.mktemp("secure") / "data", *flags)
    try:
        wait_until(lambda: '"ready"' in server.log_text() or server.process.poll() is not None, "the server is ready")
        assert f"https://127.0.0.1:{server.port}" in server.log_text()
        yield server
    finally:
        server.kill()


@pytest.mark.integration
@pytest.mark.slow
def test_a_server_with_a_certificate_serves_large_bodies(
    secure_server: RunningServer, certificate: Certificate
) -> None:
    body = b"".join(b"%07d\n" % number for number in range(16 * MIB // 8))
    client = boto3.client(
        "s3",
        endpoint_url=f"https://127.0.0.1:{secure_server.port}",
        region_name="us-east-1",
        aws_access_key_id=secure_server.access_key,
        aws_secret_access_key=secure_server.secret_key,
        verify=str(certificate.certificate),
        config=Config(s3={"addressing_style": "path"}),
    )
    with closing(client):
        client.create_bucket(Bucket="secure")
        client.put_object(Bucket="secure", Key="large", Body=body)
        assert client.get_object(Bucket="secure", Key="large")["Body"].read() == body
        assert (
            client.get_object(Bucket="secure", Key="large", Range="bytes=1000-8388607")["Body"].read()
            == (body[1000:8388608])
        )


@pytest.mark.integration
@pytest.mark.slow
def test_health_is_served_over_tls_and_plain_http_is_refused(
    secure_server: RunningServer, certificate: Certificate
) -> None:
    context = ssl.create_default_context(cafile=str(certificate.certificate))
    url = f"https://127.0.0.1:{secure_server.port}/health/ready"
    with urllib.request.urlopen(url, context=context) as answer:
        assert answer.status == 200
    with socket.create_connection(("127.0.0.1", secure_server.port), 20) as plain:
        plain.sendall(b"GET /health/ready HTTP/1.1\r\nHost: h\r\n\r\n")
        with plain.makefile("rb") as response:
            assert response.readline() == b"HTTP/1.1 400 Bad Request\r\n"
            assert b"https://" in response.read(), "the response names the scheme, and the connection is closed"


@pytest.mark.integration
@pytest.mark.slow
def test_unusable_certificate_prevents_the_start(tmp_path: Path) -> None:
    flags = (f"--set=server.tls_cert={tmp_path}/absent.pem", f"--set=server.tls_key={tmp_path}/absent.pem")
    server = launch_server(tmp_path / "data", *flags, port=free_port())
    assert server.process.wait(timeout=60) == 2
    (line,) = server.log_text().splitlines()
    assert line.startswith("lakebed: server.tls_")
