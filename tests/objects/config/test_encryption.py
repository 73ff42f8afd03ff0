from __future__ import annotations

import pytest

from lakebed.core.errors import InvalidEncryption, NotSupported
from lakebed.objects.config.encryption import EncryptionAlgorithm, parse_encryption_algorithm


def test_only_server_side_keys_are_supported() -> None:
    assert parse_encryption_algorithm("AES256") is EncryptionAlgorithm.AES256
    for name in ("aws:kms", "aws:kms:dsse"):
        with pytest.raises(NotSupported, match=name):
            parse_encryption_algorithm(name)
    for name in ("", "aes256", "ROT13"):
        with pytest.raises(InvalidEncryption):
            parse_encryption_algorithm(name)
