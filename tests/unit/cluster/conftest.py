"""What tests of namespaces need."""

from __future__ import annotations

import os

import pytest

from harness.cluster import namespaces


@pytest.fixture(scope="session")
def need_namespaces() -> None:
    """Skip, or fail in CI, where the system refuses namespaces."""
    allowed, reason = namespaces.available()
    if not allowed:
        if os.environ.get("CI"):
            pytest.fail(f"namespaces are refused: {reason}")
        pytest.skip(f"namespaces are refused: {reason}")
