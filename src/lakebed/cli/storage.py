"""`lakebed storage`: shows which deployment the object store belongs to, and attaches a store to this one.

It opens the stores directly, because a server does not start on a store of another deployment.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from lakebed.core.clock import SystemClock
from lakebed.core.ids import DeploymentId
from lakebed.governance.credentials.vault import MasterKeys
from lakebed.objects.blobs.store_attachment import StoreAttachment, StoreState, StoreVerdict
from lakebed.server.stores.identity import require_identity
from lakebed.server.stores.metadata import open_metadata
from lakebed.server.stores.object_store import attachment_of, open_storage, store_address

from .output import print_facts
from .settings_flags import add_settings_flags, read_settings

REFUSED: Final = 1
"""Exit status of `status` when a server would not start on the store."""

_VERDICTS: Final = {
    StoreVerdict.BELONGS: "belongs to this deployment",
    StoreVerdict.CLAIM: "empty; claimed by the first server that starts",
    StoreVerdict.ADOPT: "has no deployment id but matches the metadata; claimed by the next server that starts",
    StoreVerdict.FOREIGN: "belongs to another deployment",
    StoreVerdict.UNKNOWN_OBJECTS: "has no deployment id and contains objects unknown to the metadata",
    StoreVerdict.OBJECTS_MISSING: "empty, but the metadata references objects in it",
}

_Task = Callable[[StoreAttachment, argparse.Namespace], Awaitable[StoreState]]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the tasks."""
    tasks = parser.add_subparsers(title="tasks", metavar="TASK", required=True)
    _add(tasks, "status", "show which deployment the object store belongs to", _status)
    attach = _add(tasks, "attach", "assign the object store to this deployment", _attach)
    attach.description = (
        "Assigns the object store to this deployment after a check. Sweeps never delete objects in it that the metadata"
        " does not reference. Servers of the previous deployment stop deleting at once and report that they are not"
        " ready."
    )
    attach.add_argument("--replace", metavar="ID", help="the current deployment id of the store")
    attach.add_argument(
        "--accept-loss",
        action="store_true",
        help="attach a store although it lacks objects that the metadata references",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the task with open stores and print the state."""
    return asyncio.run(_run(arguments))


async def _run(arguments: argparse.Namespace) -> int:
    async with _opened(arguments) as (attachment, address):
        task: _Task = arguments.task
        state = await task(attachment, arguments)
    evidence = state.evidence
    facts = {
        "object_store": address,
        "store_deployment": evidence.store_deployment or "none",
        "metadata_deployment": evidence.metadata_deployment,
        "sampled_references": evidence.references.value,
        "verdict": _VERDICTS[state.decision],
    }
    print_facts(facts, as_json=arguments.json)
    return 0 if state.decision in (StoreVerdict.BELONGS, StoreVerdict.CLAIM, StoreVerdict.ADOPT) else REFUSED


@asynccontextmanager
async def _opened(arguments: argparse.Namespace) -> AsyncIterator[tuple[StoreAttachment, str]]:
    settings = read_settings(arguments).settings
    identity = require_identity(settings)
    meta = await open_metadata(settings, MasterKeys(identity.master_keys, identity.active_key_id))
    try:
        storage, _ = await open_storage(settings, SystemClock())
        try:
            yield attachment_of(settings, meta, storage), store_address(settings)
        finally:
            await asyncio.shield(storage.close())
    finally:
        await asyncio.shield(meta.close())


async def _status(attachment: StoreAttachment, arguments: argparse.Namespace) -> StoreState:
    return await attachment.inspect()


async def _attach(attachment: StoreAttachment, arguments: argparse.Namespace) -> StoreState:
    replacing = None if arguments.replace is None else DeploymentId(arguments.replace)
    await attachment.attach(replacing=replacing, accept_loss=arguments.accept_loss)
    return await attachment.inspect()


def _add(
    tasks: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str, task: _Task
) -> argparse.ArgumentParser:
    parser = tasks.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False)
    add_settings_flags(parser, serving=False)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(task=task)
    return parser
