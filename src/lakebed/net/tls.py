"""TLS files of outgoing connections, reloaded when they change: CA certificates and a client certificate."""

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
    """CA certificates that replace the system's, and a client certificate with its key."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    verifies: bool = True
    """Whether the server's certificate must be signed by a trusted authority."""

    def validate(self, names: tuple[str, str, str] = ("tls_ca", "tls_client_cert", "tls_client_key")) -> None:
        """Check that paths are absolute, a certificate has its key, and all files are usable. Raises InvalidInput.

        `names` are the settings that hold the paths.
        """
        paths = dict(zip(names, (self.ca, self.cert, self.key), strict=True))
        for name, path in paths.items():
            if path is not None and not os.path.isabs(path):
                raise InvalidInput(f"{name}: expected an absolute path", argument=name, value=path)
        if (self.cert is None) != (self.key is None):
            missing = names[2] if self.key is None else names[1]
            raise InvalidInput("missing: a client certificate needs its key, set both or neither", argument=missing)
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
        """A TLS context from the current files. Raises Unavailable if they are unusable."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if not self.verifies:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key, password=_no_password)
        except (OSError, ssl.SSLError, ValueError) as error:
            # OpenSSL does not name the file; it does report a key that does not match its certificate.
            reason = getattr(error, "strerror", None) or type(error).__name__
            files = ", ".join(path for path in (self.ca, self.cert, self.key) if path)
            raise Unavailable(f"unusable TLS files. files={files} reason={reason}") from error
        return context


class TlsContexts:
    """The TLS context of files that may be replaced while the server runs.

    Unusable new files leave the previous context in use.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._watch = TlsFileWatch(files)
        self._context: ssl.SSLContext | None = None

    def current(self) -> ssl.SSLContext | None:
        """The context, unless the files must be read. Costs three calls of `stat` at most."""
        return self._context if self._watch.check() is not TlsFileState.CHANGED else None

    def load(self) -> ssl.SSLContext:
        """Read the files, which takes milliseconds. Raises Unavailable if they are unusable and there is no context."""
        # Before the files are read, so that a concurrent write is seen as a change.
        self._watch.remember()
        try:
            self._context = self._files.context()
        except Unavailable as error:
            if self._context is None:
                raise
            log.warning("TLS files not reloaded; the previous ones stay in use: %s", error)
        return self._context


class TlsFileState(Enum):
    """The state of files compared with those in use."""

    UNTOUCHED = auto()
    """Not written since the last check."""
    SAME = auto()
    """Written with the same contents."""
    CHANGED = auto()


class TlsFileWatch:
    """Detects changed file contents.

    A check costs three calls of `stat`; it reads the files only if one of these differs from the last time.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._paths = [Path(path) for path in (files.ca, files.cert, files.key) if path]
        self._seen: list[tuple[int, ...] | None] = []
        self._digest = b""

    def remember(self) -> None:
        """Record the current files as those in use."""
        self._seen = self._stat()
        self._digest = self._fingerprint()

    def check(self) -> TlsFileState:
        """The current state. A change is reported once, until the next write."""
        seen = self._stat()
        if seen == self._seen:
            return TlsFileState.UNTOUCHED
        self._seen = seen
        return TlsFileState.SAME if self._fingerprint() == self._digest else TlsFileState.CHANGED

    def _stat(self) -> list[tuple[int, ...] | None]:
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
    """Fail for an encrypted key: OpenSSL would prompt on the terminal otherwise."""
    raise ValueError("the key is encrypted")
