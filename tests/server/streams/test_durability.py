"""When stream records are acknowledged, by metadata store and setting."""

from __future__ import annotations

import pytest

from lakebed.core.secrets import Secret
from lakebed.core.settings import MetaSettings, Settings, StreamsSettings
from lakebed.server.streams.composition import acks_after_upload

SHARED = MetaSettings(url=Secret("postgresql://lake@db/lake"))


@pytest.mark.parametrize(
    ("meta", "ack_after_upload", "uploads"),
    [
        (SHARED, None, True),
        (MetaSettings(), None, False),
        (SHARED, False, False),
        (MetaSettings(), True, True),
    ],
)
def test_shared_metadata_store_requires_upload_before_acknowledgement(
    meta: MetaSettings, ack_after_upload: bool | None, uploads: bool
) -> None:
    assert acks_after_upload(Settings(meta=meta, streams=StreamsSettings(ack_after_upload=ack_after_upload))) is uploads
