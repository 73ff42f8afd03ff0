"""A Lakebed server with TLS and a self-signed certificate that clients trust."""

from __future__ import annotations

import ipaddress
import os
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.fixtures.ports import free_port
from tests.fixtures.server import ROOT_ACCESS_KEY, ROOT_SECRET_KEY, RunningServer

START_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Certificate:
    """A self-signed certificate for 127.0.0.1, which is also its trust anchor, and its key."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class TlsServer:
    """A running server, and the certificate that its clients trust."""

    server: RunningServer
    trust: Path


def make_certificate(folder: Path) -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lakebed tests")])
    now = datetime.now(UTC)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    signed = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(key, hashes.SHA256())
    )
    made = Certificate(folder / "certificate.pem", folder / "key.pem")
    made.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    made.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return made


@contextmanager
def running_tls_server(data: Path, certificate: Certificate, *, catalog_port: int = 0) -> Iterator[RunningServer]:
    """Run a server; with a `catalog_port`, it has a separate catalog listener."""
    data.mkdir(parents=True)
    port, log = free_port(), data.parent / f"{data.name}.log"
    command = [sys.executable, "-m", "lakebed", "serve", "--data", str(data), "--listen", f"127.0.0.1:{port}"]
    settings = {"server.tls_cert": certificate.certificate, "server.tls_key": certificate.key, "server.workers": 1}
    for path, value in settings.items():
        command += ["--set", f"{path}={value}"]
    catalog = ""
    if catalog_port:
        command += ["--catalog-listen", f"127.0.0.1:{catalog_port}"]
        catalog = f"https://127.0.0.1:{catalog_port}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LAKEBED_")}
    environment = {**kept, "LAKEBED_ROOT_ACCESS_KEY": ROOT_ACCESS_KEY, "LAKEBED_ROOT_SECRET_KEY": ROOT_SECRET_KEY}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True)
    endpoint = f"https://127.0.0.1:{port}"
    server = RunningServer(endpoint, ROOT_ACCESS_KEY, ROOT_SECRET_KEY, data, process, log, catalog_endpoint=catalog)
    try:
        _wait_until_ready(server, ssl.create_default_context(cafile=str(certificate.certificate)))
        yield server
    finally:
        if process.poll() is None:
            server.kill()


def _wait_until_ready(server: RunningServer, trust: ssl.SSLContext) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.process.poll() is None:
        try:
            with urllib.request.urlopen(f"{server.catalog_endpoint}/health/ready", timeout=2, context=trust):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.05)
    raise RuntimeError(f"the server was not ready in time:\n{server.log_text()}")
