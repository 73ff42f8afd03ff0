"""The supervisor: binds the ports, starts children, passes connections to workers, restarts ended and hung children.

It passes connections as descriptors, round-robin, which spreads them evenly; with a shared port the kernel left one
worker idle. It has no threads and no event loop, so that forking is always safe.

Workers serve requests; other roles run in their own processes. A child that ends is restarted as long as some worker
serves; a role that started once never stops the workers. A server whose children cannot start at all ends with the
error of the first, or the exception of the last. A child that does not respond is killed and restarted.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from lakebed.core.errors import LakebedError
from lakebed.core.extras import require_extra
from lakebed.core.settings import Settings
from lakebed.streams.servers.advertised_address import advertised_address

from ..logs import configure_logs
from ..metrics import clear_metrics
from ..selects import clear_spill
from ..stores.data_lock import DataFolderLock
from ..stores.identity import Identity, establish_identity
from .child import (
    CATALOG_CONNECTION,
    CONNECTION,
    CRASHED,
    READY,
    ChildContext,
    parse_crash,
    parse_failure,
    send_crash,
    send_failure,
)
from .handover import ConnectionHandover, WorkerListener
from .hang_watch import HangWatch
from .listeners import allow_many_descriptors, listen
from .process_table import ProcessState, ProcessTable
from .reloading import ReadSettings, Reloading, tls_context
from .responsiveness import Pulse
from .restarts import ExitHistory, StartHistory, pause_after_life
from .roles import ChildProcess, ProcessRole, roles_of

log = logging.getLogger("lakebed.server")

_STOPS: Final = (signal.SIGTERM, signal.SIGINT)
_KILL_SECONDS: Final = 5.0
"""How long after the shutdown grace a child is killed."""

_MESSAGE_BYTES: Final = 64 * 1024


def run(settings: Settings, read_again: ReadSettings | None = None) -> int:
    """Serve until stopped; returns the exit status. Raises LakebedError if the server cannot start.

    SIGHUP reloads the settings with `read_again`.
    """
    if settings.streams.listen is not None:
        require_extra("streams", "streams.listen")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the supervisor runs
    certificate = tls_context(settings)
    with DataFolderLock.acquire(settings.server.data, str(settings.server.listen)) as lock:
        identity = establish_identity(settings)
        given = settings
        listener, address = listen("server.listen", "--listen", settings.server.listen)
        settings = replace(settings, server=replace(settings.server, listen=address))
        accepting = [WorkerListener(listener, CONNECTION)]
        if settings.server.catalog_listen is not None:
            listener, address = listen("server.catalog_listen", "--catalog-listen", settings.server.catalog_listen)
            accepting.append(WorkerListener(listener, CATALOG_CONNECTION))
            settings = replace(settings, server=replace(settings.server, catalog_listen=address))
        streams: socket.socket | None = None
        if settings.streams.listen is not None:
            streams, address = listen("streams.listen", "--streams-listen", settings.streams.listen)
            settings = replace(settings, streams=replace(settings.streams, listen=address))
            advertised_address(settings, address.port)  # checked before any child starts
        allow_many_descriptors()
        with tempfile.TemporaryDirectory(prefix="lakebed-run-") as run_folder:
            configure_logs(settings.log, sys.stderr)
            clear_metrics(Path(run_folder))
            clear_spill(settings)
            reloading = Reloading(given, read_again, run_folder, certificate)
            return _Supervisor(settings, identity, accepting, run_folder, streams, lock, reloading).run()


def _exit_text(exit_code: int) -> str:
    """The exit of a child that reported no error."""
    return f"killed by {signal.Signals(-exit_code).name}" if exit_code < 0 else f"exit status {exit_code}"


class _Supervisor:
    def __init__(
        self,
        settings: Settings,
        identity: Identity,
        accepting: Sequence[WorkerListener],
        run_folder: str,
        streams: socket.socket | None,
        lock: DataFolderLock,
        reloading: Reloading,
    ) -> None:
        self._settings = settings
        self._identity = identity
        self._run_folder = run_folder
        self._lock = lock
        self._reloading = reloading
        self._handover = ConnectionHandover(accepting)
        self._roles = roles_of(settings, streams)
        """By process number."""
        self._table = ProcessTable([role.title for role in self._roles])
        self._children: dict[int, ChildProcess] = {}
        self._stopping = False
        self._stops = 0
        self._starts = {role: StartHistory(role.takes_connections) for role in self._roles}
        self._deaths = [ExitHistory() for _ in self._roles]
        self._restarts: dict[int, float] = {}
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._announced = False
        self._reload_wanted = False
        self._watch = HangWatch(self._table, self._handover, settings.server.hang_timeout, time.monotonic())

    def run(self) -> int:
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for stop in _STOPS:
            signal.signal(stop, self._on_stop)
        signal.signal(signal.SIGHUP, self._on_hangup)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in range(len(self._roles)):
            self._start(number)
        for each in self._handover.accepting:
            self._selector.register(each.listener, selectors.EVENT_READ, partial(self._accept, each))
        self._selector.register(self._wake_read, selectors.EVENT_READ, self._on_wake)
        try:
            while not self._stopping:
                for key, _ in self._selector.select(self._timeout()):
                    callback: Callable[[], None] = key.data
                    callback()
                self._reap()
                self._restart()
                self._watch.check(self._children.values(), time.monotonic())
                self._handover.pass_on(self._workers)
                if self._reload_wanted:
                    self._reload()
                self._announce_once()
                self._publish_states()
        finally:
            self._stop_children()
            signal.set_wakeup_fd(-1)
        return 0

    def _start(self, number: int) -> None:
        role = self._roles[number]
        ours, theirs = socket.socketpair()
        # Before the child has its own handlers, a stop would run the parent's, and be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                ours.close()
                self._become_child(role)
                status = role.run(self._context(role, number, theirs))
            except LakebedError as error:
                send_failure(theirs, error)
            except BaseException as error:
                log.exception("child process crashed", extra={"child": number})
                send_crash(theirs, error)
            finally:
                logging.shutdown()
                # Not sys.exit: the child must not run the parent's cleanup.
                os._exit(status)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
        # A full channel of a hung child must not block the supervisor.
        ours.setblocking(False)
        self._children[pid] = ChildProcess(role, number, pid, ours, theirs, time.monotonic())
        self._selector.register(ours, selectors.EVENT_READ, lambda: self._receive(pid))

    def _context(self, role: ProcessRole, number: int, channel: socket.socket) -> ChildContext:
        return ChildContext(
            self._reloading.applied_to(self._settings),
            self._identity,
            number,
            channel,
            self._run_folder,
            self._table,
            self._reloading.current,
            self._reloading.certificate,
            role.listener,
        )

    def _become_child(self, role: ProcessRole) -> None:
        """Undo the parent's signal handlers, and close its descriptors."""
        with suppress(OSError):
            # Absent outside Linux.
            Path("/proc/self/comm").write_text(role.process_name)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        # The parent decides when to stop: Ctrl-C reaches every process of the group.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
        self._lock.close()
        self._selector.close()
        self._handover.close()
        for another in self._roles:
            if another.listener is not None and another is not role:
                another.listener.close()
        os.close(self._wake_read)
        os.close(self._wake_write)
        for other in self._children.values():
            other.close()

    @property
    def _workers(self) -> list[ChildProcess]:
        """The processes that serve connections."""
        return [child for child in self._children.values() if child.role.takes_connections]

    def _accept(self, accepting: WorkerListener) -> None:
        self._handover.accept(accepting, self._workers)

    def _receive(self, pid: int) -> None:
        """Receive a child's message: ready, or an error."""
        found = self._children.get(pid)
        if found is None:
            return
        try:
            message = found.channel.recv(_MESSAGE_BYTES)
        except OSError:
            return
        if message.startswith(READY):
            found.ready = True
            found.pulse = Pulse(self._table.beats(found.number))
            self._starts[found.role].begin()
            message = message.removeprefix(READY)
        if message.startswith(CRASHED):
            found.crash = parse_crash(message)
        elif message:
            found.failure = parse_failure(message)

    def _announce_once(self) -> None:
        """Log `ready` when all processes are, except roles that retry after a transient failure."""
        workers = self._workers
        if self._announced or len(workers) < self._settings.server.workers:
            return
        if not all(each.ready for each in workers) or not all(starts.is_settled for starts in self._starts.values()):
            return
        self._announced = True
        server = self._settings.server
        log.info(
            "ready",
            extra={
                "address": server.url_of(server.listen),
                **({} if server.catalog_listen is None else {"catalog": server.url_of(server.catalog_listen)}),
                **({} if self._settings.streams.listen is None else {"streams": str(self._settings.streams.listen)}),
                "workers": server.workers,
                "data": str(server.data),
                "credentials": str(self._identity.secrets_path or "from the settings"),
            },
        )

    # -- children that end -------------------------------------------------------------------------------------------

    def _reap(self) -> None:
        while self._children:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid not in self._children:
                continue
            # Its last message may still be in the channel.
            self._receive(pid)
            dead = self._children.pop(pid)
            self._selector.unregister(dead.channel)
            if not self._stopping:
                self._handover.take_back(dead)
            dead.close()
            if not self._stopping:
                self._replace(dead, status)

    def _replace(self, dead: ChildProcess, status: int) -> None:
        """Schedule a restart. Raises the error that kept the first children from starting."""
        failure, exit_code, now = dead.failure, os.waitstatus_to_exitcode(status), time.monotonic()
        if failure is not None and not failure.retryable and not self._announced:
            raise failure
        self._deaths[dead.number].add(now)
        pause = pause_after_life(now - dead.started)
        if not dead.ready:
            starts = self._starts[dead.role]
            starts.fail(failure)
            if starts.is_hopeless(others_serve=any(w.ready for w in self._workers)):
                raise failure or LakebedError(
                    "a server process fails repeatedly at its start; see its traceback in the log. "
                    f"process={dead.role.process_name} starts={starts.failed} "
                    f"error={dead.crash or _exit_text(exit_code)}"
                )
            pause = starts.pause_seconds
        log.error(dead.role.died, extra={"child": dead.number, "status": exit_code}, exc_info=failure)
        self._restarts[dead.number] = now + pause

    def _restart(self) -> None:
        for number, due in list(self._restarts.items()):
            if due <= time.monotonic():
                del self._restarts[number]
                self._start(number)

    def _timeout(self) -> float:
        """Seconds until the next scheduled action."""
        if self._handover.is_pending:
            return 0.0
        now = time.monotonic()
        return max(0.0, min([self._watch.due, *self._restarts.values()]) - now)

    def _publish_states(self) -> None:
        """Write the state of each process for `/health/ready`."""
        now = time.monotonic()
        children = {child.number: child for child in self._children.values()}
        for number, deaths in enumerate(self._deaths):
            self._table.set_state(number, _state(children.get(number), is_restarting=deaths.is_loop(now)))

    # -- signals -----------------------------------------------------------------------------------------------------

    def _on_stop(self, *_: object) -> None:
        self._stopping = True
        self._stops += 1

    def _on_hangup(self, *_: object) -> None:
        self._reload_wanted = True

    def _on_wake(self) -> None:
        try:
            os.read(self._wake_read, 4096)
        except BlockingIOError:
            return

    def _reload(self) -> None:
        self._reload_wanted = False
        self._reloading.reload()
        for child in self._children.values():
            os.kill(child.pid, signal.SIGHUP)

    def _stop_children(self) -> None:
        """Stop the children gracefully; kill them after the grace, or on a second stop signal."""
        self._stopping = True
        self._handover.close()
        for found in self._children.values():
            os.kill(found.pid, signal.SIGTERM)
        deadline = time.monotonic() + self._settings.server.shutdown_grace + _KILL_SECONDS
        with selectors.DefaultSelector() as children:
            children.register(self._wake_read, selectors.EVENT_READ)
            while self._children and self._stops < 2 and time.monotonic() < deadline:
                self._reap()
                if self._children:
                    children.select(timeout=0.1)
                    self._on_wake()
        for found in self._children.values():
            os.kill(found.pid, signal.SIGKILL)


def _state(child: ChildProcess | None, *, is_restarting: bool) -> ProcessState:
    if is_restarting:
        return ProcessState.RESTARTING
    if child is None or not child.ready:
        return ProcessState.STARTING
    return ProcessState.READY if child.pulse.is_responsive else ProcessState.UNRESPONSIVE
