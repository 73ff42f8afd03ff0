"""Contract suites: what every implementation of a seam must do, run over each of them."""

import pytest

# Before anybody imports them, so that their assertions tell as much as those of test modules.
pytest.register_assert_rewrite("tests.contracts.storage", "tests.contracts.meta")
