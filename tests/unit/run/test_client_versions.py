"""The client libraries and versions that a plan names, and the messages if one is not available."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cli.app import invoke
from harness.cluster.distribution import download_cache, jars
from harness.model.errors_and_exit_codes import BadInput
from harness.plan import derived, from_options, make_plan, plan_file
from harness.report.text import client_names
from harness.run import client_versions, start_workers


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"client": "no-such-client"}, "--client no-such-client"),
        ({"client": ""}, "--client"),
        ({"client": "noop,java"}, "--client noop must be the only library"),
        ({"client": "confluent,aiokafka", "retries": 3}, "--retries 3 cannot be combined with --client aiokafka"),
        ({"client": "confluent,java", "client_version": "2.1.0"}, "as in confluent=2.1.0"),
        ({"client": "java", "client_version": "confluent=2.1.0"}, "confluent is not among the libraries"),
        ({"client_version": "confluent=,"}, "NAME=VERSION"),
        (
            {"client": "java", "cluster": "external", "bootstrap": "b:1", "client_config": "f"},
            "--client-config cannot be combined with --client java",
        ),
    ],
)
def test_clients_that_make_no_sense_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make_plan.make(values)


def test_a_plan_keeps_its_clients(tmp_path: Path) -> None:
    values = from_options.plan_values({"client": "confluent,java,confluent", "concurrency": 4}, {})
    made = make_plan.make(values)
    assert derived.libraries(made) == ("confluent", "java", "confluent")
    assert start_workers.libraries_of_slots(made) == ["confluent", "java", "confluent", "confluent"]
    (tmp_path / "plan.yaml").write_text(plan_file.dump(made))
    assert plan_file.load(tmp_path / "plan.yaml").client == made.client
    # Plans of experiments, and those of earlier versions, name a single library.
    assert derived.libraries(make_plan.make({"client": "java"})) == ("java",)
    assert derived.libraries(make_plan.make({"cluster": "sim"})) == ("sim",)


def test_versions_of_several() -> None:
    made = make_plan.make({"client": "confluent,java,aiokafka", "client_version": "java=3.9.1, confluent=2.1.0"})
    assert derived.client_versions(made) == {"java": "3.9.1", "confluent": "2.1.0"}
    used = client_versions.used(made)
    assert (used["java"], used["confluent"]) == ("3.9.1", "2.1.0") and used["aiokafka"]
    assert client_versions.used(make_plan.make({"client": "java"})) == {"java": jars.DEFAULT_VERSION}


def test_workers_find_the_versions_that_were_named_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fetched = []

    def install(package: str, version: str, target: Path) -> None:
        fetched.append((package, version))

    monkeypatch.setattr(download_cache, "root", lambda: tmp_path)
    monkeypatch.setattr(client_versions, "_install", install)
    made = make_plan.make({"client": "confluent,aiokafka", "client_version": "confluent=2.1.0,aiokafka=0.12.0"})
    for _ in range(2):  # the second time from the cache
        path = client_versions.worker_env(made, lambda line: None)["PYTHONPATH"].split(":")
    assert [Path(each).name.rpartition("-")[0] for each in path[:2]] == [
        "confluent-kafka-2.1.0",
        "aiokafka-0.12.0",
    ]
    assert fetched == [("confluent-kafka", "2.1.0"), ("aiokafka", "0.12.0")]
    assert client_versions.worker_env(make_plan.make({"client": "java"}), lambda line: None) == {}


def test_a_missing_library_is_reported_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(client_versions.importlib.util, "find_spec", lambda name: None)  # type: ignore[attr-defined]
    monkeypatch.chdir(tmp_path)
    assert invoke(["run", "--cluster", "mock", "--client", "confluent,aiokafka"]) == 254
    heard = capsys.readouterr()
    assert "confluent-kafka is not installed: pip install confluent-kafka" in heard.err
    assert "Traceback" not in heard.err and not list((tmp_path / "runs").glob("*"))
    assert invoke(["run", "--cluster", "mock", "--client", "aiokafka", "--quiet"]) == 254
    assert "--client-version aiokafka=X.Y.Z" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, ""),
        ({"client_version": "2.1.0"}, "client confluent 2.1.0"),
        ({"client": "java"}, "client java"),  # as in plans of earlier versions
        (
            {"client": "aiokafka,java", "concurrency": 5, "client_version": "java=3.9.1"},
            "clients aiokafka in slots 0, 2, 4; java in slots 1, 3 "
            "(a process's slot is its number modulo 5; versions java=3.9.1)",
        ),
    ],
)
def test_runs_record_their_client_libraries(given: dict[str, Any], message: str) -> None:
    assert client_names.client_text(yaml.safe_load(plan_file.dump(make_plan.make(given)))) == message
