"""Reading `~/.aws/credentials` and `~/.aws/config` into profiles: a pure function of their text."""

from __future__ import annotations

import configparser
from collections.abc import Mapping

from ...core.errors import InvalidSetting

Profile = Mapping[str, str]
"""Settings of one profile, names in lower case."""


def merge_profiles(credentials_text: str, config_text: str) -> dict[str, Profile]:
    """Profiles by name. Where both files set a value, the credentials file wins."""
    profiles: dict[str, dict[str, str]] = {}
    sections = _sections(config_text, "config file")
    # `[profile default]` wins over `[default]`, so it is laid on top.
    for title in sorted(sections, key=lambda title: title != "default"):
        name = _profile_named(title)
        if name is not None:
            profiles.setdefault(name, {}).update(sections[title])
    for title, settings in _sections(credentials_text, "credentials file").items():
        profiles.setdefault(title.strip(), {}).update(settings)
    return {name: dict(settings) for name, settings in profiles.items()}


def _profile_named(title: str) -> str | None:
    """The profile that a section of the config file sets; None for other sections (`sso-session …`, `services …`)."""
    if title == "default":
        return title
    kind, _, name = title.partition(" ")
    name = name.strip()
    if kind != "profile" or not name:
        return None
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] and name[0] in "\"'" else name


def _sections(text: str, which: str) -> dict[str, dict[str, str]]:
    # The default section is named so that no file has it: `[default]` is a profile like any other.
    parser = configparser.RawConfigParser(default_section="\0", strict=False, allow_no_value=True)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        # The parser's own message quotes the line, which may be a secret.
        lines = [number for number, _ in getattr(error, "errors", [])] or [getattr(error, "lineno", 0)]
        raise InvalidSetting(f"AWS {which}: cannot be parsed. line={lines[0]}") from None
    return {title: {name: value or "" for name, value in parser.items(title)} for title in parser.sections()}
