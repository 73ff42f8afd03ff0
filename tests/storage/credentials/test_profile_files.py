"""Parsing of the shared AWS files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.core.errors import InvalidSetting
from lakebed.storage.credentials.profile import merge_profiles


def test_profiles_of_both_files_are_merged_and_the_credentials_file_wins() -> None:
    credentials = "[default]\naws_access_key_id = A\naws_secret_access_key = s%x#y\n[work]\nregion = from-credentials\n"
    config = (
        "[default]\nregion = eu-west-1\naws_access_key_id = overridden\n"
        "[profile work]\nregion = from-config\nrole_arn = r\n"
        '[profile "two words"]\nregion = q\n'
        "[sso-session s]\nsso_region = x\n[services t]\n[other]\nregion = never\n"
    )
    assert merge_profiles(credentials, config) == {
        "default": {"region": "eu-west-1", "aws_access_key_id": "A", "aws_secret_access_key": "s%x#y"},
        "work": {"region": "from-credentials", "role_arn": "r"},
        "two words": {"region": "q"},
    }


def test_comments_nested_settings_and_case_are_supported() -> None:
    config = "# a comment\n[default]\n; another\nRegion=eu\ns3 =\n  addressing_style = path\n  max = 5\noutput = json\n"
    assert merge_profiles("", config)["default"] == {
        "region": "eu",
        "s3": "\naddressing_style = path\nmax = 5",
        "output": "json",
    }


def test_profile_default_takes_precedence_over_default_in_any_order() -> None:
    for config in (
        "[default]\nregion=a\n[profile default]\nregion=b\n",
        "[profile default]\nregion=b\n[default]\nregion=a\n",
    ):
        assert merge_profiles("", config)["default"]["region"] == "b"


@pytest.mark.parametrize(
    ("text", "line"), [("aws_secret_access_key = hidden\n", 1), ("[default]\na = 1\n= hidden\n", 3)]
)
def test_parse_error_contains_the_line_number_without_its_text(text: str, line: int) -> None:
    with pytest.raises(InvalidSetting, match=f"line={line}") as refused:
        merge_profiles(text, "")
    assert "hidden" not in str(refused.value)
    assert refused.value.__cause__ is None


@given(st.text(), st.text())
def test_any_text_is_parsed_or_rejected(credentials: str, config: str) -> None:
    try:
        merge_profiles(credentials, config)
    except InvalidSetting:
        return
