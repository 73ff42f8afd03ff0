"""The files that TLS connections use: certificate authorities, a client certificate, and whether they have changed."""

from __future__ import annotations

import hashlib
import logging
import os
import ssl
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from lakebed.core.errors import InvalidInput, Unavailable

log = logging.getLogger("lakebed.net")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Authorities to trust in place of the system's, and a client certificate with its key."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    verifies: bool = True
    """Whether the server's certificate must be signed by a trusted authority."""

    def validate(self, names: tuple[str, str, str] = ("tls_ca", "tls_client_cert", "tls_client_key")) -> None:
        """Raises InvalidInput: paths are absolute, a certificate comes with its key, and all can be used now.

        `names` are those of the settings that have the paths.
        """
        paths = dict(zip(names, (self.ca, self.cert, self.key), strict=True))
        for name, path in paths.items():
            if path is not None and not os.path.isabs(path):
                raise InvalidInput(f"{name} is an absolute path", argument=name, value=path)
        if (self.cert is None) != (self.key is None):
            missing = names[2] if self.key is None else names[1]
            raise InvalidInput("a client certificate and its key come together", argument=missing)
        try:
            self.context()
        except Unavailable as error:
            raise InvalidInput(
                str(error), argument=next((name for name, path in paths.items() if path), None)
            ) from error

    @property
    def are_named(self) -> bool:
        """Whether any file is named."""
        return self.ca is not None or self.cert is not None

    def context(self) -> ssl.SSLContext:
        """A TLS context from the files as they are now. Raises Unavailable if they cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if not self.verifies:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key, password=_no_password)
        except (OSError, ssl.SSLError, ValueError) as error:
            # Which file it is, OpenSSL does not say; that a key does not fit its certificate, it does.
            reason = getattr(error, "strerror", None) or type(error).__name__
            files = ", ".join(path for path in (self.ca, self.cert, self.key) if path)
            raise Unavailable(f"the files for TLS cannot be used. files={files} reason={reason}") from error
        return context


class TlsContexts:
    """The TLS context of files that may be replaced while the server runs.

    Files that were replaced by unusable ones leave the context as it was.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._watch = TlsFileWatch(files)
        self._context: ssl.SSLContext | None = None

    def current(self) -> ssl.SSLContext | None:
        """The context, unless the files must be read. Costs three calls of `stat` at most."""
        return self._context if self._watch.look() is not TlsFileState.OTHER else None

    def load(self) -> ssl.SSLContext:
        """Read the files, which takes milliseconds. Raises Unavailable if they cannot be used and none was before."""
        # Before the files are read: what is written meanwhile is seen as a change.
        self._watch.remember()
        try:
            self._context = self._files.context()
        except Unavailable as error:
            if self._context is None:
                raise
            log.warning("certificates that were replaced cannot be used: %s", error)
        return self._context


class TlsFileState(Enum):
    """How files look beside those in use."""

    UNTOUCHED = auto()
    """Nobody wrote to them since the last look."""
    SAME = auto()
    """Written, with what was in them."""
    OTHER = auto()


class TlsFileWatch:
    """Tells whether files have other contents than those in use.

    To look costs three calls of `stat`; only if one of these differs from the last time are the files read.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._paths = [Path(path) for path in (files.ca, files.cert, files.key) if path]
        self._seen: list[tuple[int, ...] | None] = []
        self._digest = b""

    def remember(self) -> None:
        """The files as they are now are those in use."""
        self._seen = self._look()
        self._digest = self._fingerprint()

    def look(self) -> TlsFileState:
        """How they are now. What was told once as other is told again only after the next write."""
        looked = self._look()
        if looked == self._seen:
            return TlsFileState.UNTOUCHED
        self._seen = looked
        return TlsFileState.SAME if self._fingerprint() == self._digest else TlsFileState.OTHER

    def _look(self) -> list[tuple[int, ...] | None]:
        return [_identity(path) for path in self._paths]

    def _fingerprint(self) -> bytes:
        digest = hashlib.sha256()
        for path in self._paths:
            try:
                content = path.read_bytes()
            except OSError:
                content = b""
            digest.update(len(content).to_bytes(8) + content)
        return digest.digest()


def _identity(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)


def _no_password() -> str:
    """Asked by OpenSSL for an encrypted key: without this it would ask whoever sits at the terminal."""
    raise ValueError("the key is encrypted")
