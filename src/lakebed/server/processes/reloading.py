"""Reloads settings on SIGHUP without a restart: the log level and the TLS certificate files.

The supervisor reads and validates them, publishes the values as a file in the run folder and sends SIGHUP to its
children. A child applies the values that differ from its own, so a repeated signal, or one that arrives before the
child has a handler, is harmless.
"""

from __future__ import annotations

import functools
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec

from lakebed.core.errors import InvalidSetting, LakebedError
from lakebed.core.settings import LogLevel, Settings, known_settings

from ..logs import set_log_level

log = logging.getLogger("lakebed.server")

ReadSettings = Callable[[], Settings]
"""Reads the settings again, from the file, the environment and the flags. Raises LakebedError."""

_RELOADABLE: Final = "log.level"
_FILE: Final = "reloaded.json"


class Reloaded(msgspec.Struct, frozen=True):
    """The values that children apply."""

    log_level: LogLevel
    certificate: int = 0
    """How often the certificate was reloaded."""

    def publish(self, run_folder: str) -> None:
        """Publish the values to the children. Replaces the file atomically."""
        fresh = Path(run_folder) / f"{_FILE}.new"
        fresh.write_bytes(msgspec.json.encode(self))
        fresh.replace(Path(run_folder) / _FILE)


def published(run_folder: str) -> Reloaded | None:
    """The values that the supervisor published last; None before the first reload."""
    try:
        return msgspec.json.decode((Path(run_folder) / _FILE).read_bytes(), type=Reloaded)
    except FileNotFoundError:
        return None


@dataclass(slots=True)
class Reloading:
    """The supervisor's side: the current values, and their reload."""

    given: Settings
    """As read at the start."""
    read: ReadSettings | None
    run_folder: str
    certificate: ssl.SSLContext | None
    """The current one. Children that start later get it, whatever its files contain by then."""
    current: Reloaded = field(init=False)

    def __post_init__(self) -> None:
        self.current = Reloaded(self.given.log.level)

    def reload(self) -> None:
        """Reload everything and publish the valid values. Invalid ones are logged, and the previous ones stay."""
        self._read_settings()
        self._read_certificate()
        self.current.publish(self.run_folder)

    def applied_to(self, settings: Settings) -> Settings:
        """The settings of a child that starts now."""
        return replace(settings, log=replace(settings.log, level=self.current.log_level))

    def _read_settings(self) -> None:
        if self.read is None:
            return
        try:
            fresh = self.read()
        except LakebedError as error:
            log.error("settings not reloaded; the previous ones stay in use", extra={"reason": str(error)})
            return
        set_log_level(fresh.log.level)
        self.current = msgspec.structs.replace(self.current, log_level=fresh.log.level)
        log.info("settings reloaded", extra={"log_level": str(fresh.log.level)})
        if changed := changed_settings(self.given, fresh):
            log.warning("changed settings require a restart", extra={"settings": ", ".join(changed)})

    def _read_certificate(self) -> None:
        if self.certificate is None:
            return
        try:
            self.certificate = tls_context(self.given)
        except InvalidSetting as error:
            log.error("TLS certificate not reloaded; the previous one stays in use", extra={"reason": str(error)})
            return
        self.current = msgspec.structs.replace(self.current, certificate=self.current.certificate + 1)
        log.info("TLS certificate reloaded", extra={"certificate": str(self.given.server.tls_cert)})


def changed_settings(given: Settings, fresh: Settings) -> list[str]:
    """Paths of changed settings that require a restart."""
    return [
        path
        for path in known_settings()
        if path != _RELOADABLE
        and functools.reduce(getattr, path.split("."), given) != functools.reduce(getattr, path.split("."), fresh)
    ]


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    """The TLS context of the server; None for plain HTTP. Raises InvalidSetting if the files are unusable."""
    if settings.server.tls_cert is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    certificate, key = settings.server.tls_cert, settings.server.tls_key
    try:
        # With a password argument, OpenSSL does not prompt for one on the terminal.
        context.load_cert_chain(certificate, key, password="")
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidSetting(
            f"server.tls_cert: unusable certificate or key. certificate={certificate} key={key} reason={reason}"
        ) from error
    return context
