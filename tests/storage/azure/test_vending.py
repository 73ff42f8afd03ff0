"""Vended SAS on Azurite: what they permit and what they deny."""

from __future__ import annotations

import ipaddress
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from azure.core.credentials import AccessToken
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from lakebed.core.clock import ManualClock, SystemClock
from lakebed.core.errors import AccessDenied, LakebedError, NotSupported, Unauthenticated
from lakebed.core.secrets import Secret
from lakebed.storage.azure import AzureOptions, AzureStorage, SasScope, connect_azure, vend_sas
from lakebed.storage.cloud import ScopedToken
from lakebed.storage.seam import Key
from tests.fixtures.azurite import AzuriteServer, running_azurite

pytestmark = pytest.mark.integration

KEY = Key("t1/metadata.json")


@pytest.fixture
def options(azurite: AzuriteServer) -> AzureOptions:
    """A new container."""
    return AzureOptions(
        azurite.account,
        azurite.make_container(),
        endpoint=azurite.endpoint,
        allow_http=True,
        account_key=Secret(azurite.account_key),
    )


@asynccontextmanager
async def opened(options: AzureOptions) -> AsyncIterator[AzureStorage]:
    storage = await connect_azure(options)
    try:
        yield storage
    finally:
        await storage.close()


def with_sas(options: AzureOptions, vended: ScopedToken) -> AzureOptions:
    return replace(options, account_key=None, sas_token=vended.token)


def scope(options: AzureOptions, *, write: bool) -> SasScope:
    return SasScope(options.container, "t1/", hierarchical=False, write=write)


async def check_reader(engine: AzureStorage) -> None:
    """Reads and listings succeed; every write fails and changes nothing."""
    assert await engine.get(KEY) == b"body"
    assert [head.key async for head in engine.list_prefix("t1/")] == [KEY]
    etag = (await engine.head(KEY)).etag
    with pytest.raises(AccessDenied):
        await engine.put(KEY, b"changed")
    with pytest.raises(AccessDenied):
        await engine.put_if_absent(Key("t1/new"), b"new")
    with pytest.raises(AccessDenied):
        await engine.put_if_match(KEY, b"changed", etag)
    with pytest.raises(AccessDenied):
        await (await engine.start_multipart(Key("t1/new"))).upload_part(1, b"part")
    with pytest.raises(AccessDenied):
        await engine.delete(KEY)
    assert (await engine.head(KEY)).etag == etag


async def check_writer(engine: AzureStorage) -> None:
    """Reads, listings, writes and deletions succeed."""
    created = await engine.put_if_absent(Key("t1/new"), b"new")
    await engine.put_if_match(Key("t1/new"), b"newer", created.etag)
    upload = await engine.start_multipart(Key("t1/parts"))
    await upload.complete([await upload.upload_part(1, b"part")])
    assert [head.key async for head in engine.list_prefix("t1/")] == [KEY, "t1/new", "t1/parts"]
    assert await engine.get(Key("t1/new")) == b"newer"
    await engine.delete_many([Key("t1/new"), Key("t1/parts")])
    assert [head.key async for head in engine.list_prefix("t1/")] == [KEY]


async def test_read_sas_reads_and_lists_and_changes_nothing(options: AzureOptions) -> None:
    async with opened(options) as owner:
        await owner.put(KEY, b"body")
    vended = await vend_sas(options, scope(options, write=False), 3600, SystemClock())
    async with opened(with_sas(options, vended)) as engine:
        await check_reader(engine)


async def test_write_sas_writes_and_deletes(options: AzureOptions) -> None:
    async with opened(options) as owner:
        await owner.put(KEY, b"body")
    vended = await vend_sas(options, scope(options, write=True), 3600, SystemClock())
    async with opened(with_sas(options, vended)) as engine:
        await check_writer(engine)


async def test_sas_opens_no_other_container(options: AzureOptions, azurite: AzuriteServer) -> None:
    other = replace(options, container=azurite.make_container())
    async with opened(other) as owner:
        await owner.put(KEY, b"body")
    vended = await vend_sas(options, scope(options, write=True), 3600, SystemClock())
    async with opened(with_sas(other, vended)) as engine:
        with pytest.raises((AccessDenied, Unauthenticated)):
            await engine.get(KEY)
        with pytest.raises((AccessDenied, Unauthenticated)):
            await engine.put(KEY, b"changed")


async def test_expired_sas_is_rejected_and_not_quoted(options: AzureOptions) -> None:
    async with opened(options) as owner:
        await owner.put(KEY, b"body")
    yesterday = ManualClock(SystemClock().now_ms() - 86_400_000)
    vended = await vend_sas(options, scope(options, write=False), 3600, yesterday)
    assert vended.expires_ms < SystemClock().now_ms()
    async with opened(with_sas(options, vended)) as engine:
        with pytest.raises(LakebedError) as caught:
            await engine.get(KEY)
    assert isinstance(caught.value, AccessDenied | Unauthenticated)
    assert vended.token.reveal() not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_server_with_only_a_sas_vends_none(options: AzureOptions) -> None:
    limited = replace(options, account_key=None, sas_token=Secret("sv=1&sig=x"))
    with pytest.raises(NotSupported):
        await vend_sas(limited, scope(options, write=False), 3600, SystemClock())


@dataclass(frozen=True, slots=True)
class EntraIdentity:
    """An identity with tokens that Azurite accepts: it checks their claims, not their signature."""

    def get_token(self, *scopes: str, **_: Any) -> AccessToken:  # Any: the library's keywords
        now = int(time.time())
        claims = {
            "aud": "https://storage.azure.com",
            "iss": "https://sts.windows.net/ab1f708d-50f6-404c-a006-d71b2ac7a606/",
            "iat": now - 60,
            "nbf": now - 60,
            "exp": now + 3600,
            "oid": str(uuid.uuid4()),
            "tid": str(uuid.uuid4()),
        }
        return AccessToken(jwt.encode(claims, "k" * 32, algorithm="HS256"), now + 3600)


@pytest.fixture
def secure_azurite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AzuriteServer]:
    """A server with TLS and OAuth, which user delegation keys require."""
    certificate, key = write_certificate(tmp_path)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    options = ["--cert", str(certificate), "--key", str(key), "--oauth", "basic"]
    with running_azurite(tmp_path, options, scheme="https") as server:
        yield server


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1, and its key."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "azurite")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(private, hashes.SHA256())
    )
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return certificate, key


@pytest.mark.slow
async def test_user_delegation_sas_permits_what_its_scope_says(secure_azurite: AzuriteServer) -> None:
    server = secure_azurite
    options = AzureOptions(server.account, server.make_container(), endpoint=server.endpoint)
    async with opened(replace(options, account_key=Secret(server.account_key))) as owner:
        await owner.put(KEY, b"body")
    identity = EntraIdentity()
    read = await vend_sas(options, scope(options, write=False), 3600, SystemClock(), credential=identity)
    assert "skoid=" in read.token.reveal()
    async with opened(with_sas(options, read)) as engine:
        await check_reader(engine)
    write = await vend_sas(options, scope(options, write=True), 3600, SystemClock(), credential=identity)
    async with opened(with_sas(options, write)) as engine:
        await check_writer(engine)
