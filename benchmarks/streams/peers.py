"""The servers under test: Lakebed with streams, and Fluss as three processes, on one disk."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import processes
from benchmarks.servers import free_port
from benchmarks.streams import programs

USER: Final = "streams-bench"
SECRET: Final = "streams-bench-secret"  # of a short-lived server on the loopback interface
_TIMEOUT_SECONDS: Final = 90.0
_OPEN_PACKAGES: Final = ("java.nio", "sun.nio.ch", "java.lang", "java.util")
_ZOOKEEPER: Final = "org.apache.fluss.shaded.zookeeper3.org.apache.zookeeper.server.quorum.QuorumPeerMain"
_COORDINATOR: Final = "org.apache.fluss.server.coordinator.CoordinatorServer"
_TABLETS: Final = "org.apache.fluss.server.tablet.TabletServer"


@dataclass(frozen=True, slots=True)
class StreamSite:
    """A running stream server."""

    name: str
    version: str
    durability: str
    address: str
    credentials: tuple[str, ...]
    process_ids: tuple[int, ...]

    def cpu_seconds(self) -> float:
        """Processor time of all processes so far."""
        return sum(processes.cpu_seconds(each) for each in self.process_ids)

    def resident_bytes(self) -> int:
        """Memory of all processes now."""
        found = [processes.memory(each) for root in self.process_ids for each in processes.family(root)]
        return sum(each.resident for each in found if each is not None)

    def kill(self) -> None:
        """Kill all processes."""
        for each in [each for root in self.process_ids for each in processes.family(root)]:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)


@contextmanager
def lakebed(folder: Path, *flags: str, store_secret: str = "") -> Iterator[StreamSite]:
    """Run Lakebed from this checkout; `store_secret` is the secret key of the S3 store in `flags`."""
    from lakebed import __version__

    port, objects = free_port(), free_port()
    command = [sys.executable, "-m", "lakebed", "serve", "--data", str(folder), "--workers", "1"]
    command += ["--listen", f"127.0.0.1:{objects}", "--streams-listen", f"127.0.0.1:{port}", *flags]
    environment = {"LAKEBED_ROOT_ACCESS_KEY": USER, "LAKEBED_ROOT_SECRET_KEY": SECRET}
    if store_secret:
        environment["LAKEBED_STORAGE__S3__SECRET_ACCESS_KEY"] = store_secret
    with ExitStack() as stack:
        started = _started(stack, command, folder.with_suffix(".log"), environment)
        _wait_for(port, started)
        yield StreamSite(
            "Lakebed",
            __version__,
            "fdatasync of the bucket's log; concurrent batches share it",
            f"127.0.0.1:{port}",
            (USER, SECRET),
            (started.pid,),
        )


@contextmanager
def object_store(folder: Path) -> Iterator[str]:
    """Run another Lakebed as the S3 store of a stream server; its endpoint."""
    port = free_port()
    command = [sys.executable, "-m", "lakebed", "serve", "--data", str(folder), "--workers", "1"]
    command += ["--listen", f"127.0.0.1:{port}"]
    environment = {"LAKEBED_ROOT_ACCESS_KEY": USER, "LAKEBED_ROOT_SECRET_KEY": SECRET}
    with ExitStack() as stack:
        started = _started(stack, command, folder.with_suffix(".log"), environment)
        _wait_for(port, started)
        yield f"http://127.0.0.1:{port}"


@contextmanager
def fluss(folder: Path) -> Iterator[StreamSite]:
    """Run Fluss with its defaults: ZooKeeper, a coordinator and a tablet server."""
    folder.mkdir(parents=True)
    zookeeper, coordinator, tablets = free_port(), free_port(), free_port()
    (folder / "zoo.cfg").write_text(
        f"tickTime=2000\ndataDir={folder / 'zookeeper'}\nclientPort={zookeeper}\n"
        "clientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
    )
    for name, port, others in (("coordinator", coordinator, ""), ("tablets", tablets, "tablet-server.id: 0\n")):
        (folder / name).mkdir()
        (folder / name / "server.yaml").write_text(
            f"zookeeper.address: 127.0.0.1:{zookeeper}\nzookeeper.path.root: /fluss\n"
            f"bind.listeners: FLUSS://127.0.0.1:{port}\ndata.dir: {folder / 'data'}\n"
            f"remote.data.dir: {folder / 'remote'}\n{others}"
        )
    base = [programs.java(), "-Xmx2g", *(f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in _OPEN_PACKAGES)]
    base += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{programs.server_jars()}/*"]
    with ExitStack() as stack:
        commands = {
            zookeeper: [*base, _ZOOKEEPER, str(folder / "zoo.cfg")],
            coordinator: [*base, _COORDINATOR, "--configDir", str(folder / "coordinator")],
            tablets: [*base, _TABLETS, "--configDir", str(folder / "tablets")],
        }
        started = []
        for port, command in commands.items():
            started.append(_started(stack, command, folder / f"{port}.log", {}))
            _wait_for(port, started[-1])
        yield StreamSite(
            "Fluss",
            programs.SERVER,
            "its defaults: written to the log file, which is not synced",
            f"127.0.0.1:{coordinator}",
            (),
            tuple(each.pid for each in started),
        )


def _started(
    stack: ExitStack, command: Sequence[str], log: Path, environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    log.parent.mkdir(parents=True, exist_ok=True)
    output = stack.enter_context(log.open("wb"))
    process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=os.environ | environment)
    stack.callback(_stop, process)
    return process


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _TIMEOUT_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"server ended. status={process.returncode} command={process.args!r}")
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"server does not listen. port={port}")
