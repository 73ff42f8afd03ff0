"""Settings that change without a restart, on SIGHUP: the log level, and the contents of the TLS certificate files.

The supervisor reads and checks them, then publishes what is to be applied as a file in the run folder and sends SIGHUP
to its children. A child applies what differs from what it has, so a signal too many, or one that arrives before the
child has a handler, does no harm.
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
    """How often the certificate was read again."""

    def publish(self, run_folder: str) -> None:
        """Make it readable for the children. The file is replaced as a whole."""
        fresh = Path(run_folder) / f"{_FILE}.new"
        fresh.write_bytes(msgspec.json.encode(self))
        fresh.replace(Path(run_folder) / _FILE)


def published(run_folder: str) -> Reloaded | None:
    """What the supervisor published last; None if nothing was reloaded yet."""
    try:
        return msgspec.json.decode((Path(run_folder) / _FILE).read_bytes(), type=Reloaded)
    except FileNotFoundError:
        return None


@dataclass(slots=True)
class Reloading:
    """The supervisor's side: the values in force, and how they are read again."""

    given: Settings
    """As they were read at the start."""
    read: ReadSettings | None
    run_folder: str
    certificate: ssl.SSLContext | None
    """In force: children that start later are given it, whatever has become of its files."""
    current: Reloaded = field(init=False)

    def __post_init__(self) -> None:
        self.current = Reloaded(self.given.log.level)

    def reload(self) -> None:
        """Read all again, and publish what can be used. What cannot be used stays as it is, and is logged."""
        self._read_settings()
        self._read_certificate()
        self.current.publish(self.run_folder)

    def applied_to(self, settings: Settings) -> Settings:
        """The settings for a child that starts now."""
        return replace(settings, log=replace(settings.log, level=self.current.log_level))

    def _read_settings(self) -> None:
        if self.read is None:
            return
        try:
            fresh = self.read()
        except LakebedError as error:
            log.error("configuration not reloaded; the previous one stays in force", extra={"reason": str(error)})
            return
        set_log_level(fresh.log.level)
        self.current = msgspec.structs.replace(self.current, log_level=fresh.log.level)
        log.info("configuration reloaded", extra={"log_level": str(fresh.log.level)})
        if changed := changed_settings(self.given, fresh):
            log.warning("settings changed that take effect with a restart", extra={"settings": ", ".join(changed)})

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
    """Paths of the settings that differ and are not reloaded."""
    return [
        path
        for path in known_settings()
        if path != _RELOADABLE
        and functools.reduce(getattr, path.split("."), given) != functools.reduce(getattr, path.split("."), fresh)
    ]


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    """The server's certificate, if it has one. Raises InvalidSetting when it cannot be used."""
    if settings.server.tls_cert is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    certificate, key = settings.server.tls_cert, settings.server.tls_key
    try:
        # With a password for a key that has one, OpenSSL does not ask for it on the terminal.
        context.load_cert_chain(certificate, key, password="")
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidSetting(
            f"server.tls_cert: cannot be used. certificate={certificate} key={key} reason={reason}"
        ) from error
    return context
