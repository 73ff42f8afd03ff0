"""Credentials from a profile of the shared AWS files: static keys, a helper process, or a role to assume."""

from __future__ import annotations

import configparser
import os.path
from collections.abc import Mapping
from dataclasses import dataclass

from ...core.errors import InvalidSetting, NotSupported, Unauthenticated, Unavailable
from ...core.secrets import Secret
from .container import ContainerSource
from .document import credentials_of, parse_object
from .environment import EnvironmentSource
from .host_environment import HostEnvironment
from .imds import InstanceMetadataSource
from .model import Credentials, CredentialSource
from .sts import DURATION_SECONDS, AssumedRole, TokenService
from .web_identity import default_session_name, exchange_token_file

_UNSUPPORTED = ("sso_session", "sso_start_url", "login_session")
"""Settings of profiles that require an interactive login."""


@dataclass(frozen=True, slots=True)
class ProfileSource:
    """Applies if the profile `AWS_PROFILE` (else `default`) exists and configures credentials.

    A profile that only sets a region or the like does not apply. A missing profile that `AWS_PROFILE` names is an
    error, because the next source would be an unintended identity.
    """

    host_environment: HostEnvironment
    region: str | None = None
    v1_fallback: bool = False

    name = "profile"
    survives_outage = False

    async def load(self) -> Credentials | None:
        """Credentials by the current files."""
        profiles = await read_profiles(self.host_environment)
        chosen = self.host_environment.value("AWS_PROFILE")
        name = chosen or "default"
        if name not in profiles:
            if chosen:
                raise InvalidSetting(f"AWS_PROFILE: no such profile. found={name!r}")
            return None
        return await self._resolve(name, profiles, ())

    async def _resolve(self, name: str, profiles: dict[str, Profile], path: tuple[str, ...]) -> Credentials | None:
        """Credentials of profile `name`; `path` holds the profiles that reference it."""
        if name not in profiles:
            raise InvalidSetting(f"source_profile: no such profile. profile={path[-1]!r} found={name!r}")
        profile = profiles[name]
        # A profile may reference itself as source_profile: then its static keys are used, not its role.
        if profile.get("role_arn") and path[-1:] != (name,):
            return await self._assume(name, profiles, path)
        if profile.get("aws_access_key_id") or profile.get("aws_secret_access_key"):
            return self._static_keys(name, profile)
        if profile.get("credential_process"):
            return await self._process_keys(profile["credential_process"])
        for setting in _UNSUPPORTED:
            if setting in profile:
                raise NotSupported(f"profile requires an interactive login. profile={name!r} setting={setting}")
        return None

    async def _assume(self, name: str, profiles: dict[str, Profile], path: tuple[str, ...]) -> Credentials:
        profile = profiles[name]
        if name in path:
            raise InvalidSetting(f"source_profile: profiles form a cycle. profiles={'>'.join((*path, name))}")
        if profile.get("mfa_serial"):
            raise NotSupported(f"profile requires an MFA code. profile={name!r} setting=mfa_serial")
        role = AssumedRole(
            arn=profile["role_arn"],
            session_name=profile.get("role_session_name") or default_session_name(self.host_environment),
            duration_seconds=_duration(name, profile),
            external_id=profile.get("external_id") or None,
        )
        region = profile.get("region") or self.region or self._environment_region()
        token_file = profile.get("web_identity_token_file")
        if token_file:
            return await exchange_token_file(self.host_environment, token_file, role, region, self.name)
        base = await self._source_credentials(name, profiles, path)
        return await TokenService(self.host_environment, region).assume_role(base, role, self.name)

    async def _source_credentials(self, name: str, profiles: dict[str, Profile], path: tuple[str, ...]) -> Credentials:
        """The credentials that assume the role."""
        profile = profiles[name]
        source_profile, credential_source = profile.get("source_profile"), profile.get("credential_source")
        if bool(source_profile) == bool(credential_source):
            raise InvalidSetting(f"role_arn: requires source_profile or credential_source, not both. profile={name!r}")
        if source_profile:
            base = await self._resolve(source_profile, profiles, (*path, name))
        else:
            base = await self._named_source(credential_source or "").load()
        if base is None:
            raise Unauthenticated(f"profile has no credentials to assume its role. profile={name!r}")
        return base

    def _named_source(self, name: str) -> CredentialSource:
        match name:
            case "Environment":
                return EnvironmentSource(self.host_environment)
            case "EcsContainer":
                return ContainerSource(self.host_environment)
            case "Ec2InstanceMetadata":
                return InstanceMetadataSource(self.host_environment, self.v1_fallback)
            case _:
                raise InvalidSetting(
                    f"credential_source: must be Environment, EcsContainer or Ec2InstanceMetadata. found={name!r}"
                )

    def _static_keys(self, name: str, profile: Profile) -> Credentials:
        for setting in ("aws_access_key_id", "aws_secret_access_key"):
            if not profile.get(setting):
                raise InvalidSetting(f"{setting}: missing. profile={name!r}")
        token = profile.get("aws_session_token") or profile.get("aws_security_token")
        return Credentials(
            profile["aws_access_key_id"],
            Secret(profile["aws_secret_access_key"]),
            Secret(token) if token else None,
            source=self.name,
        )

    async def _process_keys(self, command: str) -> Credentials:
        document = parse_object(await self.host_environment.run_process(command), "credential_process")
        if document.get("Version") != 1:
            raise Unavailable(f"credential_process: output must have version 1. found={document.get('Version')!r:.100}")
        return credentials_of(document, "credential_process")

    def _environment_region(self) -> str | None:
        return self.host_environment.value("AWS_REGION", "AWS_DEFAULT_REGION") or None


async def read_profiles(host_environment: HostEnvironment) -> dict[str, Profile]:
    """The profiles of both files; a missing file has none."""
    home = host_environment.value("HOME")

    async def text(variable: str, default: str) -> str:
        path = host_environment.value(variable)
        if not path:
            if not home:
                return ""
            path = os.path.join(home, ".aws", default)
        elif path.startswith("~/") and home:
            path = os.path.join(home, path[2:])
        return await host_environment.read_file(path) or ""

    return merge_profiles(
        await text("AWS_SHARED_CREDENTIALS_FILE", "credentials"), await text("AWS_CONFIG_FILE", "config")
    )


async def find_region(host_environment: HostEnvironment) -> str | None:
    """The region of the environment or the profile."""
    region = host_environment.value("AWS_REGION", "AWS_DEFAULT_REGION")
    if region:
        return region
    profiles = await read_profiles(host_environment)
    return profiles.get(host_environment.value("AWS_PROFILE") or "default", {}).get("region") or None


def _duration(name: str, profile: Profile) -> int:
    text = profile.get("duration_seconds") or str(DURATION_SECONDS)
    if not text.isdecimal() or not 900 <= int(text) <= 43_200:
        raise InvalidSetting(f"duration_seconds: must be 900 to 43200. profile={name!r} found={text!r}")
    return int(text)


Profile = Mapping[str, str]
"""Settings of one profile, with names in lower case."""


def merge_profiles(credentials_text: str, config_text: str) -> dict[str, Profile]:
    """Profiles by name. Where both files set a value, the credentials file wins."""
    profiles: dict[str, dict[str, str]] = {}
    sections = _sections(config_text, "config file")
    # `[profile default]` wins over `[default]`, so it is merged later.
    for title in sorted(sections, key=lambda title: title != "default"):
        name = _profile_named(title)
        if name is not None:
            profiles.setdefault(name, {}).update(sections[title])
    for title, settings in _sections(credentials_text, "credentials file").items():
        profiles.setdefault(title.strip(), {}).update(settings)
    return {name: dict(settings) for name, settings in profiles.items()}


def _profile_named(title: str) -> str | None:
    """The profile of a section in the config file; None for other sections (`sso-session …`, `services …`)."""
    if title == "default":
        return title
    kind, _, name = title.partition(" ")
    name = name.strip()
    if kind != "profile" or not name:
        return None
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] and name[0] in "\"'" else name


def _sections(text: str, which: str) -> dict[str, dict[str, str]]:
    # The parser's default section gets a name that no file contains: `[default]` is an ordinary profile.
    parser = configparser.RawConfigParser(default_section="\0", strict=False, allow_no_value=True)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        # The parser's own message quotes the line, which may be a secret.
        lines = [number for number, _ in getattr(error, "errors", [])] or [getattr(error, "lineno", 0)]
        raise InvalidSetting(f"AWS {which}: cannot be parsed. line={lines[0]}") from None
    return {title: {name: value or "" for name, value in parser.items(title)} for title in parser.sections()}
