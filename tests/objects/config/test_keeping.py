"""Every setting can be encoded to bytes and decoded to an equal, valid value."""

from __future__ import annotations

import importlib
import pkgutil

import msgspec
import pytest

from lakebed.core.errors import InvalidInput
from lakebed.objects import config
from lakebed.objects.config.cors import CorsConfiguration, CorsRule
from lakebed.objects.config.encryption import BucketEncryption
from lakebed.objects.config.lifecycle import (
    Expiration,
    LifecycleConfiguration,
    LifecycleFilter,
    LifecycleRule,
    NoncurrentExpiration,
)
from lakebed.objects.config.object_lock import (
    DefaultRetention,
    LegalHold,
    ObjectLockConfiguration,
    Retention,
    RetentionMode,
)
from lakebed.objects.config.ownership import ObjectOwnership, Payer
from lakebed.objects.config.public_access import PublicAccessBlock
from lakebed.objects.config.tagging import Tag, TagSet
from lakebed.objects.config.versioning import Versioning

SETTINGS = [
    Versioning.SUSPENDED,
    TagSet((Tag("a", "1"), Tag("b", ""))),
    LifecycleConfiguration(
        (
            LifecycleRule(
                "r",
                True,
                LifecycleFilter("p", (Tag("a", "1"),), 1, 2),
                Expiration(days=1),
                NoncurrentExpiration(1, 2),
            ),
            LifecycleRule("s", False, LifecycleFilter(), abort_uploads_after_days=2, has_legacy_prefix=True),
        )
    ),
    CorsConfiguration((CorsRule(("*",), ("GET",), ("x-*",), ("ETag",), 1, "i"), CorsRule(("a",), ("PUT",)))),
    ObjectLockConfiguration(DefaultRetention(RetentionMode.COMPLIANCE, years=1)),
    Retention(RetentionMode.GOVERNANCE, 5),
    LegalHold.ON,
    BucketEncryption(bucket_key_enabled=True),
    PublicAccessBlock(block_public_policy=True),
    ObjectOwnership.BUCKET_OWNER_ENFORCED,
    Payer.BUCKET_OWNER,
]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: type(setting).__name__)
def test_setting_survives_encoding(setting: object) -> None:
    for codec in (msgspec.json, msgspec.msgpack):
        assert codec.decode(codec.encode(setting), type=type(setting)) == setting


def test_decoding_validates_settings() -> None:
    with pytest.raises((InvalidInput, msgspec.ValidationError)):
        msgspec.json.decode(b'{"tags":[{"key":"","value":""}]}', type=TagSet)


def test_public_names_exist() -> None:
    for module in pkgutil.iter_modules(config.__path__, config.__name__ + "."):
        loaded = importlib.import_module(module.name)
        assert all(hasattr(loaded, name) for name in loaded.__all__)
