"""A fixture for tests that need namespaces."""

from __future__ import annotations

import pytest

from harness.cluster.local import namespaces
from tests.conftest import absent


@pytest.fixture(scope="session")
def need_namespaces() -> None:
    """Skips the test, or fails in CI, if the system refuses namespaces."""
    allowed, reason = namespaces.available()
    if not allowed:
        absent(f"namespaces are refused: {reason}")
