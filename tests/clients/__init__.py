"""Real clients on a running server."""

import pytest

pytest.register_assert_rewrite("tests.clients.boto", "tests.clients.contract")
