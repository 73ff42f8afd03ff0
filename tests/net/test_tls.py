from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest

from lakebed.core.errors import InvalidInput, Unavailable
from lakebed.net.tls import TlsFiles, TlsFileState, TlsFileWatch
from tests.fixtures.brokers.authority import Authority, Certificates


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "certificates")


def test_usable_files_are_accepted(certificates: Certificates) -> None:
    for files in (TlsFiles(), certificates.trusting, certificates.mutual):
        files.validate()
        context = files.context()
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_relative_paths_are_rejected() -> None:
    with pytest.raises(InvalidInput) as refused:
        TlsFiles(ca="ca.pem").validate()
    assert refused.value.argument == "tls_ca"


def test_certificate_requires_its_key(certificates: Certificates) -> None:
    with pytest.raises(InvalidInput) as refused:
        TlsFiles(cert=str(certificates.client.certificate)).validate()
    assert refused.value.argument == "tls_client_key"


def test_key_of_another_certificate_is_rejected(certificates: Certificates) -> None:
    files = TlsFiles(cert=str(certificates.client.certificate), key=str(certificates.server.key))
    with pytest.raises(InvalidInput):
        files.validate()
    with pytest.raises(Unavailable, match="unusable TLS files"):
        files.context()


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="nowhere"):
        TlsFiles(ca=str(tmp_path / "nowhere.pem")).validate()


def test_encrypted_key_fails_without_a_prompt(tmp_path: Path, certificates: Certificates) -> None:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(certificates.client.key.read_bytes(), None)
    sealed = tmp_path / "sealed.key"
    sealed.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"a password"),
        )
    )
    with pytest.raises(Unavailable):
        TlsFiles(cert=str(certificates.client.certificate), key=str(sealed)).context()


def test_unwritten_files_are_unchanged(certificates: Certificates) -> None:
    watch = TlsFileWatch(certificates.mutual)
    watch.remember()
    assert watch.check() is TlsFileState.UNTOUCHED


def test_rewritten_files_with_equal_contents_are_unchanged(certificates: Certificates) -> None:
    watch, path = TlsFileWatch(certificates.mutual), certificates.client.key
    watch.remember()
    path.write_bytes(path.read_bytes())
    os.utime(path, ns=(1, 1))
    assert watch.check() is TlsFileState.SAME
    assert watch.check() is TlsFileState.UNTOUCHED


def test_changed_contents_are_reported_once(certificates: Certificates) -> None:
    watch, path = TlsFileWatch(certificates.mutual), certificates.client.key
    watch.remember()
    kept = path.read_bytes()
    path.write_bytes(b"something else")
    assert watch.check() is TlsFileState.CHANGED
    assert watch.check() is TlsFileState.UNTOUCHED
    path.write_bytes(kept)
    assert watch.check() is TlsFileState.SAME


def test_removed_file_is_a_change(certificates: Certificates) -> None:
    watch = TlsFileWatch(certificates.mutual)
    watch.remember()
    certificates.client.key.unlink()
    assert watch.check() is TlsFileState.CHANGED


def test_authorities_of_the_same_name_issue_different_certificates(tmp_path: Path) -> None:
    one, other = Authority(tmp_path / "one", "name"), Authority(tmp_path / "other", "name")
    assert one.issue("client").certificate.read_bytes() != other.issue("client").certificate.read_bytes()
