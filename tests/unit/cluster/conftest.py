"""What tests of namespaces need."""

from __future__ import annotations

import pytest

from harness.cluster.local import namespaces
from tests.conftest import absent


@pytest.fixture(scope="session")
def need_namespaces() -> None:
    """Skip, or fail in CI, where the system refuses namespaces."""
    allowed, reason = namespaces.available()
    if not allowed:
        absent(f"namespaces are refused: {reason}")
