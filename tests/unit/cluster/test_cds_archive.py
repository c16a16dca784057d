"""Archives of loaded classes: created once, mapped by later processes, and never required."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness.cluster.distribution import cds_archive, java
from harness.cluster.distribution.jars import Jars
from harness.cluster.distribution.java import Java
from harness.model.errors_and_exit_codes import Missing

JARS, JAVA = Jars("4.1.1", Path("/j"), ("a.jar",)), Java("/bin/java", 17, "/", "17.0.1")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    monkeypatch.delenv("HARNESS_CLASSES_TO", raising=False)
    return tmp_path / "classes"


def writes(argv: list[str], env: dict[str, str]) -> tuple[str, bool]:
    Path(env["HARNESS_CLASSES_TO"]).write_text("classes")
    return "", True


def test_it_is_made_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def run(argv: list[str], env: dict[str, str]) -> tuple[str, bool]:
        made.append(argv[-1])
        return writes(argv, env)

    monkeypatch.setattr(cds_archive, "_run", run)
    messages: list[str] = []
    flags = [cds_archive.of_kafka(JAVA, JARS, messages.append) for _ in range(2)]
    (archive,) = cache.glob("*.jsa")
    assert made == ["4.1.1"] and len(messages) == 1 and "once" in messages[0]
    assert flags[0] == flags[1] and flags[0][0] == f"-XX:SharedArchiveFile={archive}"
    assert not list(cache.glob("*.part"))


def test_one_that_cannot_be_made_is_tried_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    monkeypatch.setattr(cds_archive, "_run", lambda argv, env: (made.append(argv) or "no such option", True))
    assert [cds_archive.of_kafka(JAVA, JARS, print) for _ in range(2)] == [(), ()]
    assert len(made) == 1
    (failed,) = cache.glob("*.failed")
    assert failed.read_text() == "no such option"


def test_one_that_took_too_long_may_be_half_written(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cds_archive, "_run", lambda argv, env: (writes(argv, env)[0], False))
    assert cds_archive.of_kafka(JAVA, JARS, print) == ()
    assert not list(cache.glob("*.jsa"))


def test_an_unusable_cache_does_not_prevent_spark_from_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "file"))
    assert cds_archive.of_spark(JAVA) == ()


def test_each_java_and_class_path_has_its_own(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cds_archive, "_run", writes)
    newer, other = Java("/bin/java", 17, "/", "17.0.2"), Jars("4.1.1", Path("/k"), ("a.jar",))
    for found, fetched in ((JAVA, JARS), (newer, JARS), (JAVA, other)):
        cds_archive.of_kafka(found, fetched, print)
    assert len(list(cache.glob("*.jsa"))) == 3


def test_of_spark_the_last_three_stay(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.mkdir()
    for age in range(1, 6):
        (cache / f"spark-old-{age}.jsa").write_text("")
        os.utime(cache / f"spark-old-{age}.jsa", (1000 - age, 1000 - age))
    monkeypatch.setattr(cds_archive, "_run", writes)
    assert cds_archive.of_spark(JAVA) == ()
    cds_archive.make_spark(JAVA, print)
    assert cds_archive.of_spark(JAVA)
    kept = {path.name for path in cache.glob("spark-*.jsa")}
    assert len(kept) == 3 and {"spark-old-1.jsa", "spark-old-2.jsa"} < kept


def test_a_jvm_maps_an_archive_of_another_and_tolerates_an_invalid_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        found = java.find()
    except Missing as error:
        from tests.conftest import absent

        absent(str(error))
    to = tmp_path / "some.jsa"
    monkeypatch.setenv("HARNESS_CLASSES_TO", str(to))
    _java(found, *cds_archive.of_spark(found))
    assert to.stat().st_size > 100_000
    using = cds_archive._using(to)
    assert "shared objects file (top)" in _java(found, "-Xlog:class+load=info", *using)
    assert _java(found, *using) == _java(found) and "version" in _java(found)
    other = tmp_path / "other.jsa"
    other.write_text("no archive")
    assert _java(found, *cds_archive._using(other)) == _java(found)


def test_a_truncated_archive_is_not_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cds_archive, "_run", writes)
    cds_archive.make_spark(JAVA, print)
    assert cds_archive.of_spark(JAVA)
    (archive,) = cache.glob("*.jsa")
    archive.write_text("clas")
    assert cds_archive.of_spark(JAVA) == ()


def _java(found: Java, *flags: str) -> str:
    done = subprocess.run([found.path, *flags, "-version"], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr.replace(", sharing", "")
