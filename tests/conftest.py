"""Shared by all tests: the --soak option, a single Spark session, and the handling of missing programs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from checker.spark import session
from harness.cluster.distribution import cds_archive, java
from harness.model.errors_and_exit_codes import Missing


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="the repetition counts of `make soak`")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeats tests with the fixture `repetition` as their marker says: `repeat(ci, soak)`, or
    `repeat(ci, nightly, soak)`, where the first `ci` repetitions run in CI and the others at night."""
    if "repetition" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("repeat")
        assert marker is not None, f"{metafunc.definition.nodeid} asks for repetition without @repeat"
        in_ci, *_, soak = marker.args
        count = soak if metafunc.config.getoption("--soak") else marker.args[-2]
        metafunc.parametrize("repetition", [nightly_if(n >= in_ci, n) for n in range(count)])


def nightly_if(nightly: bool, *values: Any, id: str | None = None) -> Any:
    """The parameters of a test that runs in CI, or only at night."""
    return pytest.param(*values, marks=[pytest.mark.nightly] if nightly else [], id=id)


# Files with tests of a minute or more start first, so that none of them runs alone at the end.
SLOWEST_FIRST = (
    "test_upgrades",
    "test_faults",
    "test_tutorial",
    "test_docker_cluster",
    "test_kafka_versions",
    "test_log_model",
    "test_spark_cluster",
    "test_pipeline_runs",
    "test_persistent_cluster",
    "test_qos",
    "test_durability",
    "test_example_clients",
    "test_client_libraries",
    "test_ssh_cluster",
    "test_wheel",
    "test_recovery_scenarios",
    "test_external_cluster",
    "test_harness_killed",
    "test_experiments",
    "test_real_runs",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: number for number, name in enumerate(SLOWEST_FIRST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))


def absent(reason: str) -> None:
    """Reports that a requirement is missing on this machine: a failure in CI, a skip elsewhere."""
    if os.environ.get("CI"):
        pytest.fail(f"absent in CI: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A Spark session with two slots and running Python workers."""
    try:
        flags = cds_archive.of_spark(java.find())
        started = session.start("local[2]", "tests", brief=True, jvm_flags=flags)
    except Missing as error:
        absent(str(error))
    yield started
    started.stop()
