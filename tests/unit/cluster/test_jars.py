"""The jar cache: complete or absent, checked, shared between processes, offline once filled."""

from __future__ import annotations

import hashlib
import threading
import time
from pathlib import Path

import pytest

from harness.cluster.distribution import jars
from harness.cluster.distribution.java import Java
from harness.model.errors_and_exit_codes import BadInput, Missing

JAVA = Java("/bin/false", 17, "/", "17")
FILES = {"a.jar": b"alpha", "b.jar": b"beta"}


@pytest.fixture
def fetches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A cache of its own, and a download that takes a moment; each one is noted."""
    calls: list[str] = []

    def fetch(version: str, java: Java, target: Path, progress: object) -> None:
        calls.append(version)
        target.mkdir()
        for name, content in FILES.items():
            time.sleep(0.02)
            (target / name).write_bytes(content)

    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(jars, "_fetch", fetch)
    return calls


def test_a_second_call_downloads_nothing(fetches: list[str]) -> None:
    first = jars.ensure("9.9.9", JAVA, print)
    assert jars.ensure("9.9.9", JAVA, print) == first == jars.cached("9.9.9")
    assert fetches == ["9.9.9"]
    assert first.files == ("a.jar", "b.jar")
    assert first.classpath == f"{first.folder}/a.jar:{first.folder}/b.jar"


def test_concurrent_runs_download_once(fetches: list[str]) -> None:
    threads = [threading.Thread(target=jars.ensure, args=("9.9.9", JAVA, print)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert fetches == ["9.9.9"]


@pytest.mark.parametrize("damage", ["shorter", "gone"])
def test_a_damaged_file_is_fetched_again(fetches: list[str], damage: str) -> None:
    path = jars.ensure("9.9.9", JAVA, print).folder / "b.jar"
    path.write_bytes(b"b") if damage == "shorter" else path.unlink()
    assert jars.cached("9.9.9") is None
    assert (jars.ensure("9.9.9", JAVA, print).folder / "b.jar").read_bytes() == b"beta"
    assert fetches == ["9.9.9"] * 2


def test_a_failed_download_leaves_nothing(fetches: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(version: str, java: Java, target: Path, progress: object) -> None:
        target.mkdir()
        (target / "half.jar").write_bytes(b"")
        raise Missing("the line went dead")

    monkeypatch.setattr(jars, "_fetch", broken)
    with pytest.raises(Missing, match="the line went dead"):
        jars.ensure("9.9.9", JAVA, print)
    assert [path.name for path in (tmp_path / "cache" / "kafka").iterdir()] == ["9.9.9.lock"]


def test_a_file_that_is_not_the_pinned_one_is_refused(fetches: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pins = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    monkeypatch.setattr(jars, "pinned", lambda version: {**pins, "b.jar": "0" * 64})
    with pytest.raises(Missing, match=r"pinned one, first b\.jar"):
        jars.ensure("9.9.9", JAVA, print)
    assert jars.cached("9.9.9") is None
    monkeypatch.setattr(jars, "pinned", lambda version: pins)
    assert jars.ensure("9.9.9", JAVA, print).files == ("a.jar", "b.jar")


def test_the_default_version_is_pinned() -> None:
    pins = jars.pinned(jars.DEFAULT_VERSION)
    assert pins is not None
    assert f"kafka_2.13-{jars.DEFAULT_VERSION}.jar" in pins
    assert all(len(digest) == 64 for digest in pins.values())


@pytest.mark.parametrize("version", ["", "4", "4.1", "4.1.1.1", "latest", "../../x", "4.1.1\n"])
def test_a_version_is_three_numbers(version: str) -> None:
    with pytest.raises(BadInput, match="three numbers"):
        jars.ensure(version, JAVA, print)


def test_a_cache_that_cannot_be_written_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(Missing, match="set HARNESS_CACHE"):
        jars.ensure("9.9.9", JAVA, print)


def test_an_unknown_version_is_told_from_no_network() -> None:
    with pytest.raises(BadInput, match="is not on Maven Central"):
        jars._explain("9.9.9", ["\t\t:: org.apache.kafka#kafka_2.13;9.9.9: not found"])
    nothing = [
        "\tHost repo.example not found. url=https://repo.example/x.pom",
        "\t\t:: org.apache.kafka#kafka_2.13;4.1.1: not found",
        "\t\t:: org.apache.logging.log4j#log4j-slf4j-impl;2.24.3: not found",
    ]
    with pytest.raises(Missing, match=r"Host repo\.example not found.*HARNESS_IVY_SETTINGS"):
        jars._explain("4.1.1", nothing)


def test_each_generation_of_brokers_gets_its_logging() -> None:
    assert "log4j-slf4j-impl" in jars.ivy_module("4.0.0")
    assert "slf4j-reload4j" in jars.ivy_module("3.9.1")


def test_ivy_without_a_network_is_reported_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real Ivy, behind a proxy that is not there."""
    from harness.cluster.distribution import java

    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1")
    with pytest.raises(Missing, match="could not be fetched"):
        jars.ensure("3.9.9", java.find(), print)
    assert [path.name for path in (tmp_path / "kafka").iterdir()] == ["3.9.9.lock"]
