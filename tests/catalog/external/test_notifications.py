"""Notifications apply in the sender's order, in whatever order they arrive."""

from __future__ import annotations

from itertools import permutations

import pytest

from lakebed.catalog.catalogs.service import UNDROP_WINDOW
from lakebed.catalog.external.notifications import Notification, NotificationKind, NotificationReceiver
from lakebed.catalog.idempotency import Mutation
from lakebed.catalog.identifiers import Identifier
from lakebed.catalog.model import CatalogKind
from lakebed.core.errors import AccessDenied, AlreadyExists, InvalidInput, NoSuchNamespace
from lakebed.governance.rbac import Privilege
from lakebed.objects.model import Caller
from tests.catalog.harness import CatalogHarness, a_table
from tests.catalog.test_catalog_grants import holding
from tests.objects.stores import ROOT

AS_ROOT = Mutation(ROOT)
T = Identifier(("a", "b"), "t")
SENDING = (
    Privilege.TABLE_CREATE,
    Privilege.TABLE_WRITE_PROPERTIES,
    Privilege.TABLE_DROP,
    Privilege.NAMESPACE_CREATE,
    Privilege.NAMESPACE_DROP,
)


class Sender:
    """Another catalog, and the files of one of its tables."""

    def __init__(self, catalog: CatalogHarness, uuid: str) -> None:
        self.catalog = catalog
        self.uuid = uuid
        self.notifications = NotificationReceiver(
            catalog.store.object_context,
            catalog.authorizer,
            catalog.catalogs,
            catalog.namespaces,
            catalog.entries,
            catalog.registration,
            catalog.dropping,
        )

    def at(self, version: int) -> str:
        """The metadata location of a version of the table."""
        return f"s3://sea/mirror/files/t/metadata/{version}.metadata.json"

    async def send(
        self,
        kind: NotificationKind,
        timestamp: int,
        version: int = 1,
        *,
        at: str = "",
        uuid: str = "",
        caller: Caller = ROOT,
        warehouse: str = "mirror",
        table: Identifier = T,
    ) -> None:
        notification = Notification(kind, timestamp, uuid or self.uuid, at or self.at(version))
        await self.notifications.receive(Mutation(caller), warehouse, table, notification)

    async def version(self, table: Identifier = T) -> str | None:
        """The metadata location of the table; None without a table."""
        try:
            found = await self.catalog.entries.find(self.catalog.store.meta, "mirror", table)
        except NoSuchNamespace:
            return None
        return None if found.live is None else found.live.metadata_at

    async def names(self) -> list[tuple[str, ...]]:
        """The top-level namespaces."""
        page = await self.catalog.namespaces.list(ROOT, "mirror", (), after="", limit=10)
        return [one.levels for one in page.items]


async def open_sender(catalog: CatalogHarness) -> Sender:
    """With an external catalog `mirror`, and three versions of a table whose files are in it."""
    await catalog.make("source", "s3://sea/source")
    await catalog.namespaces.create(AS_ROOT, "source", ("ns",), {})
    await catalog.make("mirror", "s3://sea/mirror", kind=CatalogKind.EXTERNAL)
    draft = await catalog.creation.stage(AS_ROOT, "source", ("ns",), a_table("t"))
    document = draft.document.replace(draft.metadata.location.encode(), b"s3://sea/mirror/files/t")
    for version in (1, 2, 3):
        await catalog.store.put("sea", f"mirror/files/t/metadata/{version}.metadata.json", document)
    return Sender(catalog, draft.metadata.uuid or "")


@pytest.fixture
async def sender(catalog: CatalogHarness) -> Sender:
    return await open_sender(catalog)


async def test_create_registers_the_table_and_creates_its_namespaces(sender: Sender) -> None:
    await sender.send(NotificationKind.CREATE, 10)
    assert await sender.version() == sender.at(1)
    assert await sender.names() == [("a",)]


async def test_update_moves_the_pointer_or_registers_the_table(sender: Sender) -> None:
    await sender.send(NotificationKind.UPDATE, 10, 1)
    await sender.send(NotificationKind.CREATE, 11, 2)
    await sender.send(NotificationKind.UPDATE, 12, 3)
    assert await sender.version() == sender.at(3)


@pytest.mark.parametrize("kind", [NotificationKind.CREATE, NotificationKind.UPDATE, NotificationKind.DROP])
@pytest.mark.parametrize("timestamp", [10, 9])
async def test_notification_that_is_not_newer_is_rejected(
    sender: Sender, kind: NotificationKind, timestamp: int
) -> None:
    await sender.send(NotificationKind.CREATE, 10)
    with pytest.raises(AlreadyExists, match="newer notification"):
        await sender.send(kind, timestamp, 2)
    assert await sender.version() == sender.at(1)


async def test_order_survives_a_drop(sender: Sender) -> None:
    await sender.send(NotificationKind.CREATE, 10)
    await sender.send(NotificationKind.DROP, 20)
    with pytest.raises(AlreadyExists):
        await sender.send(NotificationKind.UPDATE, 15, 2)
    assert await sender.version() is None
    await sender.send(NotificationKind.CREATE, 21, 3)
    assert await sender.version() == sender.at(3)


async def test_drop_of_an_unknown_table_is_remembered(sender: Sender) -> None:
    await sender.send(NotificationKind.DROP, 20)
    with pytest.raises(AlreadyExists):
        await sender.send(NotificationKind.CREATE, 19)
    assert await sender.names() == []


async def test_drop_does_not_wait_for_a_restore(sender: Sender) -> None:
    await sender.catalog.catalogs.set_properties(ROOT, "mirror", updates={UNDROP_WINDOW: "3600"}, removals=[])
    await sender.send(NotificationKind.CREATE, 1)
    await sender.send(NotificationKind.DROP, 2)
    await sender.send(NotificationKind.CREATE, 3, 2)
    assert await sender.version() == sender.at(2)


async def test_validation_changes_nothing(sender: Sender) -> None:
    await sender.send(NotificationKind.VALIDATE, 10)
    await sender.send(NotificationKind.VALIDATE, 10, at="s3://sea/mirror/files/t")
    await sender.send(NotificationKind.UNKNOWN, 10)
    assert (await sender.version(), await sender.names()) == (None, [])
    with pytest.raises(InvalidInput, match="outside"):
        await sender.send(NotificationKind.VALIDATE, 10, at="s3://sea/source/files/t")


@pytest.mark.parametrize(
    ("at", "uuid", "why"),
    [
        ("s3://sea/source/1.metadata.json", "", "outside"),
        ("s3://elsewhere/1.metadata.json", "", "outside"),
        ("s3://sea/mirror/files/t/metadata/9.metadata.json", "", "metadata file does not exist"),
        ("s3://sea/mirror/other/1.metadata.json", "", "outside the table's directory"),
        ("", "9c12d441-03fe-4693-9a96-a0705ddf69c1", "another table"),
    ],
)
async def test_metadata_of_another_table_or_location_is_rejected(sender: Sender, at: str, uuid: str, why: str) -> None:
    body = await sender.catalog.store.get("sea", "mirror/files/t/metadata/1.metadata.json")
    await sender.catalog.store.put("sea", "mirror/other/1.metadata.json", body)
    with pytest.raises(InvalidInput, match=why):
        await sender.send(NotificationKind.CREATE, 10, at=at, uuid=uuid)
    assert await sender.version() is None
    await sender.send(NotificationKind.CREATE, 10)  # rejected notifications do not count


async def test_internal_catalogs_accept_no_notifications(sender: Sender) -> None:
    with pytest.raises(InvalidInput, match="only external catalogs"):
        await sender.send(NotificationKind.CREATE, 10, warehouse="source")


async def test_sending_requires_all_privileges_on_the_catalog(sender: Sender) -> None:
    key = f"catalog {(await sender.catalog.catalogs.find(sender.catalog.store.meta, 'mirror')).id}"
    for missing in SENDING:
        caller = holding(*((key, one) for one in SENDING if one is not missing))
        for kind in NotificationKind:
            with pytest.raises(AccessDenied):
                await sender.send(kind, 10, caller=caller)
    await sender.send(NotificationKind.CREATE, 10, caller=holding(*((key, one) for one in SENDING)))
    assert await sender.version() == sender.at(1)


@pytest.mark.parametrize("arriving", list(permutations([(1, "CREATE"), (2, "UPDATE"), (3, "DROP"), (4, "CREATE")])))
async def test_newest_notification_wins_in_any_order_of_arrival(
    light_catalog: CatalogHarness, arriving: tuple[tuple[int, str], ...]
) -> None:
    sender = await open_sender(light_catalog)
    newest = 0
    for timestamp, kind in arriving:
        if timestamp > newest:
            newest = timestamp
            await sender.send(NotificationKind(kind), timestamp, min(timestamp, 3))
        else:
            with pytest.raises(AlreadyExists):
                await sender.send(NotificationKind(kind), timestamp, min(timestamp, 3))
    assert await sender.version() == sender.at(3)
