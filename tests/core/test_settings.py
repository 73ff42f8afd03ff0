from __future__ import annotations

import base64
import dataclasses
import math
import pickle
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidInput, InvalidSetting
from lakebed.core.secrets import Secret
from lakebed.core.settings import (
    DecisionMode,
    HostPort,
    LoadedSettings,
    LoggingFormat,
    OidcProvider,
    ServerSettings,
    Settings,
    SettingsFile,
    StorageKind,
    TokenMode,
    active_master_key,
    check_settings,
    describe,
    environment_name,
    known_settings,
    load_settings,
)
from lakebed.core.settings.kinds import kind_of
from lakebed.core.sizes import KIB, MIB
from lakebed.governance.model import TEMPORARY_KEY_PREFIX

KEY = base64.b64encode(bytes(range(32))).decode()
S3 = 'storage.kind = "s3"\n[storage.s3]\nbucket = "lake"\n'


def remote(address: str, prefix: str = "", **streams: str) -> str:
    """Settings for direct reads of stream files by clients."""
    lines = [f'{name} = "{value}"' for name, value in {"remote_address": address, **streams}.items()]
    return "\n".join([f'{S3}prefix = "{prefix}"', "[streams]", *lines])


def role(**streams: str) -> str:
    """The same, with credentials of a role."""
    return remote("s3://lake", remote_role="arn:aws:iam::1:role/streams", **streams)


def from_toml(text: str) -> LoadedSettings:
    return load_settings(file=SettingsFile("lakebed.toml", text))


def error_of(text: str) -> str:
    with pytest.raises(InvalidSetting) as caught:
        from_toml(text)
    return str(caught.value)


def test_defaults_apply_without_layers() -> None:
    loaded = load_settings()
    assert loaded.settings == Settings()
    assert loaded.origins == {}


def test_later_layers_override_and_values_record_their_origin() -> None:
    loaded = load_settings(
        file=SettingsFile("lakebed.toml", '[server]\nregion = "file-1"\nworkers = 2\nmax_connections = 7\n'),
        environ={"LAKEBED_SERVER__REGION": "env-1", "LAKEBED_SERVER__WORKERS": "3", "PATH": "/bin"},
        flags={"server.region": ("--region", "flag-1")},
    )
    server = loaded.settings.server
    assert (server.region, server.workers, server.max_connections) == ("flag-1", 3, 7)
    assert loaded.origins == {
        "server.region": "--region",
        "server.workers": "LAKEBED_SERVER__WORKERS",
        "server.max_connections": "lakebed.toml",
    }


def test_every_type_is_read_from_a_file() -> None:
    settings = from_toml(
        """
        [server]
        data = "somewhere/else"
        listen = "[::1]:0"
        insecure_http = true
        domains = ["s3.example.com", "localhost"]
        shutdown_grace = 2.5
        [log]
        format = "text"
        [meta]
        url = "postgresql://user:password@db/lake"
        [objects]
        inline_max = "4KiB"
        sweep_interval = "90s"
        """
    ).settings
    assert settings.server.data == Path("somewhere/else")
    assert settings.server.listen == HostPort("::1", 0)
    assert settings.server.insecure_http is True
    assert settings.server.domains == ("s3.example.com", "localhost")
    assert settings.server.shutdown_grace == 2.5
    assert settings.log.format is LoggingFormat.TEXT
    assert settings.meta.url == Secret("postgresql://user:password@db/lake")
    assert settings.meta.is_postgres
    assert settings.objects.inline_max == 4 * KIB
    assert settings.objects.sweep_interval == 90.0


def test_every_type_is_read_from_the_environment() -> None:
    settings = load_settings(
        environ={
            "LAKEBED_SERVER__DATA": "~/lake",
            "LAKEBED_SERVER__LISTEN": "localhost:9001",
            "LAKEBED_SERVER__INSECURE_HTTP": "1",
            "LAKEBED_SERVER__DOMAINS": "s3.example.com, localhost",
            "LAKEBED_SERVER__TLS_CERT": "",
            "LAKEBED_LOG__LEVEL": "DEBUG",
            "LAKEBED_STORAGE__KIND": "s3",
            "LAKEBED_STORAGE__S3__BUCKET": "lake",
            "LAKEBED_STORAGE__S3__PATH_STYLE": "false",
            "LAKEBED_STORAGE__S3__MULTIPART_PART_SIZE": "16MiB",
            "LAKEBED_STORAGE__S3__RETRY__BASE": "250ms",
            "LAKEBED_ENCRYPTION__KEYS__FIRST": KEY,
        }
    ).settings
    assert settings.server.data == Path.home() / "lake"
    assert settings.server.listen == HostPort("localhost", 9001)
    assert settings.server.insecure_http is True
    assert settings.server.domains == ("s3.example.com", "localhost")
    assert settings.server.tls_cert is None
    assert settings.log.level == "debug"
    assert settings.storage.kind is StorageKind.S3
    assert settings.storage.s3.path_style is False
    assert settings.storage.s3.multipart_part_size == 16 * MIB
    assert settings.storage.s3.retry.base == 0.25
    assert settings.encryption.keys == {"first": Secret(KEY)}


def test_table_is_merged_from_several_variables() -> None:
    environ = {
        "LAKEBED_ENCRYPTION__KEYS__A": KEY,
        "LAKEBED_ENCRYPTION__KEYS__B": KEY,
        "LAKEBED_ENCRYPTION__ACTIVE": "b",
    }
    encryption = load_settings(environ=environ).settings.encryption
    assert list(encryption.keys) == ["a", "b"]
    assert active_master_key(encryption) == "b"


def test_root_credentials_have_short_names_in_the_environment() -> None:
    environ = {"LAKEBED_ROOT_ACCESS_KEY": "admin", "LAKEBED_ROOT_SECRET_KEY": "long-enough"}
    root = load_settings(environ=environ).settings.root
    assert (root.access_key, root.secret_key) == ("admin", Secret("long-enough"))


def test_setting_under_two_variable_names_is_rejected() -> None:
    with pytest.raises(InvalidSetting, match=r"^root\.access_key: given twice"):
        load_settings(environ={"LAKEBED_ROOT_ACCESS_KEY": "admin", "LAKEBED_ROOT__ACCESS_KEY": "other"})


@pytest.mark.parametrize(
    ("text", "path", "nearest"),
    [
        ('[server]\nlisen = "x"', "server.lisen", "server.listen"),
        ('[sever]\nlisten = "x"', "sever", "server.data"),
        ("[storage.s3.retry]\nmax_attempt = 1", "storage.s3.retry.max_attempt", "storage.s3.retry.max_attempts"),
        ("[storage.s3.retries]\nbase = 1", "storage.s3.retries", "storage.s3.region"),
    ],
)
def test_unknown_key_error_has_its_path_and_the_nearest_key(text: str, path: str, nearest: str) -> None:
    assert error_of(text).startswith(f"{path}: no such setting. given_by=lakebed.toml nearest={nearest.split('.')[0]}")


def test_unknown_variable_error_names_the_nearest() -> None:
    with pytest.raises(InvalidSetting, match=r"given_by=LAKEBED_SERVER__LISEN nearest=LAKEBED_SERVER__LISTEN$"):
        load_settings(environ={"LAKEBED_SERVER__LISEN": "x"})


def test_unknown_flag_is_rejected() -> None:
    with pytest.raises(InvalidSetting, match=r"^server\.lisen: .* given_by=--set nearest=server\.listen$"):
        load_settings(flags={"server.lisen": ("--set", "x")})


def test_known_name_in_an_unknown_section_suggests_its_section() -> None:
    with pytest.raises(InvalidSetting, match=r"nearest=LAKEBED_STORAGE__S3__MULTIPART_PART_SIZE$"):
        load_settings(environ={"LAKEBED_X__MULTIPART_PART_SIZE": "8MiB"})


def test_unrecognizable_key_error_lists_sections() -> None:
    assert error_of("zzz = 1").endswith(
        "sections=server,log,meta,storage,objects,encryption,root,sts,tokens,oidc,decisions,tables,federation,"
        "external_storage,select,streams,pipeline,listeners,targets"
    )


def test_setting_of_an_unbuilt_feature_is_rejected() -> None:
    with pytest.raises(InvalidSetting, match=r"^server\.streams_listen: no such setting"):
        load_settings(flags={"server.streams_listen": ("--set", "127.0.0.1:9123")})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[server]\nworkers = "two"', "server.workers: expected a whole number of at least 1, found text 'two'"),
        ("[server]\nworkers = true", "server.workers: expected a whole number of at least 1, found true or false True"),
        ("[server]\nworkers = 0", "server.workers: expected a whole number of at least 1, found a whole number 0"),
        ('[server]\ninsecure_http = "yes"', "server.insecure_http: expected true or false, found text 'yes'"),
        ("[server]\nregion = 3", "server.region: expected text, found a whole number 3"),
        ('[server]\ndata = ""', "server.data: expected a path, found text ''"),
        ('[server]\ndomains = "a"', "server.domains: expected a list, each text, found text 'a'"),
        ('[server]\nlisten = "9000"', "server.listen: expected an address such as"),
        ('[server]\nlisten = "::1:9000"', "server.listen: expected an address such as"),
        ('[server]\nlisten = "[::z]:9000"', "server.listen: expected an IPv6 address in brackets"),
        ('[log]\nlevel = "loud"', "log.level: expected one of debug, info, warning, error, found text 'loud'"),
        ('[objects]\ninline_max = "2MiB"', "objects.inline_max: expected a size such as 8MiB from 0 to 1MiB"),
        ("[objects]\norphan_window = inf", "objects.orphan_window: expected a duration such as 15s of at least 1s"),
        ("[objects]\norphan_window = nan", "objects.orphan_window: expected a duration such as 15s of at least 1s"),
        ("[objects]\norphan_window = 1979-05-27", "objects.orphan_window: expected a duration such as 15s"),
        ("server = 1", "server: expected a table, found a value"),
        ("[server.listen]\nport = 1", "server.listen: expected an address such as 127.0.0.1:9000, found a table"),
        ("encryption.keys = 1", "encryption.keys: expected a table, each a secret text, found a whole number"),
        ("[server", "lakebed.toml: not a TOML file"),
    ],
)
def test_invalid_value_error_has_path_expected_and_found(text: str, message: str) -> None:
    error = error_of(text)
    assert error.startswith(message)
    assert "lakebed.toml" in error


def test_errors_shorten_long_values() -> None:
    assert len(error_of(f'[log]\nlevel = "{"x" * 5000}"')) < 200


@pytest.mark.parametrize(
    "text",
    [
        "[root]\nsecret_key = 73570000",
        'root.secret_key = ["73570000"]',
        '[root]\naccess_key = "admin"\nsecret_key = "7357000"',
        '[encryption.keys]\na = "73570000"',
        "[encryption.keys]\na = 73570000",
        '[meta]\nurl = "mysql://user:73570000@host/db"',
        S3 + 'endpoint = "https://user:73570000@host"',
        S3 + 'session_token = "73570000"',
    ],
)
def test_rejected_secret_is_not_quoted(text: str) -> None:
    assert "7357" not in error_of(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[server]\ntls_cert = "a.pem"', "server.tls_key: missing: a certificate needs its key"),
        ('[server]\ntls_key = "a.pem"', "server.tls_cert: missing: a certificate needs its key"),
        ('[server]\ndomains = ["Example.com"]', "server.domains: expected lower-case host names"),
        ('[server]\nregion = "no such place"', "server.region: expected a region"),
        ('[meta]\nurl = "lake.db"', "meta.url: expected postgresql://"),
        ('[meta]\nurl = "postgresql://[db/lake"', "meta.url: expected postgresql://"),
        ('[storage]\nkind = "s3"', "storage.s3.bucket: missing"),
        ('[storage]\nkind = "memory"', "storage.kind: expected one of folder, s3"),
        ('[storage.s3]\nbucket = "lake"', "storage.s3.bucket: has no effect with"),
        (S3 + 'access_key_id = "a"', "storage.s3.secret_access_key: missing: an access key needs its secret"),
        (S3 + 'secret_access_key = "a"', "storage.s3.access_key_id: missing: an access key needs its secret"),
        (S3 + 'session_token = "a"', "storage.s3.session_token: has no effect without"),
        (S3 + 'endpoint = "minio:9000"', "storage.s3.endpoint: expected a URL"),
        (S3 + 'endpoint = "http://[minio"', "storage.s3.endpoint: expected a URL"),
        (S3 + 'endpoint = "http://minio:9000"', "storage.s3.endpoint: plain HTTP"),
        (S3 + 'memory_budget = "1MiB"', "storage.s3.memory_budget: smaller than one part"),
        (S3 + 'multipart_part_size = "5242879"', "storage.s3.multipart_part_size: expected a size"),
        ('[encryption.keys]\na = "short"', "encryption.keys.a: expected base64 of 32 bytes"),
        (f'[encryption.keys]\n"a b" = "{KEY}"', "encryption.keys: expected ids of letters"),
        (f'encryption.active = "b"\nencryption.keys.a = "{KEY}"', "encryption.active: no such key"),
        (f'[encryption.keys]\na = "{KEY}"\nb = "{KEY}"', "encryption.active: missing"),
        ('[root]\naccess_key = "admin"', "root.secret_key: missing: the root access key needs its secret"),
        ('[root]\nsecret_key = "long-enough"', "root.access_key: missing: the root access key needs its secret"),
        ('[root]\naccess_key = "a/b"\nsecret_key = "long-enough"', "root.access_key: expected 3 to 128"),
        ('[root]\naccess_key = "admin"\nsecret_key = "short"', "root.secret_key: expected 8 to 128"),
        ('[root]\naccess_key = "admin"\nsecret_key = "with a space"', "root.secret_key: expected 8 to 128"),
        (
            f'[root]\naccess_key = "{TEMPORARY_KEY_PREFIX}1"\nsecret_key = "long-enough"',
            "root.access_key: reserved prefix of temporary credentials",
        ),
        ('[sts]\nmax_duration = "1h"\ndefault_duration = "2h"', "sts.default_duration: longer than"),
        ('[sts]\nmax_duration = "1m"', "sts.max_duration: expected a duration such as 15s of at least 15m"),
        (
            '[tables]\naccess_delegation = "keys"',
            "tables.access_delegation: expected one of vended-credentials, remote-signing, none",
        ),
        (
            '[tables]\naccess_delegation = "none"',
            "tables.access_delegation: none leaves the embedded worker without access to tables",
        ),
        (
            '[tables]\naccess_delegation = "remote-signing"',
            "tables.access_delegation: remote-signing vends no credentials to the embedded worker",
        ),
        ('[tables]\nvalidation = "lax"', "tables.validation: expected"),
        ('[pipeline]\nmaster = "somewhere"', "pipeline.master: expected local"),
        ('[pipeline]\nembedded_worker = "maybe"', "pipeline.embedded_worker: expected one of on-demand, off"),
        ('[pipeline]\nschedule_interval = "0s"', "pipeline.schedule_interval: expected a duration"),
        ('[pipeline]\ndebounce = "soon"', "pipeline.debounce: expected a duration"),
        ('[pipeline]\nlease = "2h"', "pipeline.lease: expected a duration such as 15s from 1s to 1h"),
        ('[federation]\nhosts = ["https://far.example"]', "federation.hosts: expected host names"),
        ('[federation]\nhosts = ["far.*"]', "federation.hosts: expected host names"),
        ('[federation]\nhosts = [""]', "federation.hosts: expected host names"),
        ('[federation]\ntimeout = "0s"', "federation.timeout: expected a duration"),
        ('[tables]\ns3_endpoint = "s3.example"', "tables.s3_endpoint: expected a URL"),
        (
            '[tables]\ns3_endpoint = "https://a:b@s3.example"',
            "tables.s3_endpoint: must not contain credentials: the catalog",
        ),
        ('[tables]\ns3_endpoint = "https://s3.example/lake"', "tables.s3_endpoint: expected a URL without a path"),
        (
            '[streams]\nremote_address = "/mnt/lake"',
            "streams.remote_address: clients cannot read a folder storage backend",
        ),
        (
            '[streams]\nremote_role = "arn:aws:iam::1:role/r"',
            "streams.remote_role: has no effect without streams.remote_address",
        ),
        (
            '[streams]\nremote_sts_endpoint = "https://sts"',
            "streams.remote_sts_endpoint: has no effect without streams.remote_a",
        ),
        (
            remote("s3://other"),
            "streams.remote_address: not the location of the object store. expected='s3://lake' found='s3://oth",
        ),
        (remote("s3a://lake"), "streams.remote_address: not the location of the object store."),
        (
            remote("s3://lake", prefix="p/q"),
            "streams.remote_address: not the location of the object store. expected='s3://lake/p/q'",
        ),
        (remote("s3://lake", remote_role="streams"), "streams.remote_role: expected a role ARN"),
        (
            remote("s3://lake", remote_sts_endpoint="https://sts"),
            "streams.remote_sts_endpoint: has no effect without streams.r",
        ),
        (role(remote_sts_endpoint="sts.example"), "streams.remote_sts_endpoint: expected a URL"),
        (role(remote_sts_endpoint="http://sts.example"), "streams.remote_sts_endpoint: plain HTTP"),
        (role(remote_sts_endpoint="https://a:b@sts"), "streams.remote_sts_endpoint: must not contain credentials"),
        (role(remote_sts_endpoint="https://sts?a=b"), "streams.remote_sts_endpoint: expected a URL without a query"),
    ],
)
def test_contradicting_settings_are_rejected_by_path(text: str, message: str) -> None:
    assert error_of(text).startswith(message)


def test_matching_remote_location_of_streams_is_accepted() -> None:
    for text in (
        remote("s3://lake"),
        remote("s3://lake/"),
        remote("s3://lake/p/q", prefix="/p/q/"),
        role(),
        role(remote_sts_endpoint="https://sts.eu-west-1.amazonaws.com"),
        role(remote_sts_endpoint="http://127.0.0.1:9000"),
    ):
        assert from_toml(text).settings.streams.remote_address is not None


@pytest.mark.parametrize("listen", ["0.0.0.0:9000", "[::]:9000", ":9000", "10.0.0.1:9000", "lakebed.example.com:9000"])
def test_plain_http_beyond_loopback_error_has_both_solutions(listen: str) -> None:
    error = error_of(f'[server]\nlisten = "{listen}"')
    assert error.startswith("server.listen: ")
    assert "server.tls_cert and server.tls_key" in error
    assert "--insecure-http" in error
    tls = from_toml(f'[server]\nlisten = "{listen}"\ntls_cert = "c.pem"\ntls_key = "k.pem"')
    plain = from_toml(f'[server]\nlisten = "{listen}"\ninsecure_http = true')
    assert tls.settings.server.listen == plain.settings.server.listen == HostPort.parse(listen)


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "127.1.2.3:9000", "localhost:9000", "[::1]:9000"])
def test_plain_http_on_loopback_is_allowed(listen: str) -> None:
    assert str(from_toml(f'[server]\nlisten = "{listen}"').settings.server.listen) == listen


def test_path_style_follows_the_endpoint_unless_set() -> None:
    assert not from_toml(S3).settings.storage.s3.uses_path_style
    assert from_toml(S3 + 'endpoint = "https://minio"').settings.storage.s3.uses_path_style
    assert not from_toml(S3 + 'endpoint = "https://minio"\npath_style = false').settings.storage.s3.uses_path_style


def test_single_key_is_active() -> None:
    assert active_master_key(from_toml(f'[encryption.keys]\nonly = "{KEY}"').settings.encryption) == "only"
    assert active_master_key(Settings().encryption) == ""


def test_described_settings_round_trip() -> None:
    loaded = load_settings(
        file=SettingsFile("lakebed.toml", S3 + 'path_style = false\nread_timeout = "1.5s"\n[server]\nworkers = 3\n'),
        environ={"LAKEBED_SERVER__DOMAINS": "a.example,b.example", "LAKEBED_SERVER__DATA": 'we"ird\\\t'},
    )
    assert from_toml(describe(loaded)).settings == loaded.settings


def test_description_shows_origins() -> None:
    loaded = load_settings(
        file=SettingsFile("lakebed.toml", "[server]\nworkers = 3"), environ={"LAKEBED_LOG__FORMAT": "text"}
    )
    lines = describe(loaded).splitlines()
    assert "workers = 3  # lakebed.toml" in lines
    assert 'format = "text"  # LAKEBED_LOG__FORMAT' in lines
    assert 'region = "us-east-1"  # default' in lines


def test_description_lists_every_setting() -> None:
    def count(table: dict[str, Any]) -> int:  # Any: TOML values
        return sum(count(item) if isinstance(item, dict) and item else 1 for item in table.values())

    assert count(tomllib.loads(describe(load_settings()))) == len(known_settings())


def test_description_and_repr_contain_no_secrets() -> None:
    secrets = {
        "meta.url": "postgresql://user:73571@db/lake",
        "root.secret_key": "73572-73572",
        "storage.s3.secret_access_key": "73573",
        "storage.s3.session_token": "73574",
    }
    flags = {path: ("--set", secret) for path, secret in secrets.items()}
    plain = {
        "root.access_key": "admin",
        "storage.s3.access_key_id": "a",
        "storage.kind": "s3",
        "storage.s3.bucket": "b",
    }
    flags.update((path, ("--set", text)) for path, text in plain.items())
    loaded = load_settings(flags=flags, environ={"LAKEBED_ENCRYPTION__KEYS__A": KEY})
    for shown in (describe(loaded), repr(loaded), str(loaded.settings)):
        assert "7357" not in shown
        assert KEY not in shown
        assert "***" in shown


def test_settings_are_immutable() -> None:
    settings = Settings()
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.server.region = "elsewhere"  # type: ignore[misc]  # must fail


def test_settings_can_be_pickled() -> None:
    settings = from_toml(f'[encryption.keys]\na = "{KEY}"').settings
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_defaults_are_valid() -> None:
    check_settings(Settings())
    assert from_toml(describe(load_settings())).settings == Settings()


PROVIDER = """
[tokens]
mode = "mixed"
[oidc.providers.corporate]
issuer = "https://id.example.com/realms/lake"
audiences = ["lakebed"]
"""


def test_identity_providers_are_tables_of_settings() -> None:
    text = PROVIDER + 'roles_claim = "groups"\nroles_mappings = { "^lake-" = "PRINCIPAL_ROLE:" }\ncreate_users = true\n'
    loaded = from_toml(text + '[oidc.providers.other]\nissuer = "http://localhost:8080"\naudiences = ["lakebed"]\n')
    assert loaded.settings.tokens.mode is TokenMode.MIXED
    corporate, other = loaded.settings.oidc.providers.values()
    assert corporate == OidcProvider(
        issuer="https://id.example.com/realms/lake",
        audiences=("lakebed",),
        roles_claim="groups",
        roles_mappings={"^lake-": "PRINCIPAL_ROLE:"},
        create_users=True,
    )
    assert other.name_claim == "preferred_username"
    assert from_toml(describe(loaded)).settings == loaded.settings
    assert pickle.loads(pickle.dumps(loaded.settings)) == loaded.settings


def test_provider_is_read_from_a_variable_as_an_inline_table() -> None:
    environ = {
        "LAKEBED_TOKENS__MODE": "external",
        "LAKEBED_OIDC__PROVIDERS__CORPORATE": '{issuer = "https://id.example.com", audiences = ["a", "b"]}',
    }
    (provider,) = load_settings(environ=environ).settings.oidc.providers.values()
    assert (provider.issuer, provider.audiences) == ("https://id.example.com", ("a", "b"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[tokens]\nissuer = "a b"', "tokens.issuer: expected 1 to 255 visible"),
        ('[tokens]\nlifetime = "1s"', "tokens.lifetime: expected a duration such as 15s from 1m to 1d"),
        ('[tokens]\nmode = "mixed"', "oidc.providers: missing"),
        (PROVIDER.replace("mixed", "internal"), "oidc.providers: has no effect with tokens.mode"),
        (PROVIDER.replace("https", "http"), "oidc.providers.corporate.issuer: plain HTTP"),
        (
            PROVIDER.replace("https://", "https://me:secret@"),
            "oidc.providers.corporate.issuer: must not contain credentials",
        ),
        (PROVIDER.replace("/realms/lake", "/?x=1"), "oidc.providers.corporate.issuer: expected a URL without a query"),
        (
            PROVIDER.replace('"https://id.example.com/realms/lake"', '""'),
            "oidc.providers.corporate.issuer: expected a URL",
        ),
        (PROVIDER.replace('["lakebed"]', "[]"), "oidc.providers.corporate.audiences: missing"),
        (PROVIDER.replace('["lakebed"]', "7"), "oidc.providers.corporate: audiences: expected a list"),
        (PROVIDER + "colour = 1", "oidc.providers.corporate: no such setting: colour; expected one of issuer, "),
        (PROVIDER + 'roles_filter = ".*"', "oidc.providers.corporate.roles_claim: missing"),
        (PROVIDER + "roles_mappings = 7", "oidc.providers.corporate: roles_mappings: expected a table, each text"),
        ("[oidc]\nproviders = 7", "oidc.providers: expected a table"),
        ("[oidc.providers]\nx = 7", "oidc.providers.x: expected a table of issuer, "),
        (
            PROVIDER + '[oidc.providers.twin]\nissuer = "https://id.example.com/realms/lake"\naudiences = ["x"]',
            "oidc.providers.twin.issuer: issuers must be unique. same_as=corporate",
        ),
        (
            PROVIDER.replace("[tokens]", '[tokens]\nissuer = "https://id.example.com/realms/lake"'),
            "oidc.providers.corporate.issuer: issuers must be unique. same_as=the server",
        ),
    ],
)
def test_invalid_tokens_and_providers_are_rejected(text: str, message: str) -> None:
    assert error_of(text).startswith(message)


def test_plain_http_to_providers_is_loopback_only_by_default() -> None:
    local = PROVIDER.replace("https://id.example.com", "http://127.0.0.1:8080")
    assert from_toml(local).settings.oidc.providers
    plain = PROVIDER.replace("https", "http")
    assert from_toml(plain + "[oidc]\nallow_http = true").settings.oidc.providers


def test_settings_built_in_code_can_be_checked() -> None:
    with pytest.raises(InvalidSetting, match=r"^server\.listen: "):
        check_settings(Settings(server=ServerSettings(listen=HostPort("0.0.0.0", 9000))))


def test_every_setting_has_a_unique_variable() -> None:
    names = {environment_name(path) for path in known_settings()}
    assert len(names) == len(known_settings())
    assert "LAKEBED_STORAGE__S3__RETRY__MAX_ATTEMPTS" in names


def test_unsupported_setting_type_is_a_type_error() -> None:
    for annotation in (bytes, int | str, tuple[int, str], dict[int, str]):
        with pytest.raises(TypeError, match="no kind of setting"):
            kind_of(annotation)


def test_home_folder_of_an_unknown_user_is_rejected() -> None:
    with pytest.raises(InvalidSetting, match=r"decisions.ca_bundle: expected a path, found text '~0'"):
        load_settings(flags={"decisions.ca_bundle": ("--set", "~0")})


@given(st.sampled_from(sorted(known_settings())), st.text(max_size=20))
def test_any_text_of_a_setting_is_accepted_or_rejected_by_path(path: str, noise: str) -> None:
    error = ""
    try:
        load_settings(flags={path: ("--set", noise)})
    except InvalidSetting as refusal:
        error = str(refusal)
    assert not error or error.startswith(path.split(".")[0] + ".")


@given(
    st.sampled_from(sorted(known_settings())),
    st.one_of(st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers(), max_size=2)),
)
def test_any_toml_value_is_accepted_or_rejected(path: str, raw: object) -> None:
    kind = known_settings()[path]
    try:
        value = kind.from_toml(raw)
    except InvalidInput:
        return
    assert not (isinstance(value, float) and not math.isfinite(value))
    assert isinstance(kind.show(value), str)


@given(st.ip_addresses(), st.integers(0, 65535))
def test_listen_address_round_trips(host: object, port: int) -> None:
    address = HostPort(str(host), port)
    assert HostPort.parse(str(address)) == address


DECISIONS = """
[decisions]
url = "https://opa.example.com/v1/data/lakebed/allow"
batch_url = "https://opa.example.com/v1/data/lakebed/visible"
token = "a-token"
mode = "instead"
timeout = "500ms"
cache_ttl = "5s"
"""


def test_decision_point_settings_are_read() -> None:
    decisions = from_toml(DECISIONS).settings.decisions
    assert decisions.url == "https://opa.example.com/v1/data/lakebed/allow"
    assert (decisions.mode, decisions.timeout, decisions.cache_ttl) == (DecisionMode.INSTEAD, 0.5, 5.0)
    assert "a-token" not in repr(decisions)
    beside = from_toml('[decisions]\nurl = "http://127.0.0.1:8181/v1/data/lakebed/allow"').settings.decisions
    assert (beside.mode, beside.timeout, beside.cache_ttl, beside.batch_url) == (DecisionMode.AND, 2.0, 2.0, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[decisions]\nmode = "instead"', "decisions.url: missing"),
        ('[decisions]\ntoken = "x"', "decisions.url: missing"),
        (DECISIONS.replace("https", "http"), "decisions.url: plain HTTP"),
        (
            DECISIONS.replace("https://opa.example.com/v1/data/lakebed/v", "http://x.test/v"),
            "decisions.batch_url: plain HTTP",
        ),
        (DECISIONS.replace("https://opa", "https://me:secret@opa"), "decisions.url: must not contain credentials"),
        (DECISIONS.replace("https:", "ftp:"), "decisions.url: expected a URL"),
        (DECISIONS.replace("/allow", "/allow#x"), "decisions.url: expected a URL of visible ASCII"),
        (DECISIONS.replace("/allow", "/al low"), "decisions.url: expected a URL of visible ASCII"),
        (DECISIONS.replace("a-token", "a token"), "decisions.token: expected visible"),
        (DECISIONS.replace("instead", "or"), "decisions.mode: expected "),
        (DECISIONS.replace("500ms", "2h"), "decisions.timeout: expected a duration"),
        (DECISIONS.replace("5s", "2h"), "decisions.cache_ttl: expected a duration"),
    ],
)
def test_invalid_decision_points_are_rejected(text: str, message: str) -> None:
    with pytest.raises(InvalidSetting, match=re.escape(message)) as raised:
        from_toml(text)
    assert "secret" not in str(raised.value)


def test_plain_http_to_a_decision_point_requires_a_setting() -> None:
    plain = DECISIONS.replace("https", "http") + "allow_http = true"
    assert from_toml(plain).settings.decisions.url == "http://opa.example.com/v1/data/lakebed/allow"
