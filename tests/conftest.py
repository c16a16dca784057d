"""Shared by all tests: the soak option, one Spark session, and one rule for what is absent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from checker.spark import session
from harness.cluster.distribution import cds_archive, java
from harness.model.errors import Missing


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="the repetition counts of `make soak`")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`repetition` runs a test as often as its `repeat(ci, soak)` marker says."""
    if "repetition" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("repeat")
        assert marker is not None, f"{metafunc.definition.nodeid} asks for repetition without @repeat"
        count = marker.args[1] if metafunc.config.getoption("--soak") else marker.args[0]
        metafunc.parametrize("repetition", range(count))


def absent(reason: str) -> None:
    """What a test needs is not on this machine: a failure in CI, a skip elsewhere."""
    if os.environ.get("CI"):
        pytest.fail(f"absent in CI: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Two slots, Python workers warm."""
    try:
        flags = cds_archive.of_spark(java.find())
        started = session.start("local[2]", "tests", brief=True, jvm_flags=flags)
    except Missing as error:
        absent(str(error))
    yield started
    started.stop()
