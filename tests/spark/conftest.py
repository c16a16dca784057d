"""One Spark session for all Spark tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from checker import session
from harness.model.errors import Missing
from tests.conftest import absent


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Two slots, Python workers warm."""
    try:
        started = session.start("local[2]", "tests")
    except Missing as error:
        absent(str(error))
    yield started
    started.stop()
