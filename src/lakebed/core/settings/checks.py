"""Validates settings against each other and against formats that their types do not express."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

from ..delegation import AccessDelegation
from ..errors import InvalidInput, InvalidSetting
from ..operations import Operation, parse_operations
from ..secrets import Secret
from ..webhooks import check_secret
from .decisions import DecisionsSettings
from .external_storage import ExternalStorageSettings
from .identities import OidcProvider, OidcSettings, TokenMode, TokensSettings
from .listeners import ListenersSettings, TargetsSettings
from .streams import StreamsSettings
from .tree import (
    EmbeddedWorker,
    EncryptionSettings,
    MetaSettings,
    PipelineDelegation,
    PipelineSettings,
    RootSettings,
    S3StorageSettings,
    ServerSettings,
    Settings,
    StorageKind,
    StorageSettings,
    StsSettings,
    TablesSettings,
)

MASTER_KEY_BYTES: Final = 32

_NO_S3: Final = S3StorageSettings()
_ACCESS_KEY: Final = re.compile(r"[A-Za-z0-9_.-]{3,128}")
_SECRET_KEY: Final = re.compile(r"[!-~]{8,128}")
_TEMPORARY_KEY_PREFIX: Final = "LKBT"
_KEY_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DOMAIN: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_MASTER: Final = re.compile(r"local(\[[^\]\s]+\])?|yarn|(spark|k8s|sc)://\S+")
_REGION: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_ISSUER: Final = re.compile(r"[!-~]{1,255}")
_HOST: Final = re.compile(r"\*|(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?|\[[0-9a-f:.]+\](:\d{1,5})?")
_VISIBLE: Final = re.compile(r"[!-~]+")
_ROLE: Final = re.compile(r"arn:[\w-]+:[\w-]*:[\w-]*:[\w-]*:[!-~]+")
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


def check_settings(settings: Settings) -> None:
    """Raise InvalidSetting for the first invalid setting."""
    _check_server(settings.server)
    _check_meta(settings.meta)
    _check_storage(settings.storage)
    _check_encryption(settings.encryption)
    _check_root(settings.root)
    _check_sts(settings.sts)
    _check_tokens(settings.tokens, settings.oidc)
    _check_decisions(settings.decisions)
    _check_tables(settings.tables)
    _check_delegation(settings.tables.access_delegation, settings.pipeline)
    _check_hosts("federation.hosts", settings.federation.hosts)
    _check_external_storage(settings.external_storage)
    _check_streams(settings.streams, settings.server)
    _check_remote_files(settings.streams, settings.storage)
    _check_pipeline(settings.pipeline)
    _check_listeners(settings.listeners)
    _check_targets(settings.targets)


def decode_master_key(key_id: str, key: Secret) -> bytes:
    """The 32 bytes of a key of `encryption.keys`. Raises InvalidSetting."""
    try:
        raw = base64.b64decode(key.reveal(), validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != MASTER_KEY_BYTES:
        # Without the cause: it would carry the text.
        raise _invalid(f"encryption.keys.{key_id}", "expected base64 of 32 bytes; make one: openssl rand -base64 32")
    return raw


def active_master_key(encryption: EncryptionSettings) -> str:
    """The id of the key for new objects, or an empty text when no keys are set."""
    return encryption.active or next(iter(encryption.keys), "")


def _check_server(server: ServerSettings) -> None:
    if (server.tls_cert is None) != (server.tls_key is None):
        missing = "server.tls_key" if server.tls_key is None else "server.tls_cert"
        raise _invalid(missing, "missing: a certificate needs its key, set both or neither")
    for name, listen in (("listen", server.listen), ("catalog_listen", server.catalog_listen)):
        if listen is None or listen.is_loopback or server.tls_cert is not None or server.insecure_http:
            continue
        raise _invalid(
            f"server.{name}",
            "refusing plain HTTP beyond loopback: set server.tls_cert and server.tls_key to serve TLS, or "
            f"server.insecure_http (--insecure-http) if a proxy terminates TLS. listen={listen}",
        )
    if server.catalog_listen == server.listen and server.listen.port != 0:
        raise _invalid(
            "server.catalog_listen",
            f"same address as server.listen: set another port, or remove it. listen={server.listen}",
        )
    for domain in server.domains:
        if not _DOMAIN.fullmatch(domain):
            raise _invalid("server.domains", f"expected lower-case host names without a port. found={domain!r}")
    if not _REGION.fullmatch(server.region):
        raise _invalid("server.region", f"expected a region such as us-east-1. found={server.region!r}")


def _check_streams(streams: StreamsSettings, server: ServerSettings) -> None:
    if streams.listen is not None and not streams.listen.is_loopback and not server.insecure_http:
        raise _invalid(
            "streams.listen",
            "refusing to serve the Fluss protocol, which has no TLS, beyond loopback: set server.insecure_http "
            f"(--insecure-http) if a proxy encrypts it. listen={streams.listen}",
        )
    if streams.advertise is not None and (streams.advertise.is_wildcard or not streams.advertise.port):
        raise _invalid(
            "streams.advertise",
            "clients cannot connect to a wildcard address or port 0: set the host and port at which they reach this "
            f"server. found={streams.advertise}",
        )


def _check_remote_files(streams: StreamsSettings, storage: StorageSettings) -> None:
    """Whether clients can read remote log segments at the advertised location, and with which credentials."""
    address, s3 = streams.remote_address, storage.s3
    if address is None:
        for name in ("remote_role", "remote_sts_endpoint"):
            if getattr(streams, name) is not None:
                raise _invalid(f"streams.{name}", "has no effect without streams.remote_address")
        return
    if storage.kind is not StorageKind.S3:
        raise _invalid(
            "streams.remote_address",
            "clients cannot read a folder storage backend directly: remove the setting, so that the server reads for "
            'clients, or set storage.kind = "s3"',
        )
    expected = "/".join(part for part in (f"s3://{s3.bucket}", s3.prefix.strip("/")) if part)
    if address.rstrip("/") != expected:
        raise _invalid(
            "streams.remote_address", f"not the location of the object store. expected={expected!r} found={address!r}"
        )
    if streams.remote_role is not None and not _ROLE.fullmatch(streams.remote_role):
        raise _invalid(
            "streams.remote_role",
            f"expected a role ARN such as arn:aws:iam::ACCOUNT:role/NAME. found={streams.remote_role!r}",
        )
    endpoint = streams.remote_sts_endpoint
    if endpoint is None:
        return
    if streams.remote_role is None:
        raise _invalid("streams.remote_sts_endpoint", "has no effect without streams.remote_role")
    parts = _check_endpoint("streams.remote_sts_endpoint", endpoint, "the credentials of storage.s3 are used")
    if parts.query or parts.fragment:
        raise _invalid("streams.remote_sts_endpoint", f"expected a URL without a query. found={endpoint!r}")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK and not s3.allow_http:
        # The response carries credentials.
        raise _invalid(
            "streams.remote_sts_endpoint", f"plain HTTP: use https, or set storage.s3.allow_http. found={endpoint!r}"
        )


def _check_meta(meta: MetaSettings) -> None:
    if not meta.is_postgres:
        return
    try:
        scheme = urlsplit(meta.url.reveal()).scheme
    except ValueError:
        scheme = ""
    if scheme not in {"postgresql", "postgres"}:
        raise _invalid("meta.url", "expected postgresql://USER:PASSWORD@HOST/DATABASE, or nothing for SQLite")


def _check_storage(storage: StorageSettings) -> None:
    s3 = storage.s3
    if storage.kind is not StorageKind.S3:
        for item in dataclasses.fields(s3):
            # A named bucket suggests that data goes there.
            if getattr(s3, item.name) != getattr(_NO_S3, item.name):
                path = f"storage.s3.{item.name}"
                raise _invalid(path, f'has no effect with storage.kind = "{storage.kind}": set "s3", or remove it')
        return
    if not s3.bucket:
        raise _invalid("storage.s3.bucket", 'missing: storage.kind = "s3" requires a bucket')
    if (s3.access_key_id is None) != (s3.secret_access_key is None):
        missing = "secret_access_key" if s3.secret_access_key is None else "access_key_id"
        raise _invalid(f"storage.s3.{missing}", "missing: an access key needs its secret, set both or neither")
    if s3.session_token is not None and s3.access_key_id is None:
        raise _invalid("storage.s3.session_token", "has no effect without access_key_id and secret_access_key")
    if s3.endpoint is not None:
        parts = _check_endpoint(
            "storage.s3.endpoint", s3.endpoint, "move them to storage.s3.access_key_id and secret_access_key"
        )
        if parts.scheme == "http" and not s3.allow_http:
            raise _invalid(
                "storage.s3.endpoint", f"plain HTTP: use https, or set storage.s3.allow_http. found={s3.endpoint!r}"
            )
    if s3.memory_budget < s3.multipart_part_size:
        raise _invalid(
            "storage.s3.memory_budget",
            f"smaller than one part. budget={s3.memory_budget} multipart_part_size={s3.multipart_part_size}",
        )


def _check_endpoint(path: str, endpoint: str, instead: str) -> SplitResult:
    try:
        parts = urlsplit(endpoint)
        host, user = parts.hostname, parts.username
    except ValueError:
        host, user = None, None
    if host is None or parts.scheme not in {"http", "https"}:
        raise _invalid(path, f"expected a URL such as https://s3.example.com. found={endpoint!r}")
    if user is not None:
        raise _invalid(path, f"must not contain credentials: {instead}")
    return parts


def _check_bare_endpoint(path: str, endpoint: str, instead: str) -> None:
    """Check an endpoint of Lakebed: its paths begin with a bucket, so the URL has none."""
    parts = _check_endpoint(path, endpoint, instead)
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise _invalid(path, f"expected a URL without a path. found={endpoint!r}")


def _check_encryption(encryption: EncryptionSettings) -> None:
    for key_id, key in encryption.keys.items():
        if not _KEY_ID.fullmatch(key_id):
            raise _invalid("encryption.keys", f"expected ids of letters, digits, - and _. found={key_id!r}")
        decode_master_key(key_id, key)
    if encryption.active and encryption.active not in encryption.keys:
        raise _invalid("encryption.active", f"no such key in encryption.keys. found={encryption.active!r}")
    if len(encryption.keys) > 1 and not encryption.active:
        raise _invalid("encryption.active", "missing: with several keys, name the one for new objects")


def _check_root(root: RootSettings) -> None:
    if (root.access_key is None) != (root.secret_key is None):
        missing = "root.secret_key" if root.secret_key is None else "root.access_key"
        raise _invalid(missing, "missing: the root access key needs its secret, set both or neither")
    if root.access_key is None or root.secret_key is None:
        return
    if not _ACCESS_KEY.fullmatch(root.access_key):
        # A `/` would end the access key inside a credential scope.
        raise _invalid("root.access_key", "expected 3 to 128 letters, digits, and _ . -")
    if root.access_key.startswith(_TEMPORARY_KEY_PREFIX):
        # Such a key is looked up among sessions.
        raise _invalid("root.access_key", f"reserved prefix of temporary credentials. prefix={_TEMPORARY_KEY_PREFIX}")
    if not _SECRET_KEY.fullmatch(root.secret_key.reveal()):
        raise _invalid("root.secret_key", "expected 8 to 128 visible ASCII characters")


def _check_sts(sts: StsSettings) -> None:
    if sts.default_duration > sts.max_duration:
        raise _invalid(
            "sts.default_duration",
            f"longer than sts.max_duration. default={sts.default_duration:g} max={sts.max_duration:g}",
        )


def _check_tokens(tokens: TokensSettings, oidc: OidcSettings) -> None:
    if not _ISSUER.fullmatch(tokens.issuer):
        raise _invalid("tokens.issuer", "expected 1 to 255 visible ASCII characters")
    if tokens.mode is TokenMode.INTERNAL and oidc.providers:
        # A configured provider suggests that its tokens are accepted.
        raise _invalid("oidc.providers", 'has no effect with tokens.mode = "internal": set "mixed" or "external"')
    if tokens.mode is not TokenMode.INTERNAL and not oidc.providers:
        raise _invalid("oidc.providers", f'missing: tokens.mode = "{tokens.mode}" requires one')
    issuers = {tokens.issuer: "the server"}
    for name, provider in oidc.providers.items():
        path = f"oidc.providers.{name}"
        _check_provider(path, provider, allow_http=oidc.allow_http)
        if provider.issuer in issuers:
            raise _invalid(f"{path}.issuer", f"issuers must be unique. same_as={issuers[provider.issuer]}")
        issuers[provider.issuer] = name


def _check_provider(path: str, provider: OidcProvider, *, allow_http: bool) -> None:
    parts = _check_endpoint(f"{path}.issuer", provider.issuer, "a provider's signing keys are public")
    if parts.query or parts.fragment:
        raise _invalid(f"{path}.issuer", f"expected a URL without a query. found={provider.issuer!r}")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK and not allow_http:
        raise _invalid(f"{path}.issuer", f"plain HTTP: use https, or set oidc.allow_http. found={provider.issuer!r}")
    if not provider.audiences:
        # Without an audience, any service that received a token could replay it here.
        raise _invalid(f"{path}.audiences", "missing: name the audience of the provider's tokens for this server")
    if not provider.roles_claim and (provider.roles_filter or provider.roles_mappings):
        raise _invalid(f"{path}.roles_claim", "missing: roles_filter and roles_mappings require it")


def _check_decisions(decisions: DecisionsSettings) -> None:
    if decisions.url is None:
        if decisions != DecisionsSettings():
            # The other settings suggest that a decision point is used.
            raise _invalid("decisions.url", "missing: the other decisions settings have no effect without it")
        return
    for name, url in (("url", decisions.url), ("batch_url", decisions.batch_url)):
        if url is None:
            continue
        path = f"decisions.{name}"
        parts = _check_endpoint(path, url, "move it to decisions.token")
        if parts.fragment or not _VISIBLE.fullmatch(url):
            raise _invalid(path, f"expected a URL of visible ASCII characters, without a fragment. found={url!r}")
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK and not decisions.allow_http:
            raise _invalid(path, f"plain HTTP: use https, or set decisions.allow_http. found={url!r}")
    if decisions.token is not None and not _VISIBLE.fullmatch(decisions.token.reveal()):
        raise _invalid("decisions.token", "expected visible ASCII characters")


def _check_tables(tables: TablesSettings) -> None:
    if tables.s3_endpoint is None:
        return
    _check_bare_endpoint("tables.s3_endpoint", tables.s3_endpoint, "the catalog returns this URL to every client")


def _check_delegation(allowed: AccessDelegation, pipeline: PipelineSettings) -> None:
    """Whether the embedded worker, which uses the catalog as any client, can access table files."""
    if pipeline.embedded_worker is EmbeddedWorker.OFF:
        return
    if not allowed.signs:
        raise _invalid(
            "tables.access_delegation",
            "none leaves the embedded worker without access to tables: set pipeline.embedded_worker to off",
        )
    if not allowed.vends and pipeline.delegation is PipelineDelegation.VENDED:
        raise _invalid(
            "tables.access_delegation",
            f"{allowed} vends no credentials to the embedded worker: set pipeline.delegation to remote-signing, or"
            " pipeline.embedded_worker to off",
        )


def _check_hosts(path: str, hosts: tuple[str, ...]) -> None:
    for host in hosts:
        if not _HOST.fullmatch(host.lower()):
            raise _invalid(path, f"expected host names with an optional port, or *.DOMAIN. found={host!r}")


def _check_external_storage(external: ExternalStorageSettings) -> None:
    _check_hosts("external_storage.hosts", external.hosts)
    for name, each in external.credentials.items():
        path = f"external_storage.credentials.{name}"
        if not _KEY_ID.fullmatch(name):
            raise _invalid(path, "the name must have letters, digits, - and _")
        if (each.access_key_id is None) != (each.secret_access_key is None):
            raise _invalid(path, "access_key_id and secret_access_key must be set together")
        if each.use_chain == (each.access_key_id is not None):
            raise _invalid(path, "expected access_key_id and secret_access_key, or use_chain = true")
    if external.default_credentials and external.default_credentials not in external.credentials:
        raise _invalid(
            "external_storage.default_credentials",
            f"no such credential set. found={external.default_credentials!r}",
        )


def _check_pipeline(pipeline: PipelineSettings) -> None:
    if "token=" in pipeline.master:
        # The message does not quote it either.
        raise _invalid("pipeline.master", "must not contain a token: move it to SPARK_CONNECT_AUTHENTICATE_TOKEN")
    if not _MASTER.fullmatch(pipeline.master):
        raise _invalid(
            "pipeline.master",
            f"expected local[*], spark://…, k8s://…, yarn or sc://…. found={pipeline.master!r}",
        )
    if pipeline.endpoint is not None:
        _check_bare_endpoint("pipeline.endpoint", pipeline.endpoint, "the embedded worker uses root credentials")
    for name in pipeline.spark:
        if not name.startswith("spark."):
            # Spark ignores other properties silently.
            raise _invalid(f"pipeline.spark.{name}", "expected a Spark property that begins with `spark.`")


def _check_listeners(listeners: ListenersSettings) -> None:
    for name, hook in listeners.hooks.items():
        path = f"listeners.hooks.{name}"
        _check_webhook(path, name, hook.url, hook.secret, "listeners.allow_http", allow_http=listeners.allow_http)
        _check_operations(f"{path}.operations", hook.operations)
    for operation in sorted(_check_operations("listeners.after_reads", listeners.after_reads)):
        if not operation.only_reads:
            raise _invalid("listeners.after_reads", f"{operation} is not a read: listeners get its events anyway")


def _check_operations(path: str, words: tuple[str, ...]) -> frozenset[Operation]:
    try:
        return parse_operations(words)
    except InvalidInput as error:
        raise _invalid(path, str(error)) from error


def _check_targets(targets: TargetsSettings) -> None:
    for name, target in targets.named.items():
        path = f"targets.named.{name}"
        if not _KEY_ID.fullmatch(name):
            raise _invalid(path, f"expected a name of letters, digits, - and _. found={name!r}")
        if not target.type:
            raise _invalid(f"{path}.type", "missing: name the type of the target")


def _check_webhook(path: str, name: str, url: str, secret: Secret, switch: str, *, allow_http: bool) -> None:
    """Check a webhook endpoint and its secret."""
    if not _KEY_ID.fullmatch(name):
        raise _invalid(path, f"expected a name of letters, digits, - and _. found={name!r}")
    parts = _check_endpoint(f"{path}.url", url, "requests are authenticated by their signature")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK and not allow_http:
        raise _invalid(f"{path}.url", f"plain HTTP: use https, or set {switch}. found={url!r}")
    try:
        check_secret(secret)
    except InvalidInput as error:
        raise _invalid(f"{path}.secret", str(error)) from None


def _invalid(path: str, message: str) -> InvalidSetting:
    return InvalidSetting(f"{path}: {message}", argument=path)
