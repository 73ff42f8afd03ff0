from __future__ import annotations

import argparse
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.client.streams.access import STREAMS_VARIABLE
from lakebed.conform.options import (
    OPTIONS,
    SECRET_FLAGS,
    ConformTarget,
    add_options,
    option_values,
    read_target,
    redacted,
)
from lakebed.core.errors import InvalidInput
from lakebed.core.settings import CLIENT_VARIABLES, load_settings

KEYS = {"LAKEBED_ACCESS_KEY": "AKIA", "LAKEBED_SECRET_KEY": "hidden"}


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return parser.parse_args(words)


def target(*words: str, environ: Mapping[str, str] = KEYS) -> ConformTarget:
    arguments = parse(*words)
    return read_target(arguments, option_values(arguments, environ, 1_700_000_000))


def test_defaults() -> None:
    made = target()
    assert made.profile.name == "lakebed"
    assert made.resolved.catalog_uri == "http://127.0.0.1:9000/iceberg"
    assert (made.region, made.bucket, made.catalog_name) == ("us-east-1", "lakebed-table-conform", "lakebed")
    assert (made.namespace, made.table) == ("conform1700000000", "events1700000000")
    assert made.timeout_seconds == 20
    assert made.verifies_certificates
    assert not made.uses_vended_credentials
    assert made.rest_path == "/iceberg"


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_flag_overrides_environment_overrides_default(option: object) -> None:
    assert isinstance(option, type(OPTIONS[0]))
    for variable in option.variables:
        values = option_values(parse(), {variable: "of-environment"}, 0)
        assert values[option.name] == "of-environment"
        values = option_values(parse(option.flag, "of-flag"), {variable: "of-environment"}, 0)
        assert values[option.name] == "of-flag"


def test_server_ignores_variables_of_conform() -> None:
    own = {name for option in OPTIONS for name in option.variables if name.startswith("LAKEBED_")}
    others = {STREAMS_VARIABLE}  # used by the client, without an option here
    assert own - {"LAKEBED_ROOT_ACCESS_KEY", "LAKEBED_ROOT_SECRET_KEY"} == CLIENT_VARIABLES - others
    assert load_settings(environ=dict.fromkeys(CLIENT_VARIABLES, "x")) == load_settings(environ={})


def test_root_credentials_are_the_default() -> None:
    made = target(environ={"LAKEBED_ROOT_ACCESS_KEY": "ROOT", "LAKEBED_ROOT_SECRET_KEY": "hidden"})
    assert made.access_key == "ROOT"


@pytest.mark.parametrize("missing", sorted(KEYS))
def test_run_requires_credentials(missing: str) -> None:
    with pytest.raises(InvalidInput, match=missing):
        target(environ={name: value for name, value in KEYS.items() if name != missing})


@pytest.mark.parametrize("text", ["0", "-1", "soon", "inf", "nan"])
def test_timeout_is_a_number_of_seconds(text: str) -> None:
    with pytest.raises(InvalidInput, match="--timeout"):
        target("--timeout", text)


def test_endpoint_is_an_http_url() -> None:
    with pytest.raises(InvalidInput, match="--endpoint"):
        target("--endpoint", "file:///etc")


def test_reference_profiles_are_not_run() -> None:
    with pytest.raises(InvalidInput, match="--print-vendor-profiles"):
        target("--profile", "aws-s3tables")


@pytest.mark.parametrize("words", [("--profile", "lakebed-vended-credentials"), ("--require-vended-credentials",)])
def test_vended_credentials_are_used_on_request(words: tuple[str, ...]) -> None:
    assert target(*words).uses_vended_credentials


def test_repr_hides_the_secret() -> None:
    assert "hidden" not in repr(target())


@given(st.lists(st.text(min_size=1)), st.sampled_from(sorted(SECRET_FLAGS)), st.booleans())
def test_recorded_command_has_no_secrets(words: list[str], flag: str, joined: bool) -> None:
    secret = "s3cr3t-of-the-test"
    given = [f"{flag}={secret}"] if joined else [flag, secret]
    assert secret not in redacted([*(word for word in words if word not in SECRET_FLAGS), *given])
