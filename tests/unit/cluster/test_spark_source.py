"""Spark's Kafka source: which downloaded files are kept, and the message if it is not available."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from harness.cluster.distribution import jars, spark_source
from harness.cluster.distribution.java import Java
from harness.cluster.distribution.spark_source import Release
from harness.model.errors_and_exit_codes import Missing

JAVA = Java("/bin/java", 17, "/", "17.0.1")


def retrieving(monkeypatch: pytest.MonkeyPatch, known: Release | None) -> list[str]:
    """An Ivy that has only one release; returns the list of requests."""
    modules: list[str] = []

    def retrieve(module: str, java: Java, target: Path, progress: Any) -> tuple[int, list[str]]:
        modules.append(module)
        if known is None or module != spark_source.ivy_module(known, spark_source._scala()):
            return 1, [":: org.apache.spark#some;1: not found"]
        target.mkdir(parents=True, exist_ok=True)
        for name in ("kafka-new-1.0.jar", "scala-library-2.13.99.jar"):
            (target / name).write_bytes(b"x")
        return 0, []

    monkeypatch.setattr(jars, "retrieve", retrieve)
    return modules


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))


def test_its_own_release_comes_first_and_is_fetched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    own = version("pyspark")
    modules = retrieving(monkeypatch, Release(own, own))
    found = spark_source.ensure(JAVA, lambda _: None)
    assert (found.version, found.note) == (own, "")
    assert [path.name for path in found.files] == ["kafka-new-1.0.jar"]  # PySpark includes Scala
    assert spark_source.ensure(JAVA, lambda _: None) == found and len(modules) == 1


def test_another_release_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    retrieving(monkeypatch, spark_source.FALLBACKS[0])
    found = spark_source.ensure(JAVA, lambda _: None)
    assert f"the Kafka source of Spark {found.version}" in found.note


def test_none_is_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    retrieving(monkeypatch, None)
    with pytest.raises(Missing, match=r"could not be fetched from Maven Central .*not found"):
        spark_source.ensure(JAVA, lambda _: None)


def test_a_file_that_is_not_the_pinned_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    retrieving(monkeypatch, spark_source.FALLBACKS[0])
    monkeypatch.setattr(spark_source, "_pinned", lambda: {"kafka-new-1.0.jar": "0" * 64})
    with pytest.raises(Missing, match=r"kafka-new-1\.0\.jar differs from the pinned"):
        spark_source.ensure(JAVA, lambda _: None)
