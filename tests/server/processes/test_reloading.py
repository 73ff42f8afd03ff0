"""Settings and certificates that change without a restart."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from lakebed.core.errors import InvalidSetting
from lakebed.core.settings import HostPort, LoggingSettings, LogLevel, ServerSettings, Settings
from lakebed.server.processes.reloading import Reloaded, Reloading, changed_settings, published, tls_context
from tests.fixtures.server import launch_server, running_server
from tests.wire.http.certificate import Certificate, make_certificate

from ..running_processes import ask, children_of, is_alive, kill_worker, wait_until, workers_of


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"))


def settings_with(certificate: Path | None, key: Path | None) -> Settings:
    return Settings(server=ServerSettings(tls_cert=certificate, tls_key=key))


# -- certificates ----------------------------------------------------------------------------------------------------


def test_no_certificate_means_plain_http() -> None:
    assert tls_context(settings_with(None, None)) is None


def test_old_versions_of_tls_are_refused(certificate: Certificate) -> None:
    context = tls_context(settings_with(certificate.certificate, certificate.key))
    assert context is not None
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_unusable_certificate_is_named_by_its_setting(certificate: Certificate, tmp_path: Path) -> None:
    noise = tmp_path / "noise.pem"
    noise.write_text("-----BEGIN CERTIFICATE-----\nnoise\n-----END CERTIFICATE-----\n")
    other = make_certificate(tmp_path)
    for cert, key in (
        (tmp_path / "absent.pem", certificate.key),
        (certificate.certificate, tmp_path / "absent.pem"),
        (noise, certificate.key),
        (certificate.certificate, other.key),
    ):
        with pytest.raises(InvalidSetting, match=r"^server\.tls_cert: unusable certificate or key"):
            tls_context(settings_with(cert, key))


def test_key_with_a_password_is_refused_without_a_prompt(certificate: Certificate, tmp_path: Path) -> None:
    locked = tmp_path / "locked.pem"
    key = serialization.load_pem_private_key(certificate.key.read_bytes(), None)
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(InvalidSetting):
        tls_context(settings_with(certificate.certificate, locked))


# -- reloaded settings -----------------------------------------------------------------------------------------------


@pytest.fixture
def _log_level() -> Iterator[None]:
    """Restore the log level of this process."""
    root = logging.getLogger()
    before = root.level
    yield
    root.setLevel(before)


def test_changed_settings_that_require_a_restart_are_named() -> None:
    given = Settings()
    fresh = replace(
        given,
        log=LoggingSettings(level=LogLevel.DEBUG),
        server=replace(given.server, listen=HostPort("127.0.0.1", 9001), region="eu-west-1"),
    )
    assert changed_settings(given, fresh) == ["server.listen", "server.region"]
    assert changed_settings(given, given) == []


@pytest.mark.usefixtures("_log_level")
def test_log_level_reaches_running_and_future_children(tmp_path: Path) -> None:
    fresh = Settings(log=LoggingSettings(level=LogLevel.WARNING))
    reloading = Reloading(Settings(), lambda: fresh, str(tmp_path), None)
    assert published(str(tmp_path)) is None
    reloading.reload()
    assert published(str(tmp_path)) == reloading.current == Reloaded(LogLevel.WARNING)
    assert reloading.applied_to(Settings()).log.level is LogLevel.WARNING


@pytest.mark.usefixtures("_log_level")
def test_unreadable_settings_change_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def refuse() -> Settings:
        raise InvalidSetting("log.level: expected debug, info, warning or error")

    reloading = Reloading(Settings(), refuse, str(tmp_path), None)
    reloading.reload()
    assert reloading.current == Reloaded(LogLevel.INFO)
    assert "settings not reloaded" in caplog.text


@pytest.mark.usefixtures("_log_level")
def test_unusable_certificate_leaves_the_previous_one_in_force(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = make_certificate(tmp_path)
    settings = settings_with(made.certificate, made.key)
    first = tls_context(settings)
    reloading = Reloading(settings, None, str(tmp_path), first)
    made.certificate.write_text("not a certificate")
    reloading.reload()
    assert reloading.certificate is first
    assert reloading.current.certificate == 0
    assert "TLS certificate not reloaded" in caplog.text
    make_certificate(tmp_path)
    reloading.reload()
    assert reloading.certificate is not first
    assert reloading.current.certificate == 1


# -- SIGHUP, on a real server ----------------------------------------------------------------------------------------


class Secured:
    """A server with a certificate and a settings file, both of which change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = folder / "lakebed.toml"
        self.config.write_text('log.level = "info"\n')
        self.certificate = make_certificate(folder)
        self.server = launch_server(
            folder / "data",
            f"--config={self.config}",
            f"--set=server.tls_cert={self.certificate.certificate}",
            f"--set=server.tls_key={self.certificate.key}",
        )
        wait_until(lambda: self.logged("ready") > 0 or self.server.process.poll() is not None, "the server is ready")

    def logged(self, message: str) -> int:
        """How often a message was logged."""
        return self.server.log_text().count(f'"message":"{message}')

    def presented(self) -> bytes:
        """The certificate that the server presents on the next connection."""
        return ssl.get_server_certificate(("127.0.0.1", self.server.port), timeout=20).strip().encode()

    def written(self) -> bytes:
        """The certificate in its file."""
        return self.certificate.certificate.read_bytes().strip()

    def reload(self) -> None:
        os.kill(self.server.process.pid, signal.SIGHUP)

    def wait_until_presented_by_all(self, expected: bytes) -> None:
        """Connections go to the two workers in turn."""
        wait_until(lambda: {self.presented() for _ in range(4)} == {expected}, "every worker shows the certificate")


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    made = Secured(tmp_path)
    yield made
    if made.server.process.poll() is None:
        made.server.kill()


@pytest.mark.integration
@pytest.mark.slow
def test_sighup_reloads_the_certificate_and_ignores_an_unusable_one(secured: Secured) -> None:
    first = secured.written()
    secured.wait_until_presented_by_all(first)
    make_certificate(secured.folder)
    second = secured.written()
    assert second != first
    secured.reload()
    secured.wait_until_presented_by_all(second)
    assert secured.logged("TLS certificate reloaded") == 1

    secured.certificate.certificate.write_text("not a certificate")
    secured.reload()
    wait_until(lambda: secured.logged("TLS certificate not reloaded") > 0, "the error in the log")
    # A worker that starts while the file is bad uses the certificate in force.
    before = workers_of(secured.server)
    kill_worker(min(before))
    wait_until(lambda: len(workers_of(secured.server)) == 2, "a replacement")
    secured.wait_until_presented_by_all(second)


@pytest.mark.integration
@pytest.mark.slow
def test_sighup_reloads_the_log_level_of_every_process(secured: Secured) -> None:
    assert secured.logged("connection failed to open") == 0
    secured.config.write_text('log.level = "debug"\nserver.region = "eu-west-1"\n')
    secured.reload()
    wait_until(lambda: secured.logged("settings reloaded") == 1, "the settings are reloaded")
    assert '"settings":"server.region"' in secured.server.log_text()

    def debug_is_logged() -> bool:
        # Garbage in place of TLS: the receiving worker logs it at debug level.
        address = ("127.0.0.1", secured.server.port)
        with contextlib.suppress(ConnectionError), socket.create_connection(address, 20) as connection:
            connection.sendall(bytes(16))
            connection.recv(1)
        return secured.logged("connection failed to open") > 0

    wait_until(debug_is_logged, "a debug record of a worker")
    secured.config.write_text("log.level = 7\n")
    secured.reload()
    wait_until(lambda: secured.logged("settings not reloaded") == 1, "the error in the log")
    assert secured.server.process.poll() is None


@pytest.mark.integration
@pytest.mark.slow
def test_closed_terminal_ends_no_process(tmp_path: Path) -> None:
    with running_server(tmp_path / "data") as server:
        wait_until(lambda: '"ready"' in server.log_text(), "all processes are ready")
        processes = children_of(server)
        # To the whole process group, as the kernel does.
        os.killpg(server.process.pid, signal.SIGHUP)
        wait_until(lambda: "settings reloaded" in server.log_text(), "the settings are reloaded")
        assert ask(server).status == 403
        assert all(is_alive(pid) for pid in processes)
        assert server.stop() == 0
