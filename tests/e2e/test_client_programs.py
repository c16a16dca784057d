"""Client programs, `--client exec:COMMAND`: an honest one under faults, and wrong ones that the verdict must find."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import nightly_if
from tests.e2e.harness_command import LIGHT, harness, ops, run

PROGRAM = Path(__file__).with_name("line_client.py")
# Interpreters and checkouts often lie where only root may look.
AS_ROOT = ("--client-user", "root")
OFTEN = ("--nemesis-interval", "3")
GROUP = ("--sub-via", "subscribe", "--nemesis", "kill:client,rebalance")
# An aborted output is known as one only if the instance that made it did not make it again and commit it: if the last
# transaction before its partition moves is aborted.
ABORTS = ("--abort-p", "0.6", "--churn-interval", "3", "--time-limit", "20")
MOCK = ("--cluster", "mock", "--time-limit", "8")


def client(mistake: str = "") -> tuple[str, ...]:
    return ("--client", f"exec:{sys.executable} {PROGRAM} {mistake}".strip(), *AS_ROOT, *LIGHT)


@pytest.mark.long
def test_an_honest_program_under_faults(tmp_path: Path) -> None:
    faults = ("--nemesis", "kill:client,pause:client,leader-kill", "--nemesis-interval", "4", "--time-limit", "14")
    ran = run(tmp_path, *client(), *faults, "--sub-via", "subscribe")
    assert ran.code == 0, ran.out
    assert all(f"{fault}: " in ran.out for fault in ("kill:client", "pause:client", "kill:leader")), ran.out
    plan = yaml.safe_load((ran.folder / "plan.yaml").read_text())
    assert "confluent-kafka" in plan["versions"]
    events = [event["event"] for op in ops(ran.folder) for event in op.get("extra", {}).get("rebalance_log", ())]
    # How often the group rebalances in these seconds is up to the machine: the case `revocation` of `harness client
    # check` has two members, and waits until partitions are revoked.
    assert "assigned" in events, events


@pytest.mark.long
@pytest.mark.parametrize(
    ("mistake", "options", "anomaly"),
    [
        nightly_if(False, "hands-over-twice", MOCK, "nonmonotonic-poll"),
        nightly_if(False, "claims-nothing-was-sent", MOCK, "G1a"),
        nightly_if(False, "acknowledges-early", (*MOCK, "--nemesis", "kill:client", *OFTEN), "lost-write"),
        nightly_if(True, "commits-what-it-aborted", ("--txn", "--time-limit", "8"), "G1a"),
        nightly_if(True, "swallows-errors", ("--nemesis", "leader-pause", "--time-limit", "15"), "lost-write"),
        nightly_if(True, "skips-after-a-rebalance", (*GROUP, *OFTEN, "--time-limit", "12"), "poll-skip"),
    ],
)
def test_a_wrong_program_is_found(tmp_path: Path, mistake: str, options: tuple[str, ...], anomaly: str) -> None:
    ran = run(tmp_path, *client(mistake), *options)
    assert ran.code == 1 and anomaly in ran.anomalies, ran.out


@pytest.mark.long
@pytest.mark.parametrize(
    ("mistake", "options", "anomalies"),
    [
        nightly_if(True, "", ("--nemesis", "kill:client,leader-kill", "--nemesis-interval", "5"), set()),
        nightly_if(True, "commits-what-it-aborted", ABORTS, {"duplicate-output", "aborted-output"}),
    ],
)
def test_a_pipeline(tmp_path: Path, mistake: str, options: tuple[str, ...], anomalies: set[str]) -> None:
    load = ("--writers", "1", "--instances", "2", "--partitions", "4", "--rate", "40")
    pipeline = ("--workload", "pipeline", *load, "--churn-interval", "5", "--time-limit", "12")
    program = f"exec:{sys.executable} {PROGRAM} {mistake}".strip()
    ran = run(tmp_path, *pipeline, "--client", program, *AS_ROOT, *options, timeout_s=400, spark_master="local[*]")
    assert ran.code == (1 if anomalies else 0) and anomalies <= ran.anomalies, ran.out
    outputs = [json.loads(line) for path in (ran.folder / "pipeline").glob("read-*.jsonl") for line in path.open()]
    assert sum(row.get("side") == "output" and row["committed"] for row in outputs) > 50, ran.out


@pytest.mark.long
def test_the_honest_program_passes_every_case() -> None:
    command = f"{sys.executable} {PROGRAM}"
    done = harness("client", "check", command, *AS_ROOT, "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0 and all(each["outcome"] == "passed" for each in report["cases"]), done.stdout


@pytest.mark.long
def test_a_stored_command_is_executed_only_with_the_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For every command that takes a run or a plan."""
    mark, script = tmp_path / "executed", tmp_path / "script.sh"
    script.write_text(f"#!/bin/sh\ntouch {mark}\n")
    script.chmod(0o755)
    tmp_path.chmod(0o755)
    runs = tmp_path / "runs"
    ran = run(runs, "--cluster", "sim", "--sim-bugs", "lose-acked", "--seed", "7", "--time-limit", "5")
    plan = yaml.safe_load((ran.folder / "plan.yaml").read_text())
    plan |= {"client": [f"exec:{script}"], "client_user": "root", "cluster": "mock", "sim_bugs": []}
    (ran.folder / "plan.yaml").write_text(yaml.safe_dump(plan))
    matrix = tmp_path / "matrix.yaml"
    matrix.write_text(yaml.safe_dump({"plan": {"cluster": "mock", "client": [f"exec:{script}"]}, "axes": {"n": [{}]}}))
    monkeypatch.setenv("HARNESS_RUNS", str(runs))
    name = str(ran.folder)
    executing = [("run", "--plan", f"{name}/plan.yaml"), ("replay", name), ("shrink", name, "--schedule")]
    for arguments in executing:
        done = harness(*arguments)
        assert done.returncode == 254 and str(script) in done.stderr and "--allow-commands" in done.stderr, done
    assert "--allow-commands" in harness("matrix", str(matrix), "--runs", str(runs)).stdout
    plain = ("--spark-master", "none")
    reading = [
        ("check", name, *plain),
        ("show", name),
        ("explain", name),
        ("page", name),
        ("shrink", name, *plain),
        ("list",),
    ]
    for arguments in reading:
        done = harness(*arguments)
        assert done.returncode < 3, done
    assert not mark.exists()
    done = harness("run", "--plan", f"{name}/plan.yaml", "--allow-commands", "--spark-master", "none")
    assert done.returncode == 254 and f"executing {script}" in done.stdout and mark.exists(), done
