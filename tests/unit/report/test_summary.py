"""The summary of a run, and the text about every anomaly's witnesses."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checker.anomalies.catalogue import CATALOGUE
from harness.model import op as ops_
from harness.model.check_options import CheckOptions, Settings
from harness.model.check_result import AnomalyFound, Result
from harness.model.op import Op
from harness.report.text import next_steps, summary, witness_text
from harness.stored import find_runs
from harness.stored.operations_and_records import of_run
from tests.unit.checker.cases import HISTORIES, cases
from tests.unit.report.folders import S, judged, killed, recorded, woven

EVERY = [name for name, anomaly in CATALOGUE.items() if anomaly.kind == "records"]


def flat(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def lost_run(runs: Path, **plan: Any) -> tuple[Path, Result]:
    """A leader is killed, and a record acknowledged meanwhile is lost."""

    def op(at_s: float, process: int, type_: str, f: str, value: Any, **extra: Any) -> Op:
        return Op(-1, int(at_s * S), process, type_, f, value, None, extra)

    end = {"final": True, "positions": [[1, 1]], "ends": [[1, 0, 1]]}
    ops = woven(
        killed(5, 15, "n2"),
        [
            op(1, 0, ops_.INVOKE, "send", [["send", 1, 7]]),
            op(1.004, 0, ops_.OK, "send", [["send", 1, [0, 7]]]),
            op(6, 0, ops_.INVOKE, "send", [["send", 1, 8]]),
            op(6.25, 0, ops_.OK, "send", [["send", 1, [1, 8]]]),
            op(20, 1, ops_.INVOKE, "assign", [1], seek_to_beginning=True, final=True),
            op(21, 1, ops_.OK, "assign", [1], seek_to_beginning=True, final=True),
            op(22, 1, ops_.INVOKE, "poll", [["poll"]], final=True),
            op(23, 1, ops_.OK, "poll", [["poll", [[1, [[0, 7]]]]]], **end),
        ],
    )
    folder = recorded(runs, "20260102T030405-kill", ops, **plan)
    settings = Settings(acks="all", replication=3, min_insync_replicas=2, unclean_election=False)
    return folder, judged(folder, CheckOptions(settings=settings))


def test_the_verdict_comes_first_and_says_whether_it_was_promised(tmp_path: Path) -> None:
    text = summary.summary(*lost_run(tmp_path))
    first = flat(text.split("\nrun ", 1)[0])
    assert first == "INVALID: lost-write (1), unseen (1). The settings (acks=all) guarantee that this cannot happen."


def test_a_lost_write_names_its_writer_its_place_and_the_fault(tmp_path: Path) -> None:
    text = flat(summary.summary(*lost_run(tmp_path)))
    assert (
        "Key 1, value 8: sent by process 0 at 6.000 s (op 4), while kill:leader n2 was active, acknowledged "
        "after 250.0 ms at offset 1. It was never read. The final polls found that the key's log ends at "
        "offset 1, so there is no record at the offset at which it was acknowledged."
    ) in text


def test_the_faults_the_counts_and_the_paths_are_there(tmp_path: Path) -> None:
    folder, result = lost_run(tmp_path)
    text = flat(summary.summary(folder, result))
    assert "kill:leader: 1 time, 1 took effect 5.0-15.0 s n2: 1 partition got a new leader (n3)" in text
    assert "records: 2 sent, 2 acknowledged (100%), 1 seen (50.0%), 1 lost (50.0%), 0 duplicated" in text
    assert "queue, nemesis kill:leader, acks=all, 30 s of load, Kafka 4.1.1" in text
    assert f"all witnesses: {folder}/results/witnesses plots: {folder}/plots" in text


def test_a_summary_fits_a_screen(tmp_path: Path) -> None:
    lines = summary.summary(*lost_run(tmp_path)).splitlines()
    assert len(lines) <= 40
    assert max(len(line) for line in lines if str(tmp_path) not in line) <= summary.WIDTH


def test_the_end_of_a_run_fits_a_screen_whatever_was_found(tmp_path: Path) -> None:
    folder, result = lost_run(tmp_path)
    anomaly = result.anomalies[0]
    many = [replace(anomaly, name=f"bad-{n}") for n in range(9)]
    fine = [replace(anomaly, name=f"fine-{n}", bad=False) for n in range(9)]
    full = replace(result, anomalies=(*many, *fine))
    text = summary.summary(folder, full, brief=True)
    assert text.startswith("INVALID") and len(text.splitlines()) <= 60
    assert all(f"bad-{n} " in flat(text) and f"fine-{n} " in flat(text) for n in range(9))
    assert re.findall(r"^bad-\d$", text, re.M) == ["bad-0", "bad-1", "bad-2"]
    assert "harness explain" not in text
    assert len(text) < len(summary.summary(folder, full))


def test_what_to_do_next_goes_by_the_verdict(tmp_path: Path) -> None:
    folder, result = lost_run(tmp_path)
    text = next_steps.text(folder, result)
    assert text.startswith(f"next: harness show {folder} ")
    (folder / find_runs.PAGE).write_text("")
    lines = next_steps.text(folder, result).splitlines()
    assert [line.split()[1 if n else 2] for n, line in enumerate(lines)] == [
        "open",
        "explain",
        "replay",
        "shrink",
    ]
    assert f"harness explain {folder} lost-write" in lines[1]
    valid = next_steps.text(folder, Result("valid", None, (), (), {}))
    unknown = next_steps.text(folder, Result("unknown", None, ("why",), (), {}))
    assert f"--plan {folder / 'plan.yaml'} --seed N" in valid and "--time-limit" in unknown
    assert "shrink" not in valid + unknown


@pytest.mark.parametrize("named", ["client: [confluent, 'exec:./mine']", "app: {command: ./app}"])
def test_a_plan_with_commands_is_run_again_only_with_permission(tmp_path: Path, named: str) -> None:
    folder, result = lost_run(tmp_path)
    assert "--allow-commands" not in next_steps.text(folder, result)
    (folder / "plan.yaml").write_text(named)
    lines = next_steps.text(folder, result).splitlines()
    assert [f"harness replay {folder} --allow-commands" in line for line in lines] == [False, False, True, False]
    valid = next_steps.text(folder, Result("valid", None, (), (), {}))
    assert "plan.yaml --allow-commands --seed N" in valid


def test_a_fault_that_was_over_is_not_blamed(tmp_path: Path) -> None:
    folder, _ = lost_run(tmp_path)
    known = summary.witness({"key": 1, "value": 7, "writer": 1, "end": 1, "offset": 0}, "lost-write", of_run(folder))
    assert "op 1" in known and "kill" not in known


def test_a_history_file_has_its_witnesses_by_their_indices(tmp_path: Path) -> None:
    folder, result = lost_run(tmp_path)
    text = flat(summary.summary(folder / "history" / "00000.jsonl", result))
    assert "INVALID: lost-write (1)" in text
    assert "Key 1, value 8: sent by op 4" in text
    assert "plots" not in text and "faults" not in text


def test_missing_or_damaged_tables_cost_only_details(tmp_path: Path) -> None:
    folder, result = lost_run(tmp_path)
    (folder / "tables" / "nemesis.parquet").write_bytes(b"PAR1 not really")
    assert "sent by op 4" in flat(summary.summary(folder, result))
    shutil.rmtree(folder / "tables")
    assert "sent by op 4" in flat(summary.summary(folder, result))


def test_no_witnesses_if_none_are_asked_for(tmp_path: Path) -> None:
    assert "Key 1, value 8" not in summary.summary(*lost_run(tmp_path), witnesses=0)


def test_unknown_says_why(tmp_path: Path) -> None:
    one = Result("unknown", None, ("the fault kill:leader never took effect",), (), {"ops": 1})
    two = Result("unknown", None, ("first reason", "second reason"), (), {})
    assert summary.summary(tmp_path, one).splitlines()[0] == "UNKNOWN: the fault kill:leader never took effect"
    assert summary.summary(tmp_path, two).splitlines()[0] == "UNKNOWN: first reason (and 1 more reason)"
    assert "- second reason" in summary.summary(tmp_path, two)


def test_valid_says_how_much_was_looked_at(tmp_path: Path) -> None:
    fine = AnomalyFound("int-send-skip", "Others are between.", 3, False, False)
    text = summary.summary(tmp_path, Result("valid", None, (), (fine,), {"ops": 12345}))
    assert text.splitlines()[0] == "VALID: no anomaly in 12,345 operations"
    assert "do not affect the verdict" in text


def test_what_there_was_to_judge_in_the_metadata_log(tmp_path: Path) -> None:
    figures = {"servers": 3, "compared": 1480, "epochs": 1, "snapshots_compared": 5, "elections": 34}
    text = summary.summary(tmp_path, Result("valid", None, (), (), {"metadata": figures}))
    line = "metadata log: 1,480 records compared on 3 servers, 1 epoch, 5 snapshots, 34 partition elections"
    assert line in text
    assert "metadata log" not in summary.summary(tmp_path, Result("valid", None, (), (), {"metadata": {}}))


@pytest.mark.parametrize("promised", [True, False, None])
def test_each_promise_has_its_sentence(tmp_path: Path, promised: bool | None) -> None:
    found = AnomalyFound("duplicate", "Twice.", 2, True, promised)
    text = summary.summary(tmp_path, Result("invalid", promised, (), (found,)))
    assert {True: "guarantee that", False: "do not rule", None: "is unknown"}[promised] in flat(text)


def test_mixed_guarantees_are_stated_per_anomaly(tmp_path: Path) -> None:
    found = (
        AnomalyFound("duplicate", "Twice.", 2, True, False),
        AnomalyFound("G1a", "Aborted.", 2, True, True),
    )
    text = summary.summary(tmp_path, Result("invalid", True, (), found))
    assert "Twice. (The settings do not rule this out.)" in flat(text)
    assert "Aborted. (The settings guarantee that this cannot happen.)" in flat(text)


@pytest.mark.parametrize(
    ("part", "text"),
    [(1, "1 seen (< 0.1%)"), (99_999, "99,999 seen (> 99.9%)"), (100_000, "(100%)"), (0, "0 seen")],
)
def test_a_share_is_never_rounded_to_all_or_nothing(tmp_path: Path, part: int, text: str) -> None:
    figures = {"sent": 100_000, "acknowledged": 100_000, "seen": part}
    assert text in summary.summary(tmp_path, Result("valid", None, (), (), figures))


@pytest.mark.parametrize("name", EVERY)
def test_every_anomaly_is_described_with_the_ops_and_offsets_of_its_case(tmp_path: Path, name: str) -> None:
    """With tables the text names process and time; without, at least the ops. It is never a list of raw fields."""
    case = next(case for case in cases() if case.path == HISTORIES / name / "positive.jsonl")
    (tmp_path / "history").mkdir()
    shutil.copy(case.path, tmp_path / "history" / "00000.jsonl")
    result = judged(tmp_path, case.options)
    (found,) = (found for found in result.anomalies if found.name == name)
    for witness in found.witnesses:
        full, bare = (
            witness_text.witness_text(name, witness, of_run(tmp_path)),
            witness_text.witness_text(name, witness, None),
        )
        fields = ", ".join(f"{field} {value}" for field, value in witness.items())
        assert full != fields and bare != fields
        full, bare = full.lower(), bare.lower()
        for field in ("op", "writer", "reader"):
            if witness.get(field) is not None:
                assert f"op {witness[field]}" in full and f"op {witness[field]}" in bare
        for index in witness.get("ops", ()):
            assert f"op {index}" in full
        if name not in ("unseen",):
            assert re.search(r"process \d+ ", full), full
        if name not in ("unseen", "torn-transaction", "poll-skip"):
            assert "offset" in full, full


def test_one_value_polled_twice_by_one_op_has_both_offsets(tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    shutil.copy(HISTORIES / "duplicate" / "positive.jsonl", tmp_path / "history" / "00000.jsonl")
    result = judged(tmp_path)
    (found,) = (found for found in result.anomalies if found.name == "int-nonmonotonic-poll")
    assert "value 2 at offset 1 and then value 2 at offset 2" in witness_text.witness_text(
        found.name, found.witnesses[0], of_run(tmp_path)
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [("bad-payload:checksum:00ff", "damaged (it begins with 00ff)"), ("bad-payload:run:", "another run")],
)
def test_a_payload_that_does_not_verify_is_explained(value: str, message: str) -> None:
    witness = {"key": 1, "value": value, "offset": 4, "op": 9, "count": 3}
    text = witness_text.witness_text("phantom-read", witness, None)
    assert message in text and "the first of 3 such records" in text


def test_an_unknown_anomaly_and_a_changed_witness_are_shown_as_fields() -> None:
    assert witness_text.witness_text("new-one", {"key": 1, "ops": list(range(20))}, None).startswith(
        "key 1, ops 0, 1, 2"
    )
    assert witness_text.witness_text("duplicate", {"other": 5}, None) == "other 5"
