"""The parent process: binds the port, starts workers, hands each new connection to the next of them.

Connections are passed as descriptors in turn, which spreads them evenly; with a shared port the kernel's choice left
one worker idle. The parent has no threads and no event loop, so that forking it is always safe, and a worker that
dies is replaced.
"""

from __future__ import annotations

import errno
import logging
import os
import selectors
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lakebed.core.errors import InvalidSetting, LakebedError
from lakebed.core.settings import Settings

from . import worker
from .identity import Identity, establish_identity
from .logs import configure_logs
from .metrics import clear_metrics

log = logging.getLogger("lakebed.server")

_BACKLOG: Final = 1024
_RESTART_PAUSE_SECONDS: Final = 0.5
_QUICK_DEATH_SECONDS: Final = 5.0
_QUICK_DEATHS: Final = 5
"""So many workers in a row that die young mean that the next would too."""


@dataclass(slots=True)
class _Worker:
    number: int
    pid: int
    channel: socket.socket
    started: float
    ready: bool = False


def run(settings: Settings) -> int:
    """Serve until told to stop; the exit status. Raises LakebedError for what keeps the server from starting."""
    identity = establish_identity(settings)
    listener = _listen(settings)
    with tempfile.TemporaryDirectory(prefix="lakebed-run-") as run_folder:
        configure_logs(settings.log, sys.stderr)
        clear_metrics(Path(run_folder))
        return _Supervisor(settings, identity, listener, run_folder).run()


def _listen(settings: Settings) -> socket.socket:
    address = settings.server.listen
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address.host, address.port))
    except OSError as error:
        listener.close()
        hint = (
            "another program has this port; choose another with --listen"
            if error.errno == errno.EADDRINUSE
            else error.strerror
        )
        raise InvalidSetting(f"server.listen: cannot listen. address={address} reason={hint}") from error
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    return listener


class _Supervisor:
    def __init__(self, settings: Settings, identity: Identity, listener: socket.socket, run_folder: str) -> None:
        self._settings = settings
        self._identity = identity
        self._listener = listener
        self._run_folder = run_folder
        self._workers: dict[int, _Worker] = {}
        self._turn = 0
        self._stopping = False
        self._quick_deaths = 0
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._announced = False

    def run(self) -> int:
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for index in range(self._settings.server.workers):
            self._start(index)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._on_wake)
        try:
            while not self._stopping:
                for key, _ in self._selector.select():
                    callback: Callable[[], None] = key.data
                    callback()
                self._reap()
                if self._quick_deaths >= _QUICK_DEATHS:
                    log.error("workers keep dying at once; giving up")
                    self._stop_workers()
                    return 1
            self._listener.close()
            self._stop_workers()
        finally:
            signal.set_wakeup_fd(-1)
        return 0

    def _start(self, number: int) -> None:
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                ours.close()
                self._become_worker()
                status = worker.serve(self._settings, self._identity, number, theirs, self._run_folder)
            except LakebedError as error:
                log.error("the worker cannot start: %s", error)
            except BaseException:
                log.exception("the worker crashed")
            finally:
                logging.shutdown()
                # Not sys.exit: the parent's own cleanup is not the child's to run.
                os._exit(status)
        theirs.close()
        self._workers[pid] = _Worker(number, pid, ours, time.monotonic())
        self._selector.register(ours, selectors.EVENT_READ, lambda: self._on_message(pid))

    def _become_worker(self) -> None:
        """Leave the parent's business behind."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._selector.close()
        self._listener.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
        for other in self._workers.values():
            other.channel.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    log.warning("out of descriptors or memory; a connection waits", exc_info=error)
                    time.sleep(0.05)
                    return
                continue
            with connection:
                self._hand_over(connection)

    def _hand_over(self, connection: socket.socket) -> None:
        """Give the connection to the next worker that takes it."""
        candidates = [w for w in self._workers.values() if w.ready] or list(self._workers.values())
        for _ in range(len(candidates)):
            self._turn += 1
            chosen = candidates[self._turn % len(candidates)]
            try:
                socket.send_fds(chosen.channel, [b"C"], [connection.fileno()])
            except OSError:
                # It has died: the next one.
                continue
            return

    def _on_message(self, pid: int) -> None:
        found = self._workers.get(pid)
        if found is None:
            return
        try:
            message = found.channel.recv(16)
        except OSError:
            message = b""
        if not message:
            self._selector.unregister(found.channel)
            return
        found.ready = True
        if not self._announced and all(w.ready for w in self._workers.values()):
            self._announced = True
            self._announce()

    def _announce(self) -> None:
        scheme = "https" if self._settings.server.tls_cert is not None else "http"
        log.info(
            "ready",
            extra={
                "address": f"{scheme}://{self._settings.server.listen}",
                "workers": self._settings.server.workers,
                "data": str(self._settings.server.data),
                "credentials": str(self._identity.secrets_path or "from the settings"),
            },
        )

    def _reap(self) -> None:
        while self._workers:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            dead = self._workers.pop(pid, None)
            if dead is None:
                continue
            with suppress(KeyError):
                self._selector.unregister(dead.channel)
            dead.channel.close()
            if self._stopping:
                continue
            young = time.monotonic() - dead.started < _QUICK_DEATH_SECONDS
            self._quick_deaths = self._quick_deaths + 1 if young else 0
            log.error("a worker died and is replaced", extra={"worker": dead.number, "status": status})
            if young:
                time.sleep(_RESTART_PAUSE_SECONDS)
            if self._quick_deaths < _QUICK_DEATHS:
                self._start(dead.number)

    def _on_stop(self, *_: object) -> None:
        self._stopping = True

    def _on_wake(self) -> None:
        try:
            os.read(self._wake_read, 4096)
        except BlockingIOError:
            return

    def _stop_workers(self) -> None:
        self._stopping = True
        for pid in self._workers:
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + self._settings.server.shutdown_grace + 5
        while self._workers and time.monotonic() < deadline:
            self._reap()
            if self._workers:
                self._selector.select(timeout=0.1)
        for pid in self._workers:
            os.kill(pid, signal.SIGKILL)
