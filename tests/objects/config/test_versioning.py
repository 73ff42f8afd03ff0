from __future__ import annotations

import pytest

from lakebed.core.errors import InvalidBucketState
from lakebed.objects.config.versioning import Versioning, check_versioning_change


def test_only_enabled_versioning_keeps_versions() -> None:
    assert [versioning.keeps_versions for versioning in Versioning] == [False, True, False]


def test_locked_bucket_cannot_suspend_versioning() -> None:
    check_versioning_change(Versioning.SUSPENDED, locked=False)
    check_versioning_change(Versioning.ENABLED, locked=True)
    with pytest.raises(InvalidBucketState, match="object lock"):
        check_versioning_change(Versioning.SUSPENDED, locked=True)
