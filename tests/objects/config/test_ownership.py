from __future__ import annotations

import pytest

from lakebed.core.errors import NotSupported
from lakebed.objects.config.ownership import ObjectOwnership, Payer, check_ownership, check_payer


def test_bucket_owner_is_the_only_owner_and_payer() -> None:
    check_ownership(ObjectOwnership.BUCKET_OWNER_ENFORCED)
    check_payer(Payer.BUCKET_OWNER)
    for ownership in (ObjectOwnership.BUCKET_OWNER_PREFERRED, ObjectOwnership.OBJECT_WRITER):
        with pytest.raises(NotSupported, match=ownership.value):
            check_ownership(ownership)
    with pytest.raises(NotSupported, match="Requester"):
        check_payer(Payer.REQUESTER)
