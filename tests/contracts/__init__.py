"""Contract suites that every implementation of an interface must pass."""

import pytest

# Before their first import, so that their assertions are rewritten like those of test modules.
pytest.register_assert_rewrite("tests.contracts.storage", "tests.contracts.meta")
