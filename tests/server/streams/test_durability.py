"""When records of streams are acknowledged, by the metadata store and the setting."""

from __future__ import annotations

import pytest

from lakebed.core.secrets import Secret
from lakebed.core.settings import MetaSettings, Settings, StreamsSettings
from lakebed.server.streams.composition import acks_after_upload

SHARED = MetaSettings(url=Secret("postgresql://lake@db/lake"))


@pytest.mark.parametrize(
    ("meta", "said", "uploads"),
    [
        (SHARED, None, True),
        (MetaSettings(), None, False),
        (SHARED, False, False),
        (MetaSettings(), True, True),
    ],
)
def test_where_servers_can_share_a_store_records_are_uploaded_before_they_are_acknowledged(
    meta: MetaSettings, said: bool | None, uploads: bool
) -> None:
    assert acks_after_upload(Settings(meta=meta, streams=StreamsSettings(ack_after_upload=said))) is uploads
