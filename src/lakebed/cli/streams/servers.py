"""`lakebed streams status` and `forget-server`: stranded buckets, and giving up a lost server."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import msgspec

from lakebed.client import LakebedClient
from lakebed.client.streams.servers import StrandedBucket, StreamServer, StreamStatus
from lakebed.core.errors import InvalidInput, NotFound

from ..governance.administration import moment
from ..output import print_json, print_rows
from ..server_requests import add_server_command

__all__ = ["configure_servers"]


def configure_servers(tasks: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add both subcommands."""
    add_server_command(tasks, "status", "show the leader, all servers and stranded buckets", _status)
    forget = add_server_command(
        tasks,
        "forget-server",
        "give up a permanently lost server and the records that exist only on its disk",
        _forget,
    )
    forget.add_argument("server", metavar="SERVER", help="its name or number, from `lakebed streams status`")
    forget.add_argument("--yes", action="store_true", help="skip the confirmation")


def _status(client: LakebedClient, arguments: argparse.Namespace) -> None:
    status = client.stream_servers.status()
    if arguments.json:
        print_json(msgspec.to_builtins(status))
        return
    leader = status.leader
    print("leader    none" if leader is None else f"leader    {leader.number}  {leader.address}  epoch {leader.epoch}")
    print()
    rows = [_server_row(each, status) for each in status.servers]
    print_rows(("number", "server", "address", "state", "acknowledges", "last seen"), rows, as_json=False)
    for each in status.servers:
        if each.failure:
            print(f"server {each.number}: {each.failure}")
    print()
    if not status.stranded:
        print("no stranded buckets")
        return
    print(f"{len(status.stranded)} stranded buckets: acknowledged records exist only on one server's disk")
    _print_buckets(status.stranded)


def _server_row(server: StreamServer, status: StreamStatus) -> tuple[str, ...]:
    state = "running" if server.is_running else "down"
    if status.leader is not None and status.leader.server == server.server:
        state = "leads"
    durability = "after upload" if server.ack_after_upload else "from its disk"
    return str(server.number), server.server, server.address, state, durability, moment(server.last_seen_ms)


def _print_buckets(buckets: Sequence[StrandedBucket]) -> None:
    rows = [
        (
            f"{each.database}.{each.table}" + (f" ({each.partition})" if each.partition else ""),
            str(each.bucket),
            each.server,
            offsets(each),
            each.reason,
        )
        for each in buckets
    ]
    print_rows(("table", "bucket", "server", "offsets", "reason"), rows, as_json=False)


def offsets(bucket: StrandedBucket) -> str:
    """The range of offsets that exist only on the server's disk, as far as known."""
    start = "?" if bucket.uploaded_end is None else str(bucket.uploaded_end)
    if bucket.recorded_end is None or bucket.recorded_end <= (bucket.uploaded_end or 0):
        return f"from {start}"
    return f"{start}-{bucket.recorded_end - 1}, or more"


def _forget(client: LakebedClient, arguments: argparse.Namespace) -> None:
    status = client.stream_servers.status()
    name = _name(status, arguments.server)
    buckets = [each for each in status.stranded if each.server == name]
    if not arguments.yes:
        _confirm(name, buckets)
    forgotten = client.stream_servers.forget(name)
    if arguments.json:
        print_json(msgspec.to_builtins(forgotten))
    else:
        print(f"forgot server {forgotten.server}: {len(forgotten.buckets)} buckets continue with the uploaded records")


def _name(status: StreamStatus, server: str) -> str:
    names = {each.server for each in status.servers} | {each.server for each in status.stranded}
    by_number = {str(each.number): each.server for each in status.servers}
    name = server if server in names else by_number.get(server)
    if name is None:
        raise NotFound(f"no such stream server; `lakebed streams status` lists them. server={server}")
    return name


def _confirm(name: str, buckets: Sequence[StrandedBucket]) -> None:
    """Print the possible loss and confirm it by the server's name. Raises InvalidInput if it does not match."""
    if buckets:
        print(f"Acknowledged records that exist only on server {name} are lost unless its disk returns first:")
        _print_buckets(buckets)
    else:
        print(f"No records exist only on server {name}: nothing is lost.")
    if not sys.stdin.isatty():
        raise InvalidInput("not confirmed: run it on a terminal, or add --yes", argument="--yes")
    print(f"Type the name of the server to forget it ({name}): ", end="", flush=True)
    if sys.stdin.readline().strip() != name:
        raise InvalidInput("not confirmed: the name does not match; nothing was changed")
